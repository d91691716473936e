"""The set that holds what a walk has met: the same as one in memory, without taking any (rule P2)."""

from __future__ import annotations

import os
import sqlite3
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import Parked
from tasks.pipeline.diskset import DiskSet

_TEXTS = st.lists(st.text(max_size=3), max_size=40)


@given(_TEXTS, _TEXTS, st.integers(0, 5))
def test_it_holds_what_a_set_in_memory_holds(added: list[str], asked: list[str], in_memory: int) -> None:
    found = DiskSet(in_memory)
    try:
        found.update(added)
        assert found.of(asked) == set(added) & set(asked)
        assert all((one in found) == (one in added) for one in asked)
    finally:
        found.close()


def test_what_was_spilled_is_found_by_the_thousand() -> None:
    found = DiskSet(10)
    found.update(f"http://a.cn/{number}" for number in range(3_000))
    assert found.of([f"http://a.cn/{number}" for number in range(2_000, 5_000)]) == {f"http://a.cn/{number}" for number in range(2_000, 3_000)}
    found.close()
    assert found.of(["http://a.cn/1"]) == set()


def _files() -> set[str]:
    """Return what the files are called that this process has open, but for pipes and the like."""
    folder = Path("/proc/self/fd")
    return {target for one in os.listdir(folder) if (target := _target(folder / one)).startswith("/")}


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def test_a_hundred_thousand_take_no_memory_and_leave_no_file() -> None:
    before = _files()
    tracemalloc.start()
    try:
        found = DiskSet()
        found.update(f"http://www.example.org/news/2026/11/notice-{number}.html" for number in range(100_000))
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()
    assert "http://www.example.org/news/2026/11/notice-7.html" in found
    (file,) = _files() - before
    # it has no name any more: nothing is left, however the process ends
    assert file.endswith("(deleted)")
    found.close()
    assert _files() == before


def test_d5_a_full_disk_parks_the_crawl(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object, **__: object) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite3, "connect", connect)
    found = DiskSet(1)
    with pytest.raises(Parked) as told:
        found.update("ab")
    assert (told.value.reason, told.value.delay_sec > 0) == ("storage", True)
