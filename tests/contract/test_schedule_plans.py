"""What a fleet waits for does not depend on how small the tables were when a session planned it (rules J4, S2): PostgreSQL only.

A session keeps its plans, and a thousand runs or lanes are there a moment later.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, insert

from config import clock
from models.agenda import records
from models.db import Database
from models.groups import lane_wake, rate_groups
from models.queries.schedule import look
from tests.support.ledger import START, Bench
from tests.support.servers import PostgresServer
from tests.support.store import Shelf

MANY = 1_000
# more than the driver waits for before it keeps a statement's plan
OFTEN = 8


@pytest.fixture
def database(postgres: PostgresServer, shelf: Shelf) -> Iterator[Database]:
    """A database whose tables are empty, and known to be."""
    made = shelf.postgresql(postgres)
    with made.read() as conn:
        conn.exec_driver_sql("ANALYZE")
    yield made
    made.dispose()
    postgres.drop_database(made.url)


def scanned(conn: Connection) -> dict[str, int]:
    """Return how often each table of the schedule was read from its beginning in this transaction."""
    rows = conn.exec_driver_sql("SELECT relname, seq_scan FROM pg_stat_xact_user_tables WHERE relname IN "
                                "('entries', 'jobs', 'run_job', 'runs')").all()
    return {name: number for name, number in rows if number}


def test_a_fold_that_was_planned_on_an_empty_table_takes_what_a_fan_out_leaves(database: Database) -> None:
    bench = Bench(database)
    for _ in range(OFTEN):
        assert bench.ledger.fold() == 0
    with database.write() as conn:
        conn.execute(insert(rate_groups), [{"key": f"g{number}", "created_at": START} for number in range(MANY)])
        conn.execute(insert(lane_wake), [{"group_key": f"g{number}", "at": START} for number in range(MANY)])
    # a statement that takes too long is cancelled, and raises
    assert bench.ledger.fold() == MANY
    assert bench.ledger.fold() == 0


def test_a_beats_sessions_look_through_indexes_however_small_the_tables_are(database: Database) -> None:
    plain, beat = Database(database.url), Database(database.url, beat=True)
    found = []
    for one in (plain, beat):
        with one.write() as conn:
            before = scanned(conn)
            for _ in range(OFTEN):
                look(conn)
                records.over(conn, MANY)
            found.append({name for name, number in scanned(conn).items() if number > before.get(name, 0)})
        one.dispose()
    assert {"runs", "jobs"} & found[0], "a scan would be seen"
    assert found[1] == set()


def test_a_thousand_open_runs_are_looked_through_with_a_plan_from_when_there_were_none(database: Database) -> None:
    beat = Database(database.url, beat=True)
    with beat.read() as conn:
        for _ in range(OFTEN):
            assert not look(conn).over
        conn.exec_driver_sql(f"""
            INSERT INTO runs (entry, occurrence, try_no, stat_date, source, recorded_at, started_at)
            SELECT 'e' || n, now(), 1, now()::date, 'schedule', now(), now() FROM generate_series(1, {MANY}) n""")
        conn.exec_driver_sql(f"""
            INSERT INTO jobs (job_id, kind, group_key, status, enqueued_at, queue_at, updated_at)
            SELECT 'j' || n, 'crawl', 'g' || n, 'queued', now(), now(), now() FROM generate_series(1, {MANY}) n""")
        conn.exec_driver_sql("INSERT INTO run_job (run_id, job_id) SELECT run_id, 'j' || substr(entry, 2) FROM runs")
        watch = clock.Stopwatch()
        assert not look(conn).over
        assert watch.elapsed() < 3.0
        conn.exec_driver_sql("UPDATE jobs SET status = 'done', finished_at = now() WHERE job_id = 'j7'")
        assert look(conn).over
        assert [name for _, name in records.over(conn, MANY)] == ["e7"]
    beat.dispose()
