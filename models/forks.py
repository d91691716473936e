"""Forking without an open SQLite file.

SQLite keeps what it has locked in the memory of the process, by file. A child that is forked while its parent has the
file open takes the parent's locks for its own: it waits for ever for a writer that it is not, or reads and writes
through locks that it does not have. So a fork waits until no thread uses a SQLite database, and closes what is pooled;
parent and child open it again when they next need it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

#: longer than a connection waits for another process's lock; after that the fork goes on as it is
PATIENCE_SEC = 15.0


class Pooled(Protocol):
    """What keeps connections for later."""

    def dispose(self) -> None:
        """Close every connection that nobody uses."""


class ForkGate:
    """Counts who uses a SQLite database of this process, and keeps forks away from them."""

    def __init__(self) -> None:
        self._pools: weakref.WeakSet[Pooled] = weakref.WeakSet()
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._users = 0
        self._forking = False
        self._mine = threading.local()

    def watch(self, pool: Pooled) -> None:
        """From now on dispose of what `pool` keeps before a fork."""
        self._pools.add(pool)

    @contextmanager
    def using(self) -> Iterator[None]:
        """Keep forks away for the length of the block; waits for one that is under way, except inside another block."""
        depth = getattr(self._mine, "depth", 0)
        if not depth:
            with self._changed:
                self._changed.wait_for(lambda: not self._forking)
                self._users += 1
        self._mine.depth = depth + 1
        try:
            yield
        finally:
            self._mine.depth = depth
            if not depth:
                with self._changed:
                    self._users -= 1
                    self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait until nobody uses a database, and close what is pooled."""
        if not self._pools:
            return
        own = 1 if getattr(self._mine, "depth", 0) else 0
        with self._changed:
            self._forking = True
            self._changed.wait_for(lambda: self._users <= own, PATIENCE_SEC)
        for pool in list(self._pools):
            pool.dispose()

    def after_fork_in_parent(self) -> None:
        """Let everybody go on."""
        with self._changed:
            self._forking = False
            self._changed.notify_all()

    def after_fork_in_child(self) -> None:
        """Forget the parent's threads: none of them lives here."""
        self._reset()


GATE = ForkGate()
os.register_at_fork(before=GATE.before_fork, after_in_parent=GATE.after_fork_in_parent,
                    after_in_child=GATE.after_fork_in_child)
