"""Hearing that there is new work (rule J5): a session of its own that listens, or a file of which one sees that it changed.

Neither ever holds a transaction or a lock that somebody waits for. What is heard carries nothing: whoever hears it looks.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from sqlalchemy import make_url

from config import clock
from models.db import postgresql_arguments
from models.forks import GATE

if TYPE_CHECKING:
    import psycopg

#: the channel of `NOTIFY`; one notification a transaction, without a payload
CHANNEL = "ratelane"
LISTENER = "ratelane-listener"
#: another look at what was heard, this much later: a fold passes over rows that somebody holds just then
ECHO_SEC = 0.03
FILE_LOOK_SEC = 0.1
_BUSY_SEC = 1.0


class News(Protocol):
    """Where a worker hears of new work. Every call but `close` may raise what the driver raises."""

    #: how long to collect what is said in quick succession before it is looked at again
    pace_sec: float

    def open(self) -> None:
        """Begin to listen; whatever was said before may have been missed."""

    def heard(self, timeout: float) -> bool:
        """Wait until something is heard, at most about `timeout` seconds, and tell whether there was anything."""

    def close(self) -> None:
        """Stop listening; may be repeated."""


def news_of(url: str) -> News:
    """Return where new work in the database `url` is heard of."""
    return FileChanges(url) if make_url(url).get_backend_name() == "sqlite" else Notifications(url)


class Notifications:
    """PostgreSQL's notifications, on a connection outside every pool that is never in a transaction."""

    pace_sec = ECHO_SEC

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._line: psycopg.Connection[Any] | None = None

    def open(self) -> None:
        """Connect and LISTEN."""
        import psycopg  # slow to import, and nobody on SQLite needs it

        _, where = self._url.get_dialect()().create_connect_args(self._url)
        self._line = psycopg.connect(
            **{**where, **postgresql_arguments(reports=False), "application_name": LISTENER}, autocommit=True)
        self._line.execute(f"LISTEN {CHANNEL}")

    def heard(self, timeout: float) -> bool:
        """Wait for a notification."""
        assert self._line is not None
        return bool(list(self._line.notifies(timeout=timeout, stop_after=1)))

    def close(self) -> None:
        """End the session."""
        line, self._line = self._line, None
        if line is not None:
            line.close()


class FileChanges:
    """SQLite tells nobody anything, but a connection sees that others have committed since it last asked.

    Asking is a read of the write-ahead log's index and takes no lock that a writer waits for. Commits of this process
    on other connections count too. A fork closes the file (`models.forks`); what was committed meanwhile is reported.
    """

    pace_sec = FILE_LOOK_SEC

    def __init__(self, url: str) -> None:
        self._path = make_url(url).database or ""
        self._line: sqlite3.Connection | None = None
        self._version: int | None = None
        GATE.watch(self)

    def open(self) -> None:
        """Take the file as it is now for known."""
        self._changed()

    def heard(self, timeout: float) -> bool:
        """Look, and once more after a moment if `timeout` allows it."""
        if self._changed():
            return True
        clock.pause(min(timeout, FILE_LOOK_SEC))
        return timeout > 0 and self._changed()

    def _changed(self) -> bool:
        with GATE.using():
            opened = self._line is None
            if self._line is None:
                self._line = sqlite3.connect(
                    f"file:{quote(self._path)}?mode=rw", uri=True, timeout=_BUSY_SEC, isolation_level=None,
                    check_same_thread=False)
            (version,) = self._line.execute("PRAGMA data_version").fetchone()
        known, self._version = self._version, version
        return opened or version != known

    def dispose(self) -> None:
        """Close the file before a fork; it is opened again when somebody next looks."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def close(self) -> None:
        """Close the file."""
        with GATE.using():
            self.dispose()
