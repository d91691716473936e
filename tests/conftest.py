"""What many tests share: real servers, one each a run, and a fresh migrated database on each of both of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.attempt import limits_of
from models.db import Database
from models.ledger import Ledger
from models.reaper import Reaper
from tests.support.proxy import Proxy
from tests.support.rabbit import RabbitServer
from tests.support.servers import PostgresServer, ValkeyServer
from tests.support.store import Shelf, Store
from tests.support.workers import Workers


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server (without it: a failure where ``CI`` is set, else a skip)."""
    server = PostgresServer()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    """A Valkey server."""
    server = ValkeyServer()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture(scope="session")
def rabbit() -> Iterator[RabbitServer]:
    """A RabbitMQ node (without it: a failure where ``CI_FULL`` is set, else a skip)."""
    server = RabbitServer()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Migrated databases to copy."""
    return Shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, shelf: Shelf, tmp_path: Path) -> Iterator[Database]:
    """A fresh migrated database, on each of both."""
    if request.param == "sqlite":
        found = shelf.sqlite(tmp_path / "home")
        yield found
        found.dispose()
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    found = shelf.postgresql(server)
    yield found
    found.dispose()
    server.drop_database(found.url)


@pytest.fixture
def store(database: Database, valkey: ValkeyServer, tmp_path: Path) -> Iterator[Store]:
    """A fresh database with an empty broker; at the end no lane may have needed a repair, or need one."""
    valkey.flush()
    made = Store(tmp_path, database, valkey.url)
    yield made
    settings = made.settings()
    assert Reaper(Ledger(database, settings), limits_of(settings)).sweep() == 0, "a lane with due work sleeps"
    assert made.counters()["repairs"] == 0, "a worker had to repair a lane"


@pytest.fixture
def proxy(store: Store, valkey: ValkeyServer) -> Iterator[Proxy]:
    """A proxy between the workers of this test and their broker."""
    with Proxy(valkey.port) as made:
        store.broker_url = made.broker_url
        yield made


@pytest.fixture
def workers(store: Store) -> Iterator[Workers]:
    """The workers of a test; what they wrote is shown if it fails."""
    made = Workers(store)
    yield made
    made.end()
    print(made.logs())
