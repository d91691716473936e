"""What a claim reads does not grow with what is stored, nor with dead rows (design, section 1): PostgreSQL only.

The planner likes to read small and empty tables from their beginning, and a session keeps that plan while they grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from models.claim import Taker
from models.ledger import NewJob, writes_of
from models.outcome import Ended
from models.statements import postgres as hot
from tests.support.ledger import SMALL, START, Bench, seed
from tests.support.servers import PostgresServer
from tests.support.store import Shelf

TABLES = ("attempts", "jobs", "lane_wake", "rate_groups", "sites")


@pytest.fixture
def bench(postgres: PostgresServer, shelf: Shelf) -> Iterator[Bench]:
    database = shelf.postgresql(postgres)
    seed(database, SMALL)
    with database.read() as conn:
        conn.exec_driver_sql("ANALYZE")
    yield Bench(database)
    database.dispose()
    postgres.drop_database(database.url)


@contextmanager
def watched(bench: Bench) -> Iterator[tuple[Connection, list[str]]]:
    """Give a transaction and a list: at the block's end it names the tables that were read from their beginning."""
    found: list[str] = []
    with bench.db.write() as conn:
        before = _scans(conn)
        yield conn, found
        found += sorted(name for name, number in _scans(conn).items() if number > before.get(name, 0))


def _scans(conn: Connection) -> dict[str, int]:
    # the session's own counts, with what its earlier transactions have not handed on yet
    rows = conn.exec_driver_sql("SELECT relname, seq_scan FROM pg_stat_xact_user_tables").all()
    return {name: number for name, number in rows if name in TABLES}


def test_a_scan_would_be_seen(bench: Bench) -> None:
    with watched(bench) as (conn, scanned):
        conn.exec_driver_sql("SELECT count(*) FROM jobs").one()
    assert scanned == ["jobs"]


def test_hot_transactions_on_small_tables_are_planned_with_their_indexes(bench: Bench) -> None:
    for _ in range(3):
        bench.submit("t1")
        bench.submit("t2")
    with watched(bench) as (conn, scanned):
        assert hot.fold(conn, 100, START) == 2
        found = hot.claim(conn, slots=1, worker="w", boot_id="b", lease_sec=60.0, lanes=None, now=START)
        assert len(found.claims) == 1
    assert scanned == []
    (claim,) = found.claims
    started = bench.start(claim)
    writes = writes_of(bench.verdict(started, Ended(result={})))
    with watched(bench) as (conn, scanned):
        renewed = hot.renew(conn, [(claim.job_id, claim.attempt)], lease_sec=60.0, stall_sec=60.0, now=START)
        assert [answer for _, _, answer, _, _ in renewed] == ["renewed"]
        status, following, _ = hot.settle(conn, claim.job_id, claim.attempt, claim.group, writes, refresh=True,
                                       take=Taker("w", "b", 60.0), now=START)
        assert status == "done" and following is not None
    assert scanned == []


def test_a_lane_is_refreshed_through_indexes_whoever_asks_first(bench: Bench) -> None:
    """An operator's verbs refresh lanes too: the session plans then what claims in it go on with."""
    bench.ledger.submit(None, NewJob(target_code="t3"))
    with watched(bench) as (conn, scanned):
        hot.refresh(conn, ["g1", "g2", "g3"], START)
    assert scanned == []
