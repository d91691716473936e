"""A schedule in a test's hands: its clock moves by hand, its jobs end when the test says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import insert, select, update

from config.settings import Settings
from models.base import db_now
from models.db import Database
from models.jobs import jobs
from models.ledger.books import no_clock
from models.schedules import entries, run_job, runs, schedule_config
from tasks.schedule.builtin import entries as builtin
from tasks.schedule.ticking import Entries, Ticked, tick
from tests.support.ledger import Bench, seed

SHANGHAI = ZoneInfo("Asia/Shanghai")
FLEET = {"g1": {"s1": ["t1", "t1b"]}, "g2": {"s2": ["t2"]}, "g3": {"s3": ["t3"]}}


def at(text: str) -> datetime:
    """Return ``2026-05-01 23:15[:00]`` on the clock of the schedule's zone."""
    return datetime.fromisoformat(text).replace(tzinfo=SHANGHAI).astimezone(UTC)


@dataclass
class Beat:
    """One beat, its database and its clock. Only the entries that a test configures are enabled."""

    db: Database
    now: datetime
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        self.bench = Bench(self.db, self.settings, no_clock)
        self.entries = Entries()

    def configure(self, **documents: dict[str, Any]) -> None:
        """Store what a loaded file says of entries; the built-in ones that it does not name are disabled."""
        off = {name: {"enabled": False} for name in builtin(SHANGHAI)}
        rows = [{"name": name, "document": document, "updated_at": datetime.now(UTC)}
                for name, document in (off | documents).items()]
        with self.db.write() as conn:
            conn.execute(schedule_config.delete())
            conn.execute(insert(schedule_config), rows)

    def tick(self, moment: str | datetime | None = None) -> Ticked:
        """Let the beat look, at this moment or at the present one."""
        if moment is not None:
            self.now = at(moment) if isinstance(moment, str) else moment
        return tick(self.db, self.settings, self.now, self.entries)

    def later(self, **units: float) -> Ticked:
        """Let the beat look after a time."""
        return self.tick(self.now + timedelta(**units))

    def entry(self, name: str = "hourly") -> dict[str, Any]:
        """Return the row of an entry."""
        with self.db.read() as conn:
            return dict(conn.execute(select(entries).where(entries.c.name == name)).mappings().one())

    def runs(self, name: str = "hourly") -> list[dict[str, Any]]:
        """Return the runs of an entry by occurrence and try."""
        with self.db.read() as conn:
            found = select(runs).where(runs.c.entry == name).order_by(runs.c.occurrence, runs.c.try_no)
            return [dict(row) for row in conn.execute(found).mappings()]

    def told(self, name: str = "hourly") -> list[str]:
        """Return what became of an entry's occurrences, such as ``07:00 success``, ``23:00 deferred(quiet_window)``."""
        return [f"{row['occurrence'].astimezone(SHANGHAI):%H:%M} {row['outcome'] or 'running'}"
                + (f"({row['reason']})" if row["reason"] else "") for row in self.runs(name)]

    def jobs(self, run_id: int | None = None) -> list[dict[str, Any]]:
        """Return the jobs that a run counts, or all jobs, by target."""
        wanted = select(jobs).order_by(jobs.c.target_code, jobs.c.seq)
        if run_id is not None:
            wanted = wanted.where(jobs.c.job_id.in_(select(run_job.c.job_id).where(run_job.c.run_id == run_id)))
        with self.db.read() as conn:
            return [dict(row) for row in conn.execute(wanted).mappings()]

    def finish(self, *targets: str, status: str = "done", **values: Any) -> None:
        """Let the active jobs of these targets (none named: of all) end."""
        mine = [jobs.c.target_code.in_(targets)] if targets else []
        if status == "done":
            values = {"outcome": "complete", **values}
        with self.db.write() as conn:
            conn.execute(update(jobs).where(jobs.c.status.in_(("queued", "running")), *mine).values(
                status=status, finished_at=db_now(), lease_until=None, **values))


def fleet(db: Database, now: str, shape: dict[str, dict[str, list[str]]] | None = None, **settings: Any) -> Beat:
    """Return a beat at `now` over a few groups with their sites and targets."""
    seed(db, shape or FLEET)
    return Beat(db, at(now), Settings(**settings))
