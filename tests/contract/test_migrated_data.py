"""D3: a database of the release before, with work in it, is brought to the head and goes on working."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, insert

from models.articles import articles
from models.db import Database
from models.jobs import jobs
from models.migrate import _config, current, migrate
from models.schema import HEAD
from tests.support.ledger import START, Bench
from tests.support.servers import PostgresServer


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database at 0001, as the first release left it."""
    from alembic import command

    if request.param == "sqlite":
        db = Database(f"sqlite:///{tmp_path}/ratelane.sqlite3")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        db = Database(server.create_database())
        with db.write() as conn:
            # the server's template may be migrated already
            conn.exec_driver_sql("DROP SCHEMA public CASCADE")
            conn.exec_driver_sql("CREATE SCHEMA public")
    with db.write() as conn:
        config = _config()
        config.attributes["connection"] = conn
        command.upgrade(config, "0001")
    yield db
    db.dispose()


def fill(db: Database) -> None:
    """Store what a fleet leaves behind: a queued, a running and a finished job, attempts, a pause, an article."""
    tables = MetaData()
    with db.read() as conn:
        tables.reflect(conn)
    at: Any = START if db.dialect == "postgresql" else int(START.timestamp()) * 1_000_000
    later: Any = START + timedelta(seconds=60) if db.dialect == "postgresql" else at + 60_000_000
    times = {"created_at": at, "updated_at": at}
    job = {"kind": "crawl", "enqueued_at": at, "queue_at": at, "updated_at": at}
    attempt = {"attempt": 1, "worker": "w", "boot_id": "b", "source": "manual", "claimed_at": at}
    rows: dict[str, list[dict[str, Any]]] = {
        "rate_groups": [{"key": key, "created_at": at, "claim_no": 7, "ready_at": ready}
                        for key, ready in (("g1", at), ("g2", None), ("g3", None))],
        "sites": [{"site_code": f"s{n}", "base_url": f"http://s{n}/", "cms_adapter": "list", "group_key": f"g{n}",
                   "group_rule": "test", "options": "{}" if db.dialect == "sqlite" else {}, **times} for n in (1, 2, 3)],
        "targets": [{"target_code": f"t{n}", "site_code": f"s{n}", "interval_sec": 10.0, "track_checkpoint": True,
                     "enabled": True, "options": "{}" if db.dialect == "sqlite" else {}, "options_hash": "h", **times}
                    for n in (1, 2, 3)],
        "jobs": [
            {**job, "job_id": "waits", "site_code": "s1", "target_code": "t1", "group_key": "g1", "status": "queued",
             "last_completed_page": 4},
            {**job, "job_id": "runs", "site_code": "s2", "target_code": "t2", "group_key": "g2", "status": "running",
             "attempt": 1, "claim_no": 7, "lease_until": later, "claimed_at": at, "started_at": at, "boot_id": "b",
             "worker": "w"},
            {**job, "job_id": "ended", "site_code": "s3", "target_code": "t3", "group_key": "g3", "status": "done",
             "attempt": 1, "finished_at": at},
        ],
        "attempts": [{**attempt, "job_id": "runs", "group_key": "g2"},
                     {**attempt, "job_id": "ended", "group_key": "g3", "finished_at": at, "outcome": "done"}],
        "articles": [{"target_code": "t3", "site_code": "s3", "url": "http://s3/1", "sha256": "x", "generation": 1,
                      "job_id": "ended", "fetched_at": at, "source_page": "p", "title": "公告"}],
    }
    with db.write() as conn:
        for name, some in rows.items():
            for row in some:
                conn.execute(insert(tables.tables[name]).values(row))


def test_d3_a_database_with_work_in_it_goes_on_after_the_migration(old: Database) -> None:
    fill(old)
    assert current(old) == "0001"
    assert migrate(old) == ("0001", HEAD)
    bench = Bench(old)
    before = {row["job_id"]: row for row in bench.rows(jobs)}
    assert {name: row["status"] for name, row in before.items()} == {"waits": "queued", "runs": "running", "ended": "done"}
    assert before["waits"]["callbacks"] is None
    assert [row["title"] for row in bench.rows(articles)] == ["公告"]

    started = bench.start(bench.claim())
    assert (started.claim.job_id, started.last_completed_page, started.claim.claim_no) == ("waits", 4, 8)
    bench.settle(started, result={"ok": True})
    assert bench.job("waits")["status"] == "done"

    bench.clock.advance(61)  # the worker of before did not come back
    assert [one.job_id for one in bench.reaper.reap()] == ["runs"]
    bench.clock.advance(10)
    again = bench.start(bench.claim())
    assert (again.claim.job_id, again.claim.attempt) == ("runs", 2)
    bench.settle(again, result={"ok": True})

    bench.submit("t3", expires_sec=5)
    bench.clock.advance(5)
    assert bench.ledger.expire() == 1
    assert bench.reaper.sweep() == 0
    bench.clock.advance(31 * 86_400)
    assert bench.ledger.prune().rows["jobs"] == 4
