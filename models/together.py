"""Transactions of several threads, committed as one where there can be but one writer.

Whoever comes while nobody writes is the writer; whoever comes meanwhile leaves his work and waits. The writer does all
that has gathered in one transaction and then wakes the others, the first of those that came meanwhile as the next
writer. Nobody goes on before his own work is committed, and nobody's failure is another's: if anything in a common
transaction fails, it is undone as a whole and each work is done again in one of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
C = TypeVar("C")
#: so many works at most in one transaction: the first must not wait for long
MOST = 32


class _Entry(Generic[C]):
    """One thread's work, and how it ended."""

    __slots__ = ("error", "is_over", "result", "waiting", "work")

    def __init__(self, work: Callable[[C], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        # a lock is the cheapest thing that one thread can wait for and another can end
        self.waiting = threading.Lock()
        self.waiting.acquire()

    def end(self, result: Any, error: BaseException | None = None) -> None:
        """Keep how it ended; its thread still waits."""
        self.result, self.error, self.is_over = result, error, True


class Together(Generic[C]):
    """Runs works in common transactions; `transaction` opens one, committed at its end, undone on an exception."""

    def __init__(self, transaction: Callable[[], AbstractContextManager[C]]) -> None:
        self._transaction = transaction
        self._changing = threading.Lock()
        self._gathered: list[_Entry[C]] = []
        self._is_written = False

    def do(self, work: Callable[[C], T]) -> T:
        """Return what `work` returns, once it is committed; raise what it raises, once it is undone.

        `work` may be done twice: it must change nothing outside the transaction.
        """
        entry = _Entry(work)
        with self._changing:
            self._gathered.append(entry)
            must_wait, self._is_written = self._is_written, True
        if must_wait:
            entry.waiting.acquire()
        if not entry.is_over:
            self._write()
        if entry.error is not None:
            raise entry.error
        result: T = entry.result
        return result

    def _write(self) -> None:
        """Do what has gathered, this thread's own first, and hand the writing on."""
        with self._changing:
            batch, self._gathered = self._gathered[:MOST], self._gathered[MOST:]
        try:
            self._commit(batch)
        finally:
            with self._changing:
                following = self._gathered[0] if self._gathered else None
                self._is_written = following is not None
            for entry in (*batch[1:], following):
                if entry is not None:
                    entry.waiting.release()

    def _commit(self, batch: list[_Entry[C]]) -> None:
        try:
            with self._transaction() as conn:
                results = [entry.work(conn) for entry in batch]
        except BaseException as error:
            if len(batch) == 1:
                batch[0].end(None, error)
                return
            for entry in batch:
                self._commit([entry])
            return
        for entry, result in zip(batch, results, strict=True):
            entry.end(result)
