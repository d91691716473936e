"""The servers that tests start are trusted by all other tests, so they are tested first."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import redis

from tests.support.servers import PostgresServer, ValkeyServer, missing


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


@pytest.fixture
def valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer().start()
    yield server
    server.remove()


def _plain(url: str) -> str:
    return url.replace("postgresql+psycopg", "postgresql")


def _fill(url: str) -> None:
    with psycopg.connect(_plain(url)) as line:
        line.execute("CREATE TABLE fact (x int)")


def test_each_test_gets_a_database_of_its_own_from_the_template(postgres: PostgresServer) -> None:
    postgres.set_template(_fill)
    first, second = postgres.create_database(), postgres.create_database()
    with psycopg.connect(_plain(first)) as line:
        line.execute("INSERT INTO fact VALUES (1)")
    with psycopg.connect(_plain(second)) as line:
        assert line.execute("SELECT count(*) FROM fact").fetchone() == (0,)
    postgres.drop_database(first)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(_plain(first))


def test_committed_rows_survive_a_crash_of_the_server(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    with psycopg.connect(_plain(url)) as line:
        line.execute("CREATE TABLE kept (x int)")
    postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(_plain(url))
    postgres.start()
    with psycopg.connect(_plain(url)) as line:
        assert line.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_valkey_restarts_on_its_port_with_or_without_memory(valkey: ValkeyServer) -> None:
    url = valkey.url
    valkey.client().set("key", "1")
    valkey.restart(keep_memory=True)
    assert valkey.client().get("key") == b"1"
    valkey.restart()
    assert valkey.client().get("key") is None
    assert valkey.url == url


def test_a_frozen_valkey_answers_nobody_until_it_thaws(valkey: ValkeyServer) -> None:
    valkey.freeze()
    with pytest.raises(redis.TimeoutError), valkey.client(0.1) as line:
        line.ping()
    valkey.thaw()
    assert valkey.client().ping()


def test_a_flushed_valkey_knows_nothing(valkey: ValkeyServer) -> None:
    valkey.client().set("key", "1")
    valkey.flush()
    assert valkey.client().get("key") is None


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_what_is_missing_skips_on_a_laptop_and_fails_elsewhere(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception)) as ended:
        missing("a server")
    assert ended.type is outcome
