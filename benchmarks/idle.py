"""What lanes cost that have nothing to do: ``python -m benchmarks.idle [--json] [--seconds 90] [--lanes 10000]``.

Three workers of 8 threads stand side by side on the bundled PostgreSQL and Valkey, each with a database and a broker of
its own. The first has no lanes. The second has 10,000, has run a job in each, and has nothing more to do. The third has
50 paused lanes in which 10,000 jobs wait. In the same window the memory of the processes, the processor time of each
and of its sessions in PostgreSQL, and the statements that it sends (`pg_stat_statements`) are compared with the first's.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.stores import fill
from config.devstack.processes import spawn, stop_process
from models.db import Database
from models.operations import Operator
from models.pacing.operating import OperatorPacing

ROOT = Path(__file__).resolve().parent.parent
NONE, SERVED, PAUSED = "no lanes", "idle lanes", "paused lanes"
THREADS = 8
START_SEC, SERVE_SEC = 30.0, 300.0
#: what idle lanes may cost more than none; by how much statements may differ when lanes are paused
LIMITS = {"rss_mb": 5.0, "cpu_percent": 0.5, "statements_percent": 10.0}
_HERTZ = os.sysconf("SC_CLK_TCK")


@dataclass
class Idler:
    """A worker, its broker and its database."""

    name: str
    pid: int
    url: str

    @property
    def database(self) -> str:
        """The database's name."""
        return self.url.partition("@/")[2].partition("?")[0]


@dataclass(frozen=True)
class Reading:
    """What one worker has used since it started: seconds of processor time by process, statements, megabytes now."""

    at: float
    worker_sec: float
    sessions_sec: dict[int, float]
    statements: int
    rss_mb: float


class Bench:
    """The servers, and the workers until `close`."""

    def __init__(self, folder: Path) -> None:
        from tests.support.servers import PostgresServer, ValkeyServer

        self._make_broker = ValkeyServer
        self.folder, self._stack = folder, ExitStack()
        self.postgres = PostgresServer(durable=True, settings={"shared_preload_libraries": "pg_stat_statements"}).start()
        self._stack.callback(self.postgres.remove)
        self._stack.callback(self.postgres.stop)
        with self.line() as line:
            line.execute("CREATE EXTENSION pg_stat_statements")

    @contextmanager
    def line(self) -> Iterator[psycopg.Connection[Any]]:
        """Give a session in a database that belongs to no worker."""
        with psycopg.connect(host=str(self.postgres.folder), user="postgres", dbname="postgres", autocommit=True) as line:
            yield line

    def database(self, lanes: int, each: int, *, waiting: bool) -> str:
        """Return the URL of a database with so many lanes and, if they wait, so many jobs in each."""
        url = self.postgres.create_database()
        fill(url, lanes, each, waiting=waiting, kind="bench")
        return url

    def worker(self, name: str, url: str) -> Idler:
        """Start a worker on a database, and a broker for it; both end with the bench."""
        broker = self._make_broker().start()
        self._stack.callback(broker.remove)
        home = self.folder / name.replace(" ", "-")
        home.mkdir()
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "RATELANE_DATABASE_URL": url, "RATELANE_BROKER_URL": broker.url,
            "RATELANE_HOME": str(home), "BENCH_STAMPS": str(home / "stamps")}
        argv = [sys.executable, "-m", "celery", "-A", "benchmarks.apps.lanes", "worker", "-P", "threads", "-c", str(THREADS),
                "-l", "WARNING", "--without-gossip", "--without-mingle", "-n", f"{home.name}@%h"]
        process = spawn(argv, environment, home / "worker.log", cwd=ROOT)
        self._stack.callback(stop_process, process, 20.0)
        found = Idler(name, process.pid, url)
        self.await_count(found, "SELECT count(*) FROM workers", 1, START_SEC)
        return found

    def await_count(self, idler: Idler, query: str, wanted: int, seconds: float) -> None:
        """Return once `query` in a worker's database answers `wanted`; exit if that takes too long."""
        db, ends = Database(idler.url), time.monotonic() + seconds
        while (found := ask(db, query)) != wanted:
            if time.monotonic() > ends:
                raise SystemExit(f"{idler.name}: {query} answers {found}, not {wanted}, after {seconds:g} s")
            time.sleep(0.2)
        db.dispose()

    def read(self, idler: Idler) -> Reading:
        """Read what a worker and its sessions have used so far."""
        with self.line() as line:
            pids = line.execute("SELECT pid FROM pg_stat_activity WHERE datname = %s", (idler.database,)).fetchall()
            calls = line.execute(
                "SELECT coalesce(sum(s.calls), 0) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid "
                "WHERE d.datname = %s AND s.toplevel", (idler.database,)).fetchone()
        assert calls is not None
        return Reading(time.monotonic(), cpu_sec(idler.pid), {pid: cpu_sec(pid) for (pid,) in pids}, int(calls[0]),
                       rss_mb(idler.pid))

    def close(self) -> None:
        """Stop what was started."""
        self._stack.close()


def ask(db: Database, query: str) -> int:
    """Return the number that a query answers."""
    with db.read() as conn:
        return int(conn.exec_driver_sql(query).scalar_one())


def cpu_sec(pid: int) -> float:
    """Return the processor time of a process, user's and system's, since it started, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _HERTZ


def rss_mb(pid: int) -> float:
    """Return the memory of a process that is in RAM, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def used(before: Reading, after: Reading) -> dict[str, float]:
    """Return what was used between two readings: per cent of a core, statements a second, and the memory at the end."""
    seconds = after.at - before.at
    # a session that was opened meanwhile counts from its beginning
    sessions = sum(spent - before.sessions_sec.get(pid, 0.0) for pid, spent in after.sessions_sec.items())
    return {
        "worker_cpu_percent": round((after.worker_sec - before.worker_sec) / seconds * 100, 3),
        "postgres_cpu_percent": round(sessions / seconds * 100, 3),
        "statements_per_sec": round((after.statements - before.statements) / seconds, 3),
        "rss_mb": round(after.rss_mb, 2)}


def report(found: dict[str, dict[str, float]], seconds: float) -> dict[str, Any]:
    """Return the document: what each worker used, how much more than the one without lanes, and whether that holds."""
    none, served, paused = found[NONE], found[SERVED], found[PAUSED]
    more = {name: round(served[name] - none[name], 3) for name in served}
    statements = round((paused["statements_per_sec"] / none["statements_per_sec"] - 1) * 100, 2)
    # to be compared with the limit one by one: the worker's process, and its sessions in the server
    holds = {
        "rss_mb": more["rss_mb"] < LIMITS["rss_mb"],
        "cpu_percent": max(more["worker_cpu_percent"], more["postgres_cpu_percent"]) < LIMITS["cpu_percent"],
        "statements_percent": abs(statements) <= LIMITS["statements_percent"]}
    return {"seconds": round(seconds, 1), "limits": LIMITS, "used": found, "idle_lanes_more": more,
            "paused_lanes_statements_percent": statements, "holds": holds}


def run(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """Set the three workers up, let the second serve its lanes once, and measure all of them in one window."""
    idlers = [bench.worker(NONE, bench.database(0, 1, waiting=False))]
    url = bench.database(options.paused, options.waiting // options.paused, waiting=True)
    pause(url, options.paused)
    idlers.append(bench.worker(PAUSED, url))
    idlers.append(bench.worker(SERVED, bench.database(options.lanes, 1, waiting=True)))
    bench.await_count(idlers[-1], "SELECT count(*) FROM jobs WHERE status = 'done'", options.lanes, SERVE_SEC)
    print(f"{options.lanes} lanes were served once; resting for {options.rest:g} s", file=sys.stderr)
    time.sleep(options.rest)
    before = [bench.read(idler) for idler in idlers]
    began = time.monotonic()
    time.sleep(options.seconds)
    after = [bench.read(idler) for idler in idlers]
    bench.await_count(idlers[1], "SELECT count(*) FROM jobs WHERE status = 'queued'",
                      options.paused * (options.waiting // options.paused), START_SEC)
    found = {idler.name: used(*readings) for idler, *readings in zip(idlers, before, after, strict=True)}
    return report(found, after[-1].at - began)


def pause(url: str, lanes: int) -> None:
    """Pause lanes as an operator does: every other one for an hour, the others until somebody resumes them."""
    db = Database(url)
    pacing = OperatorPacing(db)
    for number in range(lanes):
        pacing.pause(f"lane{number}", Operator("bench", "cli"), for_sec=3_600.0 if number % 2 else None)
    db.dispose()


def table(document: dict[str, Any]) -> str:
    """Return the document as a table for people."""
    names = list(document["used"][NONE])
    lines = [["worker with", *names]]
    lines += [[who, *(f"{figures[name]:g}" for name in names)] for who, figures in document["used"].items()]
    lines.append(["idle lanes more", *(f"{document['idle_lanes_more'][name]:+g}" for name in names)])
    text = "\n".join("  ".join(cell.ljust(20) for cell in line).rstrip() for line in lines)
    words = {True: "holds", False: "DOES NOT HOLD"}
    return text + (
        f"\npaused lanes: {document['paused_lanes_statements_percent']:+g} % statements\n"
        + ", ".join(f"{name} {words[held]} (limit {LIMITS[name]:g})" for name, held in document["holds"].items()))


def main() -> None:
    """Measure and print; exits 1 if a figure is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--seconds", type=float, default=90.0, help="how long to measure")
    parser.add_argument("--rest", type=float, default=15.0, help="how long to rest before, after the lanes were served")
    parser.add_argument("--lanes", type=int, default=10_000, help="lanes that were served once and idle")
    parser.add_argument("--paused", type=int, default=50, help="paused lanes")
    parser.add_argument("--waiting", type=int, default=10_000, help="jobs that wait in them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ratelane-bench-") as folder:
        bench = Bench(Path(folder))
        try:
            document = run(bench, options)
        finally:
            bench.close()
    print(json.dumps(document, indent=1) if options.json else table(document))
    sys.exit(0 if all(document["holds"].values()) else 1)


if __name__ == "__main__":
    main()
