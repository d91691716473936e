"""Lanes beside plain Celery, in one run: ``python -m benchmarks.lanes [--json] [--runs 3] [--only NAME …]``.

PostgreSQL and Valkey are the bundled ones, durable as they come. One worker with 32 threads runs empty bodies on many
lanes; beside it plain Celery runs the same bodies from one queue, without results and with its own SQLAlchemy result
backend (threads and prefork). Bodies of 10 ms on few lanes show the hand-over: nothing queues for a slot there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import Measured, measure, read, spread

ROOT = Path(__file__).resolve().parent.parent
THREADS = 32
DEADLINE_SEC = 180.0


@dataclass(frozen=True)
class Shape:
    """So many lanes with so many jobs each, and how long a body takes."""

    name: str
    lanes: int
    each: int
    body_sec: float = 0.0


SHAPES = (
    Shape("100x30", 100, 30),
    Shape("1000x3", 1000, 3),
    Shape("4x300", 4, 300),
    Shape("10000x1", 10_000, 1),
    Shape("4x100 of 10 ms", 4, 100, 0.01),
)
RIVALS = (("celery", "threads", False), ("celery+sql", "threads", True), ("celery+sql", "prefork", True))


class Bench:
    """The two servers, and a folder for logs and stamps."""

    def __init__(self, folder: Path) -> None:
        from tests.support.servers import PostgresServer, ValkeyServer

        self.folder = folder
        self.postgres = PostgresServer(durable=True).start()
        self.valkey = ValkeyServer().start()

    def close(self) -> None:
        """Stop what was started."""
        self.valkey.stop()
        self.postgres.stop()
        self.postgres.remove()
        self.valkey.remove()

    @contextmanager
    def worker(self, app: str, pool: str, slots: int, environment: dict[str, str]) -> Iterator[None]:
        """Run one Celery worker of `app` for the time of the block."""
        argv = [sys.executable, "-m", "celery", "-A", app, "worker", "-P", pool, "-c", str(slots), "-l", "WARNING",
                "--without-gossip", "--without-mingle", "-n", "bench@%h"]
        with open(self.folder / "worker.log", "ab") as log:
            process = subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
                                       stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def lanes(self, shape: Shape) -> Measured:
        """Measure Ratelane: jobs are rows before the worker starts."""
        stamps = self._fresh_stamps()
        url = self.postgres.create_database()
        settings = {
            "RATELANE_DATABASE_URL": url, "RATELANE_BROKER_URL": self.valkey.url, "BENCH_STAMPS": str(stamps),
            "BENCH_BODY_SEC": str(shape.body_sec), "RATELANE_HOME": str(self.folder / "home")}
        self.valkey.flush()
        submit_lanes(url, self.folder / "home", shape)
        slots = min(THREADS, shape.lanes) if shape.body_sec else THREADS
        with self.worker("benchmarks.apps.lanes", "threads", max(slots, 8), settings):
            found = self._await(stamps, shape.lanes * shape.each)
        found = replace(found, spread=spread(attempts_of(url)))
        self.postgres.drop_database(url)
        return found

    def celery(self, shape: Shape, pool: str, sql: bool) -> Measured:
        """Measure plain Celery: messages wait in one queue before the worker starts."""
        stamps = self._fresh_stamps()
        settings = {"BENCH_BROKER": self.valkey.url, "BENCH_STAMPS": str(stamps), "BENCH_BODY_SEC": str(shape.body_sec)}
        url = self.postgres.create_database() if sql else None
        if url is not None:
            settings["BENCH_BACKEND"] = "db+" + url
        self.valkey.flush()
        publish_plain(self.valkey.url, shape, settings.get("BENCH_BACKEND"))
        slots = THREADS if pool == "threads" else 8
        with self.worker("benchmarks.apps.plain", pool, slots, settings):
            found = self._await(stamps, shape.lanes * shape.each)
        if url is not None:
            self.postgres.drop_database(url)
        return found

    def _fresh_stamps(self) -> Path:
        path = self.folder / f"stamps-{time.monotonic_ns()}"
        path.touch()
        return path

    def _await(self, stamps: Path, jobs: int) -> Measured:
        ends = time.monotonic() + DEADLINE_SEC
        while (found := stamps.read_bytes().count(b"\n")) < jobs:
            if time.monotonic() > ends:
                raise SystemExit(f"only {found} of {jobs} bodies ran in {DEADLINE_SEC:g} s: see {self.folder}/worker.log")
            time.sleep(0.05)
        return measure(read(stamps))


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
    lanes = [f"lane{number}" for number in range(shape.lanes)]
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
            for number in range(shape.lanes):
                app.send_task("bench.body", (f"lane{number}",), producer=producer)
    app.close()


def run(bench: Bench, shapes: list[Shape], runs: int) -> list[dict[str, Any]]:
    """Measure each shape `runs` times, everything side by side in each, and return the medians."""
    rows = []
    for shape in shapes:
        found: dict[str, list[Measured]] = {}
        for _ in range(runs):
            found.setdefault("ratelane", []).append(bench.lanes(shape))
            for name, pool, sql in RIVALS:
                found.setdefault(f"{name} ({pool})", []).append(bench.celery(shape, pool, sql))
        rows.append(summary(shape, found))
        print(f"{shape.name}: done", file=sys.stderr)
    return rows


def summary(shape: Shape, found: dict[str, list[Measured]]) -> dict[str, Any]:
    """Return one shape's medians, and the ratio of Ratelane's throughput to each rival's."""
    rates = {name: statistics.median(one.jobs_per_sec for one in runs) for name, runs in found.items()}
    own = found["ratelane"]
    row: dict[str, Any] = {
        "shape": shape.name, "runs": len(own), "jobs_per_sec": {name: round(rate, 1) for name, rate in rates.items()},
        "ratio": {name: round(rates["ratelane"] / rate, 2) for name, rate in rates.items() if name != "ratelane"},
        "overlaps": sum(one.overlaps for one in own), "spread": max(one.spread for one in own)}
    for name in ("handover_p50_ms", "handover_p99_ms"):
        values = [value for one in own if (value := getattr(one, name)) is not None]
        row[name] = round(statistics.median(values), 2) if values else None
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a table for people."""
    names = list(rows[0]["jobs_per_sec"])
    head = ["shape", *names, "ratio to plain", "overlaps", "spread", "hand-over p50", "p99"]
    lines = [head]
    for row in rows:
        hand = [f"{row[name]} ms" if row[name] is not None else "-" for name in ("handover_p50_ms", "handover_p99_ms")]
        lines.append([row["shape"], *(f"{row['jobs_per_sec'][name]:g}" for name in names),
                      f"{row['ratio'].get('celery (threads)', '-')}", str(row["overlaps"]), str(row["spread"]), *hand])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--runs", type=int, default=3, help="runs of each shape; medians are printed")
    parser.add_argument("--only", nargs="*", default=[], help="names of shapes: " + ", ".join(s.name for s in SHAPES))
    parser.add_argument("--own", action="store_true", help="measure Ratelane alone, for tuning")
    options = parser.parse_args()
    shapes = [shape for shape in SHAPES if not options.only or shape.name in options.only]
    with tempfile.TemporaryDirectory(prefix="ratelane-bench-") as folder:
        bench = Bench(Path(folder))
        try:
            if options.own:
                global RIVALS
                RIVALS = ()
            rows = run(bench, shapes, options.runs)
        finally:
            bench.close()
    print(json.dumps(rows, indent=1) if options.json else table(rows))


if __name__ == "__main__":
    main()
