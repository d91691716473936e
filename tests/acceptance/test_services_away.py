"""Submitting while a service is away: without the broker it works, without the database it says so (rules J1, J18)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from config import clock
from console.demo import Site
from models.db import Database
from tests.support.command_line import CommandLine
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.servers import PostgresServer, ValkeyServer
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.paired, pytest.mark.timeout(90)]
ANSWERS_WITHIN_SEC = 5.0


@pytest.fixture
def own_valkey() -> Iterator[ValkeyServer]:
    """A broker that the test may stop."""
    server = ValkeyServer().start()
    yield server
    server.stop()
    server.remove()


def test_j1_jobs_that_are_submitted_while_the_broker_is_stopped_run_when_it_is_back(
    store: Store, workers: Workers, own_valkey: ValkeyServer
) -> None:
    store.broker_url = store.valkey_url = own_valkey.url
    with fleet(store, [Site("gd-one", columns={"news": 4}), Site("gd-two", columns={"news": 4})]) as site:
        workers.start("one")
        own_valkey.stop()
        line, ids = CommandLine(store.settings().home), []
        for code in ("gd-one_news", "gd-two_news"):
            started = clock.Stopwatch()
            found = line.json("submit", code, **store.environment())
            figure(f"submit without a broker {store.db.dialect}: {started.elapsed():.1f} s")
            assert found["created"]
            ids.append(found["job_id"])
        assert {store.row(job_id).status for job_id in ids} <= {"queued", "running"}
        own_valkey.start()
        for job_id in ids:
            assert store.wait_for(job_id, "done", timeout=40)["outcome"] == "complete"
        site.assert_whole(store)
        site.assert_polite()


def test_j1_a_submit_without_the_database_fails_with_a_sentence(tmp_path: Path, valkey: ValkeyServer) -> None:
    server = PostgresServer().start()
    url = server.create_database()
    db = Database(url)
    try:
        store = Store(tmp_path, db, valkey.url)
        store.db.dispose()
        server.stop()
        started = clock.Stopwatch()
        done = CommandLine(store.settings().home).run("submit", "gd-one_news", **store.environment())
        took = started.elapsed()
    finally:
        db.dispose()
        server.stop()
        server.remove()
    figure(f"submit without a database: exit {done.returncode} after {took:.1f} s")
    assert done.returncode == 3
    assert took < ANSWERS_WITHIN_SEC
    assert "does not answer" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
