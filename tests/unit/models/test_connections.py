"""How many connections a process holds at most (design, section 3): nothing is connected here, only counted."""

from __future__ import annotations

from config.settings import Settings
from models.db import Database
from routing.lanes.desk import Desk

URL = "postgresql+psycopg://nobody@127.0.0.1:1/nothing"
#: the one that listens for NOTIFY
LISTENER = 1


def most(db: Database) -> int:
    """Return how many connections a database opens at most."""
    return sum(engine.pool.size() for engine in {db.engine, db._single})  # type: ignore[attr-defined]


def test_a_worker_holds_at_most_sixteen_connections() -> None:
    desk = Desk(Settings(database_url=URL), "w", None)
    assert most(Database(URL)) + most(desk.db) + LISTENER <= 16
