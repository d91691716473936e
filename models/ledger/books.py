"""What every verb of the ledger stands on: the database, the settings, and whose clock counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from config import clock
from config.logs import get_logger
from config.settings import Settings
from models.base import from_micros
from models.db import Database
from models.statements import postgres, queueing, sqlite

log = get_logger("ratelane.ledger")


def no_clock() -> datetime | None:
    """Leave the time to the database; tests hand in another."""
    return None


class Books:
    """One database's jobs. `now` is for tests only: None leaves the time to the database."""

    def __init__(self, db: Database, settings: Settings, now: Callable[[], datetime | None] = no_clock) -> None:
        self.db, self.settings, self._now = db, settings, now
        #: the hot transactions in this database's own way
        self.hot: Any = postgres if db.dialect == "postgresql" else sqlite

    def at(self) -> dict[str, Any]:
        """Return the parameter that carries a test's clock into a statement, nothing otherwise."""
        now = self._now()
        return {} if now is None else {"p_now": now}

    def moment(self) -> dict[str, Any]:
        """Return the same for a statement that turns ages into times: the database's time when they were taken.

        A process that is held up before the statement runs shifts nothing then. SQLite's clock is this machine's own.
        """
        known = self.at()
        if known:
            return known
        if self.db.dialect == "sqlite":
            return {"p_now": from_micros(clock.now_micros())}
        return {"p_now": self.db.server_clock.now()}

    def notify(self, conn: Connection) -> None:
        """Wake the workers when `conn`'s transaction commits, never after a rollback; nothing on SQLite (rule J5).

        To be called by every verb that makes work due for others: submit, requeue, resume, hand back.
        """
        queueing.notify(conn)

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter of what was refused or repaired."""
        with self.db.write() as conn:
            queueing.count(conn, name, by)
