"""How the whole installation stands, in one object of numbers (rule J15)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, literal_column, or_, select

from models.base import UtcDateTime
from models.groups import fleet, rate_groups
from models.jobs import INTERVAL, IS_QUEUED, IS_RUNNING, attempts, in_state, jobs
from models.queries.jobs import counts
from models.queries.reading import db_moment, seconds
from models.queries.workers import workers

_HOUR = timedelta(hours=1)
#: without a commit for longer than this, and than three intervals, a running job counts as stuck
_NO_PROGRESS_SEC, _INTERVALS = 600.0, 3.0
#: the names of the document in its order; `broker_ok` and `database_ok` are the asker's to find out
NAMES = ("pending", "running", "done", "dead", "cancelled", "oldest_pending_sec", "dead_1h", "deadline_1h",
         "stuck_running", "groups_paused", "workers", "broker_ok", "database_ok")


def ops(conn: Connection) -> dict[str, Any]:
    """Return what the database knows of the numbers of rule J15, zeros included; `broker_ok` is left to the caller.

    `oldest_pending_sec` is how long the due job that waits longest has been due and queued; a paused group's count too.
    `deadline_1h` counts attempts that used up their running time in the last hour, `workers` those that live.
    """
    now = db_moment(conn)
    found = counts(conn)
    return {
        "pending": found["queued"], "running": found["running"], "done": found["done"], "dead": found["failed"],
        "cancelled": found["cancelled"],
        "oldest_pending_sec": _oldest_pending(conn, now),
        "dead_1h": _number(conn, in_state("failed"), jobs.c.finished_at > now - _HOUR),
        "deadline_1h": _number(conn, attempts.c.outcome == literal_column("'deadline'"),
                               attempts.c.finished_at > now - _HOUR) + _deadlines_for_good(conn, now),
        "stuck_running": _stuck(conn, now),
        "groups_paused": groups_paused(conn, now),
        "workers": sum(one["alive"] for one in workers(conn)),
        "broker_ok": None,
        "database_ok": True,
    }


def _number(conn: Connection, *conditions: ColumnElement[bool]) -> int:
    return int(conn.execute(select(func.count()).where(*conditions)).scalar_one())


def _deadlines_for_good(conn: Connection, now: datetime) -> int:
    """The attempts whose deadline was one too many: their job failed with it."""
    return _number(conn, in_state("failed"), jobs.c.finished_at > now - _HOUR,
                   jobs.c.error_msg.startswith("JobDeadlineExceeded"))


def _oldest_pending(conn: Connection, now: datetime) -> float:
    # a job that was put off waits since the moment it became due
    since = case((jobs.c.run_after > jobs.c.queue_at, jobs.c.run_after), else_=jobs.c.queue_at)
    first = conn.execute(select(func.min(since, type_=UtcDateTime())).where(
        IS_QUEUED, or_(jobs.c.run_after.is_(None), jobs.c.run_after <= now),
        or_(jobs.c.expires_at.is_(None), jobs.c.expires_at > now))).scalar()
    return seconds(first, now) or 0.0


def _stuck(conn: Connection, now: datetime) -> int:
    running = select(
        jobs.c.lease_until, jobs.c.updated_at, rate_groups.c.crawl_delay_sec, INTERVAL.label("interval_sec"),
    ).join_from(jobs, rate_groups, rate_groups.c.key == jobs.c.group_key, isouter=True).where(
        IS_RUNNING)
    return sum(_is_stuck(row, now) for row in conn.execute(running))


def _is_stuck(row: Any, now: datetime) -> bool:
    interval = max(row.interval_sec, row.crawl_delay_sec or 0.0)
    silent = timedelta(seconds=max(_NO_PROGRESS_SEC, _INTERVALS * interval))
    return bool(row.lease_until < now or row.updated_at < now - silent)


def groups_paused(conn: Connection, now: datetime | None = None) -> int:
    """Return how many groups a cooldown or an operator holds up; all of them while all are paused at once."""
    now = db_moment(conn, now)
    if _number(conn, fleet.c.operator_pause_until > now):
        return int(conn.execute(select(func.count()).select_from(rate_groups)).scalar_one())
    return _number(conn, or_(rate_groups.c.pause_until > now, rate_groups.c.operator_pause_until > now))
