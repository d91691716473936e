"""Who is measured: Ratelane, plain Celery, Celery with its SQL result backend, and Procrastinate with a lock a lane.

Each is a function that stores the jobs of a shape, runs one worker of them and says what the stamps say. Everything is
stored, and the tables are analysed, before the worker starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from benchmarks.bench import THREADS, Bench, Shape
from benchmarks.measure import Measured, spread

OWN = "ratelane"
LOCKS = "procrastinate"
#: who runs the jobs of a lane one after the other; in plain Celery's one queue overlaps and hand-over mean nothing
LANED = (OWN, LOCKS)
#: stored at once, as its manual advises for many jobs
BATCH = 1_000


def run_lanes(bench: Bench, shape: Shape) -> Measured:
    """Measure Ratelane."""
    url = bench.postgres.create_database()
    home = bench.folder / "home"
    settings = {"RATELANE_DATABASE_URL": url, "RATELANE_BROKER_URL": bench.valkey.url, "RATELANE_HOME": str(home)}
    bench.valkey.flush()
    submit_lanes(url, home, shape)
    slots = min(THREADS, shape.lanes) if shape.body_sec else THREADS
    found = bench.run_celery("benchmarks.apps.lanes", "threads", max(slots, 8), settings, shape)
    found = replace(found, spread=spread(attempts_of(url)))
    bench.postgres.drop_database(url)
    return found


def run_celery(bench: Bench, shape: Shape, *, pool: str, sql: bool) -> Measured:
    """Measure plain Celery: messages wait in one queue."""
    settings = {"BENCH_BROKER": bench.valkey.url}
    url = bench.postgres.create_database() if sql else None
    if url is not None:
        settings["BENCH_BACKEND"] = "db+" + url
    bench.valkey.flush()
    publish_plain(bench.valkey.url, shape, settings.get("BENCH_BACKEND"))
    slots = THREADS if pool == "threads" else 8
    found = bench.run_celery("benchmarks.apps.plain", pool, slots, settings, shape)
    if url is not None:
        bench.postgres.drop_database(url)
    return found


def run_locks(bench: Bench, shape: Shape) -> Measured:
    """Measure Procrastinate. More slots than lanes would only have it look for jobs whose lock is taken."""
    url = bench.postgres.create_database()
    conninfo = conninfo_of(url)
    defer_locked(conninfo, shape)
    settings = {"BENCH_CONNINFO": conninfo, "BENCH_SLOTS": str(min(THREADS, shape.lanes))}
    found = bench.run(["benchmarks.apps.locks"], settings, shape)
    bench.postgres.drop_database(url)
    return found


RIVALS: dict[str, Callable[[Bench, Shape], Measured]] = {
    OWN: run_lanes,
    "celery (threads)": partial(run_celery, pool="threads", sql=False),
    "celery+sql (threads)": partial(run_celery, pool="threads", sql=True),
    "celery+sql (prefork)": partial(run_celery, pool="prefork", sql=True),
    LOCKS: run_locks,
}


def submit_lanes(url: str, home: Path, shape: Shape) -> None:
    """Migrate a database and store the jobs of a shape, each lane with a group, a site and a target of its own."""
    from config.settings import Settings
    from models import migrate
    from models.db import Database
    from models.groups import rate_groups
    from models.ledger import Ledger, NewJob
    from models.sites import sites, targets

    db = Database(url, reports=True)
    migrate.migrate(db)
    now = datetime.now(UTC)
    lanes = shape.lane_names()
    with db.write() as conn:
        conn.execute(rate_groups.insert(), [{"key": lane, "created_at": now} for lane in lanes])
        conn.execute(sites.insert(), [
            {"site_code": lane, "base_url": f"http://{lane}.example", "cms_adapter": "list", "group_key": lane,
             "group_rule": "host", "options": {}, "created_at": now, "updated_at": now} for lane in lanes])
        conn.execute(targets.insert(), [
            {"target_code": lane, "site_code": lane, "interval_sec": 0.0, "track_checkpoint": False, "enabled": True,
             "options": {}, "options_hash": "", "created_at": now, "updated_at": now} for lane in lanes])
    ledger = Ledger(db, Settings(home=home, database_url=url))
    with db.write() as conn:
        for _ in range(shape.each):
            for lane in lanes:
                ledger.submit(conn, NewJob(kind="bench", target_code=lane))
    with db.read() as conn:
        conn.exec_driver_sql("ANALYZE")
    db.dispose()


def attempts_of(url: str) -> list[tuple[str, float, float]]:
    """Return (lane, claimed, finished) of every attempt, in seconds of the database's clock."""
    from models.db import Database

    db = Database(url, reports=True)
    with db.read() as conn:
        rows = conn.exec_driver_sql(
            "SELECT group_key, extract(epoch FROM claimed_at), extract(epoch FROM coalesce(finished_at, now())) "
            "FROM attempts").all()
    db.dispose()
    return [(lane, float(claimed), float(finished)) for lane, claimed, finished in rows]


def publish_plain(broker: str, shape: Shape, backend: str | None) -> None:
    """Publish the messages of a shape to one ordinary queue."""
    from celery import Celery

    app = Celery("publisher", broker=broker, backend=backend)
    app.conf.update(broker_transport_options={"priority_steps": [0]}, task_default_queue="bench")
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(shape.each):
            for lane in shape.lane_names():
                app.send_task("bench.body", (lane,), producer=producer)
    app.close()


def conninfo_of(url: str) -> str:
    """Return what psycopg connects with from SQLAlchemy's URL."""
    parts = make_url(url)
    return psycopg.conninfo.make_conninfo(host=str(parts.query["host"]), user=parts.username, dbname=parts.database)


def defer_locked(conninfo: str, shape: Shape) -> None:
    """Make Procrastinate's tables and store the jobs of a shape, the lock of each its lane."""
    from procrastinate import App, SyncPsycopgConnector

    app = App(connector=SyncPsycopgConnector(conninfo=conninfo))
    with app.open():
        app.schema_manager.apply_schema()
        jobs = [app.configure_task("bench.body", lock=lane, task_kwargs={"lane": lane}).job
                for lane in shape.lane_names()] * shape.each
        for first in range(0, len(jobs), BATCH):
            app.job_manager.batch_defer_jobs(jobs[first:first + BATCH])
    with psycopg.connect(conninfo, autocommit=True) as line:
        line.execute("ANALYZE")
