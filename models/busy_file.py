"""A SQLite file that another process may be using: the beginning of a transaction that writes, and that of a new file.

SQLite looks whether its file is free after 1, 2, 5, 10 … 100 ms. A process with many lanes begins its next transaction a
fraction of a millisecond after the last one, so that those of another process stood still for whole tenths of a second.
"""

from __future__ import annotations

import random
import sqlite3
from typing import Any

from config import clock

#: how long SQLite itself waits for a file that is busy, at every statement
BUSY_SEC = 10.0
#: for so long it is looked often; who holds a file longer is stopped, or has a disk that is
_OFTEN_SEC = 1.0
_PAUSE_SEC = 0.0006


def begun(driver: Any) -> bool:
    """Begin on a connection of the driver's as soon as the file is free; False if it was not, or for another reason.

    Then the same statement is to be made as any other: it waits as long as SQLite does, and raises what there is to raise.
    """
    waited = clock.Stopwatch()
    try:
        driver.execute("PRAGMA busy_timeout=0")
        try:
            while not _begins(driver):
                if waited.elapsed() >= _OFTEN_SEC:
                    return False
                # never in step with somebody whose transactions all take as long
                clock.pause(_PAUSE_SEC * random.uniform(0.2, 1.0))
            return True
        finally:
            driver.execute(f"PRAGMA busy_timeout={int(1000 * BUSY_SEC)}")
    except sqlite3.Error:
        return False


def _begins(driver: Any) -> bool:
    try:
        driver.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


def use_wal(connection: Any) -> None:
    """Switch a file to write-ahead logging; on a new file SQLite refuses at once, without its busy timeout."""
    for tries in range(100):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or tries == 99:
                raise
            clock.pause(0.02)
