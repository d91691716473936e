"""Works of several threads in one transaction: who waits for what, and whose failure is whose."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from models.together import MOST, Together
from tests.support.ledger import in_thread
from tests.support.servers import wait_until


class Book:
    """What a database would be: each transaction's entries appear at its commit, all or none of them."""

    def __init__(self) -> None:
        self.committed: list[list[str]] = []
        self.refuses: Callable[[list[str]], bool] = lambda _entries: False
        self.together: Together[list[str]] = Together(self._transaction)

    @contextmanager
    def _transaction(self) -> Iterator[list[str]]:
        entries: list[str] = []
        yield entries
        if self.refuses(entries):
            raise OSError(f"{entries} cannot be committed")
        self.committed.append(entries)

    def write(self, name: str) -> str:
        """Write an entry; returns its name, and that it is committed by then is what is tested."""
        found = self.together.do(lambda entries: entries.append(name) or name)
        assert any(name in batch for batch in self.committed), "it went on before its work was committed"
        return found

    @contextmanager
    def while_somebody_writes(self, gathered: int) -> Iterator[list[Future[Any]]]:
        """Hold the writer inside its transaction until so many others, which the block starts, have come."""
        begun, go_on = threading.Event(), threading.Event()

        def hold(entries: list[str]) -> None:
            begun.set()
            assert go_on.wait(10)
            entries.append("first")

        writer = in_thread(lambda: self.together.do(hold))
        assert begun.wait(10)
        others: list[Future[Any]] = []
        try:
            yield others
            wait_until(lambda: len(self.together._gathered) == gathered, "the gathering")
        finally:
            go_on.set()
        writer.result(10)


def test_what_comes_while_somebody_writes_is_committed_as_one() -> None:
    book = Book()
    with book.while_somebody_writes(5) as others:
        others += [in_thread(lambda name=name: book.write(name)) for name in "abcde"]
    assert sorted(one.result(10) for one in others) == list("abcde")
    assert book.committed[0] == ["first"]
    assert [sorted(batch) for batch in book.committed[1:]] == [list("abcde")]
    assert book.write("later") == "later", "the writing was not handed back"


def test_a_transaction_takes_so_many_works_at_most() -> None:
    book = Book()
    with book.while_somebody_writes(MOST + 3) as others:
        others += [in_thread(lambda name=name: book.write(str(name))) for name in range(MOST + 3)]
    for one in others:
        one.result(10)
    assert [len(batch) for batch in book.committed] == [1, MOST, 3]


def test_a_work_that_fails_fails_alone() -> None:
    book = Book()

    def fail(_entries: list[str]) -> None:
        raise LookupError("mine")

    with book.while_somebody_writes(3) as others:
        others += [in_thread(lambda: book.write("a")), in_thread(lambda: book.together.do(fail)),
                   in_thread(lambda: book.write("b"))]
    assert (others[0].result(10), others[2].result(10)) == ("a", "b")
    with pytest.raises(LookupError, match="mine"):
        others[1].result(10)
    assert sorted(entry for batch in book.committed for entry in batch) == ["a", "b", "first"]


def test_a_commit_that_fails_is_told_to_those_whom_it_concerns() -> None:
    book = Book()
    book.refuses = lambda entries: "bad" in entries
    with book.while_somebody_writes(2) as others:
        others += [in_thread(lambda: book.write("bad")), in_thread(lambda: book.write("good"))]
    with pytest.raises(OSError, match=r"\['bad'\]"):
        others[0].result(10)
    assert others[1].result(10) == "good"


def test_many_threads_write_everything_once() -> None:
    book = Book()
    names = [[f"{thread}.{number}" for number in range(50)] for thread in range(8)]
    for one in [in_thread(lambda mine=mine: [book.write(name) for name in mine]) for mine in names]:
        one.result(30)
    assert sorted(entry for batch in book.committed for entry in batch) == sorted(name for mine in names for name in mine)
