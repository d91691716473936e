from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from models import busy_file
from models.busy_file import begun
from tests.support.command_line import ROOT


def opened(path: Path) -> sqlite3.Connection:
    """A connection as ours are: nothing begins on its own."""
    line = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    line.execute("PRAGMA journal_mode=WAL")
    return line


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
    lines = opened(tmp_path / "store.sqlite3"), opened(tmp_path / "store.sqlite3")
    lines[0].execute("CREATE TABLE turns (number INTEGER)")
    yield lines
    for line in lines:
        line.close()


def patience(line: sqlite3.Connection) -> int:
    """How many milliseconds SQLite itself waits on a connection."""
    found: int = line.execute("PRAGMA busy_timeout").fetchone()[0]
    return found


def test_a_free_file_is_begun_at_once(two: tuple[sqlite3.Connection, sqlite3.Connection]) -> None:
    assert begun(two[0])
    assert (two[0].in_transaction, patience(two[0])) == (True, 10_000)


def test_a_file_that_becomes_free_is_begun_then(two: tuple[sqlite3.Connection, sqlite3.Connection]) -> None:
    holder, other = two
    assert begun(holder)
    timer = threading.Timer(0.1, holder.execute, ["COMMIT"])
    timer.start()
    assert begun(other)
    assert not holder.in_transaction
    timer.join()


def test_a_file_that_stays_busy_is_left_to_sqlite(
    two: tuple[sqlite3.Connection, sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_file, "_OFTEN_SEC", 0.05)
    assert begun(two[0])
    assert not begun(two[1])
    assert (two[1].in_transaction, patience(two[1])) == (False, 10_000)


def test_another_trouble_is_left_to_the_statement_itself(two: tuple[sqlite3.Connection, sqlite3.Connection]) -> None:
    assert begun(two[0])
    assert not begun(two[0]), "a transaction within a transaction"
    two[1].close()
    assert not begun(two[1])


WRITER = """
import sqlite3, sys
from config import clock
from models.busy_file import begun

line = sqlite3.connect(sys.argv[1], isolation_level=None)
print("ready", flush=True)
sys.stdin.readline()
age, turns = clock.Stopwatch(), 0
while age.elapsed() < 1.5:
    if begun(line):
        line.execute("INSERT INTO turns VALUES (1)")
        clock.pause(0.002)
        line.execute("COMMIT")
        turns += 1
print(turns)
"""


def test_two_processes_that_write_without_a_break_take_turns(
    two: tuple[sqlite3.Connection, sqlite3.Connection], tmp_path: Path
) -> None:
    """By SQLite's own waits the second one comes to its turn after tenths of a second, again and again."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "store.sqlite3"], cwd=ROOT, text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in two]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    turns = [int(writer.communicate(timeout=30)[0]) for writer in writers]
    assert min(turns) >= 10, turns
