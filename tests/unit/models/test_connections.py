"""How many connections a process holds at most (design, section 3), and what a connection that cannot be made raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from config.settings import Settings
from models.db import Database, is_transient
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


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_j18_a_connection_that_cannot_be_made_is_an_error_to_wait_for(dialect: str, tmp_path: Path) -> None:
    """Where the pool hands the driver's own error on, nobody above would take it for a database that is away."""
    database = Database(URL if dialect == "postgresql" else f"sqlite:///{tmp_path / 'nowhere' / 'file.db'}")
    with pytest.raises(OperationalError) as raised:
        database.together(lambda conn: conn.exec_driver_sql("SELECT 1").scalar_one())
    assert is_transient(raised.value)
    database.dispose()
