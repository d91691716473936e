"""Which databases, brokers and pools the worker contract is proved on, and what stands while it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from models import db
from models.db import Database
from routing.kinds import register
from tests.support.rabbit import RabbitServer
from tests.support.servers import PostgresServer, ValkeyServer
from tests.support.store import Shelf, Store
from tests.support.workers import Workers


class Broker(Protocol):
    """What a test does to a broker, whichever it is."""

    @property
    def url(self) -> str: ...
    def flush(self) -> None: ...
    def restart(self, *, keep_memory: bool = False) -> None: ...


@dataclass(frozen=True)
class Pair:
    """A database, a broker and a pool."""

    database: str
    broker: str
    pool: str

    def __str__(self) -> str:
        return f"{self.database}-{self.broker}-{self.pool}"


#: each database, broker and pool is in at least one of them
PAIRS = [
    pytest.param(pair, id=str(pair), marks=pytest.mark.acceptance)
    for pair in (
        Pair("sqlite", "valkey", "threads"), Pair("postgresql", "valkey", "prefork"),
        Pair("postgresql", "rabbitmq", "threads"), Pair("sqlite", "rabbitmq", "prefork"),
        Pair("postgresql", "rabbitmq", "solo"),
    )
]


@dataclass(frozen=True)
class Stand:
    """A pair with its servers up, a fresh database, an empty broker, and no workers yet."""

    pair: Pair
    store: Store
    broker: Broker
    workers: Workers

    def ensure(self, *names: str) -> None:
        """Have these workers running, of one slot each, so that two lanes that are ready go to two workers."""
        missing = [name for name in names if name not in self.workers.names]
        self.workers.start(*missing, pool=self.pair.pool, concurrency=1, app="tests.support.odd_tasks")

    def left_in_lanes(self) -> dict[str, int]:
        """Return the lanes in which messages are left in the broker, unacknowledged ones included."""
        if isinstance(self.broker, RabbitServer):
            return {name: number for name, number in self.broker.queues().items() if name.startswith("rg.") and number}
        assert isinstance(self.broker, ValkeyServer)
        with self.broker.client() as line:
            return {key.decode(): line.llen(key) for key in line.keys("rg.*")}


@contextmanager
def standing(pair: Pair, shelf: Shelf, folder: Path, request: pytest.FixtureRequest) -> Iterator[Stand]:
    """Make a stand for the length of a block; servers are those of the run."""
    broker: Broker = request.getfixturevalue("rabbit" if pair.broker == "rabbitmq" else "valkey")
    broker.flush()
    database, drop = _database(pair, shelf, folder, request)
    store = Store(folder, database, broker.url)
    workers = Workers(store)
    register("breaks", "odd.breaks")
    try:
        yield Stand(pair, store, broker, workers)
    finally:
        workers.end()
        print(workers.logs())
        database.dispose()
        db.after_fork()
        if drop is not None:
            drop.drop_database(database.url)


def _database(
    pair: Pair, shelf: Shelf, folder: Path, request: pytest.FixtureRequest
) -> tuple[Database, PostgresServer | None]:
    if pair.database == "sqlite":
        return shelf.sqlite(folder / "home"), None
    server: PostgresServer = request.getfixturevalue("postgres")
    return shelf.postgresql(server), server
