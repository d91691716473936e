"""A timetable of many entries in a database of its own, the beats that keep it, and what its rows say of them.

The server remembers when each transaction was committed: a run's jobs are there from that moment on, whoever asks.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from benchmarks.stores import fill
from config import clock
from config.devstack.processes import spawn, stop_process
from config.settings import Settings
from models.db import Database
from models.statements import schedule_config
from tasks.schedule import builtin
from tasks.schedule.ticking import Entries

ROOT = Path(__file__).resolve().parent.parent
ZONE = "UTC"
#: a run is due to the second, so no beat that sleeps its longest sleep may learn of it too late
NOTICE_SEC = 8.0
_START_SEC = 60.0
_DAY_SEC = 86_400
_FIRED = """
    SELECT r.entry, r.total, count(c.job_id), extract(epoch FROM r.occurrence), extract(epoch FROM r.started_at),
        extract(epoch FROM max(pg_xact_commit_timestamp(c.xmin)))
    FROM runs r JOIN run_job c ON c.run_id = r.run_id WHERE r.entry LIKE %s GROUP BY r.run_id ORDER BY r.run_id"""
# what a worker's settles would leave behind, in one go
_END_JOBS = """
    UPDATE jobs SET status = 'done', outcome = 'complete', finished_at = now(), lease_until = NULL
    WHERE group_key LIKE %s AND status IN ('queued', 'running')"""
_CLEAR = ("DELETE FROM lane_wake WHERE group_key LIKE %s", "UPDATE rate_groups SET ready_at = NULL WHERE key LIKE %s")


@dataclass(frozen=True)
class Fired:
    """A run and its jobs; moments in seconds since 1970.

    `began` is when the look began that started it, `committed` when its transaction was committed, by the database.
    """

    entry: str
    jobs: int
    due: float
    began: float
    committed: float


class Bench:
    """The server, and everything that was started on it, until `close`."""

    def __init__(self, folder: Path) -> None:
        from tests.support.servers import PostgresServer

        self.folder, self._stack = folder, ExitStack()
        self.postgres = PostgresServer(durable=True, settings={"track_commit_timestamp": "on"}).start()
        self._stack.callback(self.postgres.remove)
        self._stack.callback(self.postgres.stop)

    def timetable(self, name: str, targets: int, each: int) -> Timetable:
        """Return a timetable without entries over so many targets, `each` of them in a lane."""
        url = self.postgres.create_database()
        fill(url, ceil(targets / each), each, waiting=False)
        made = Timetable(name, url, self.folder / name)
        self._stack.callback(made.close)
        return made

    def close(self) -> None:
        """Stop what was started."""
        self._stack.close()


class Timetable:
    """A database and its beats. The built-in entries are disabled, so that nothing fires but what is kept here."""

    def __init__(self, name: str, url: str, home: Path) -> None:
        self.name, self.home = name, home
        self.home.mkdir()
        # as a beat's: its plans are made while the tables are empty
        self.db = Database(url, beat=True)
        self.settings = Settings(database_url=url, home=home, timezone=ZONE)
        self._beats = ExitStack()
        self.keep({"": {"timezone": ZONE}} | {name: {"enabled": False} for name in builtin.entries(ZoneInfo(ZONE))})

    def keep(self, documents: Mapping[str, Mapping[str, Any]]) -> None:
        """Store what a loaded file says about entries."""
        with self.db.write() as conn:
            schedule_config.keep(conn, documents, [], clock.now())

    def look(self) -> float:
        """Read all entries as a beat does at its first look, which gives new ones their rows; returns the seconds it took."""
        began = time.monotonic()
        Entries().read(self.db, self.settings, clock.now())
        return time.monotonic() - began

    def plan(self, documents: Callable[[float], Mapping[str, Mapping[str, Any]]], lead_sec: float) -> float:
        """Keep the entries that `documents` gives for a first due moment, and return that.

        It is as far away as a beat needs to begin: `lead_sec` is a guess, and is doubled until it was enough.
        """
        while True:
            first = float(ceil(time.time() + lead_sec))
            self.store(documents(first))
            if time.time() + 2 * self.look() + NOTICE_SEC < first:
                return first
            lead_sec *= 2

    def store(self, documents: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep entries and give them their rows; the tables are as autovacuum leaves some that were just filled."""
        self.keep(documents)
        self.look()
        with self.db.read() as conn:
            conn.exec_driver_sql("VACUUM ANALYZE entries, schedule_config")

    def start_beat(self) -> None:
        """Start a beat; returns once it keeps the schedule."""
        log = self.home / f"beat-{time.monotonic_ns()}.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RATELANE_")} | {
            "PYTHONPATH": str(ROOT), "RATELANE_DATABASE_URL": self.db.url, "RATELANE_HOME": str(self.home),
            "RATELANE_TIMEZONE": ZONE}
        argv = [sys.executable, "-m", "celery", "-A", "config", "beat", "--pidfile=", "--loglevel", "INFO"]
        process = spawn(argv, environment, log, cwd=ROOT)
        self._beats.callback(stop_process, process, 20.0)
        ends = time.monotonic() + _START_SEC
        while "schedule.start" not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > ends:
                raise SystemExit(f"{self.name}: beat did not start:\n{log.read_text(errors='replace')[-2_000:]}")
            time.sleep(0.1)

    def await_fired(self, like: str, runs: int, until: float) -> list[Fired]:
        """Return the runs of entries with such names once there are `runs` of them; exits if there are not by `until`."""
        while (found := self.count("SELECT count(*) FROM runs WHERE entry LIKE %s", like)) < runs:
            if time.time() > until:
                raise SystemExit(f"{self.name}: {found} of {runs} runs began in time:\n{self._logs()}")
            time.sleep(0.2)
        with self.db.read() as conn:
            rows = conn.exec_driver_sql(_FIRED, (like,)).all()
        if torn := [entry for entry, total, jobs, *_ in rows if total != jobs]:
            raise SystemExit(f"{self.name}: a run's jobs are not all there: {torn[:5]}")
        return [Fired(entry, jobs, *map(float, moments)) for entry, _, jobs, *moments in rows]

    def await_ended(self, like: str, seconds: float) -> None:
        """Return once a beat has ended the runs of entries with such names."""
        ends = time.monotonic() + seconds
        while self.count("SELECT count(*) FROM runs WHERE outcome IS NULL AND entry LIKE %s", like):
            if time.monotonic() > ends:
                raise SystemExit(f"{self.name}: runs do not end:\n{self._logs()}")
            time.sleep(0.2)

    def end_jobs(self, lanes: str) -> None:
        """Let all jobs in lanes with such names be done, and the lanes rest."""
        with self.db.write() as conn:
            for statement in (_END_JOBS, *_CLEAR):
                conn.exec_driver_sql(statement, (lanes,))

    def count(self, query: str, *values: str) -> int:
        """Return the number that a query answers."""
        with self.db.read() as conn:
            return int(conn.exec_driver_sql(query, values).scalar_one())

    def _logs(self) -> str:
        return "\n".join(log.read_text(errors="replace")[-2_000:] for log in sorted(self.home.glob("beat-*.log")))

    def close(self) -> None:
        """End the beats."""
        self._beats.close()
        self.db.dispose()


def at(moment: float) -> str:
    """Return the time of the day, in the timetable's zone, of a whole second since 1970."""
    return datetime.fromtimestamp(moment % _DAY_SEC, UTC).strftime("%H:%M:%S")
