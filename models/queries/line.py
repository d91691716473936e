"""The line in a lane: who is next, how many stand before a job, and how long such jobs took lately (rules R4, J16)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    tuple_,
)

from models.base import UtcDateTime, seconds_from
from models.facts import LineFacts, Measured, Waiting
from models.groups import fleet, rate_groups
from models.jobs import INTERVAL, IS_QUEUED, attempts, in_state, is_held, jobs
from models.queries.reading import db_moment
from models.sites import sites

#: so many jobs of a line stand for all of them
SAMPLE = 100
#: so many attempts of a lane tell how long its jobs take
RECENT = 200

_ONE: ColumnElement[int] = literal_column("1")
#: groups in one statement
_AT_ONCE = 500


def next_up(conn: Connection, groups: Sequence[str], now: datetime | None = None) -> dict[str, str]:
    """Return, by group, the queued job that comes next in its lane: the one that a claim would take, else the first due.

    A job that no claim would ever take (expired, or its site is another group's now) is nobody's next; a group of which
    no job comes next has no entry.
    """
    moment = db_moment(conn, now)
    found: dict[str, str] = {}
    for start in range(0, len(groups), _AT_ONCE):
        some = groups[start : start + _AT_ONCE]
        found |= heads(conn, some, moment)
        found |= first_due(conn, [key for key in some if key not in found], moment)
    return found


def heads(conn: Connection, keys: Sequence[str], now: datetime) -> dict[str, str]:
    """Return, by group, the job that a claim would take now if the lane were free and open; without one no entry.

    The first look is one index probe a lane; only where the first due job is blocked the rest is searched.
    """
    first = _by_group(conn, keys, _head(now))
    blocked = dict(conn.execute(select(jobs.c.job_id, jobs.c.group_key).where(
        jobs.c.job_id.in_(first.values()), _moved().exists() | _busy().exists())).all())
    found = {key: job_id for key, job_id in first.items() if job_id not in blocked}
    for key in set(blocked.values()):
        found |= _by_group(conn, [key], _head(now, ~_moved().exists(), ~_busy().exists()))
    return found


def first_due(conn: Connection, keys: Sequence[str], now: datetime) -> dict[str, str]:
    """Return, by group, the queued job that becomes due first, of those that a claim may take one day."""
    mine = (select(jobs.c.job_id).where(
        jobs.c.group_key == rate_groups.c.key, IS_QUEUED, (jobs.c.expires_at <= now).is_not(true()), ~_moved().exists())
        .order_by(jobs.c.run_after).limit(_ONE))
    # two looks, because the databases differ in where NULL stands; without a moment a job has been due from the start
    dated = _by_group(conn, keys, mine.where(jobs.c.run_after.is_not(None)))
    return dated | _by_group(conn, keys, mine.where(jobs.c.run_after.is_(None)))


def _by_group(conn: Connection, keys: Sequence[str], one: Select[Any]) -> dict[str, str]:
    found = conn.execute(select(rate_groups.c.key, one.scalar_subquery()).where(rate_groups.c.key.in_(keys)))
    return {key: job_id for key, job_id in found if job_id is not None}


def _head(now: datetime, *also: ColumnElement[bool]) -> Select[Any]:
    """The first due job of a group (rule R4)."""
    return (select(jobs.c.job_id).where(jobs.c.group_key == rate_groups.c.key, *_due(now, now), *also)
            .order_by(jobs.c.priority, jobs.c.queue_at, jobs.c.seq).limit(_ONE))


def _busy() -> Select[Any]:
    """What of a job's site runs in another lane (rule R2)."""
    other = jobs.alias("other")
    return select(other.c.seq).where(in_state("running", of=other), other.c.site_code == jobs.c.site_code,
                                     other.c.group_key != jobs.c.group_key)


def _moved() -> Select[Any]:
    """A job's site, if it belongs to another group now."""
    home = sites.alias("home")
    return select(home.c.site_code).where(home.c.site_code == jobs.c.site_code, home.c.group_key != jobs.c.group_key)


def _due(by: datetime, now: datetime) -> tuple[ColumnElement[bool], ...]:
    """Queued, due by a moment, not expired, in no quiet window: so that only the order of the line can use an index."""
    return (IS_QUEUED, (jobs.c.run_after > by).is_not(true()), (jobs.c.expires_at <= now).is_not(true()),
            ~is_held(by))


def place(conn: Connection, job_id: str, group: str, *, by: datetime, now: datetime) -> LineFacts:
    """Count the jobs that stand before a job of a lane and are due `by` the moment at which it may be taken itself.

    The database counts; only the first few are read.
    """
    own = conn.execute(select(jobs.c.priority, jobs.c.queue_at, jobs.c.seq).where(jobs.c.job_id == job_id)).one()
    before = and_(
        jobs.c.group_key == group, *_due(by, now),
        tuple_(jobs.c.priority, jobs.c.queue_at, jobs.c.seq)
        < tuple_(literal(own.priority), literal(own.queue_at, UtcDateTime()), literal(own.seq)))
    number = int(conn.execute(select(func.count()).select_from(jobs).where(before)).scalar_one())
    if not number:
        return LineFacts(ahead=0)
    sample = conn.execute(
        select(jobs.c.job_id, jobs.c.target_code, jobs.c.run_after, INTERVAL.label("interval_sec"))
        .where(before).order_by(jobs.c.priority, jobs.c.queue_at, jobs.c.seq).limit(SAMPLE))
    first = tuple(Waiting(row.job_id, row.target_code, row.run_after, float(row.interval_sec)) for row in sample)
    return LineFacts(ahead=number, first=first)


def measured(conn: Connection, group: str) -> tuple[Measured, ...]:
    """Return how long the last attempts of a lane held it; those that never started tell nothing."""
    seconds = seconds_from(attempts.c.claimed_at, attempts.c.finished_at).label("seconds")
    recent = (
        select(attempts.c.job_id, attempts.c.outcome, attempts.c.finished_at, attempts.c.started_at, seconds)
        .where(attempts.c.group_key == group).order_by(attempts.c.claimed_at.desc()).limit(RECENT).subquery())
    found = conn.execute(
        select(recent, jobs.c.target_code, INTERVAL.label("interval_sec"))
        .join_from(recent, jobs, jobs.c.job_id == recent.c.job_id)
        .where(recent.c.finished_at.is_not(None), recent.c.started_at.is_not(None)))
    return tuple(
        Measured(row.job_id, row.target_code, max(0.0, float(row.seconds)), row.outcome == "parked",
                 float(row.interval_sec))
        for row in found)


def ready_before(conn: Connection, group: str, now: datetime, *, most: int) -> tuple[str, ...]:
    """Return up to `most` lanes that could be taken now and have been ready longer than `group` (rule R5)."""
    if most <= 0:
        return ()
    own = select(rate_groups.c.ready_at).where(rate_groups.c.key == group)
    ready: datetime | None = conn.execute(own).scalar()
    runner, lodger = jobs.alias("runner"), sites.alias("lodger")
    running = select(runner.c.seq).where(in_state("running", of=runner), runner.c.group_key == rate_groups.c.key)
    away = (select(runner.c.seq).join_from(runner, lodger, lodger.c.site_code == runner.c.site_code)
            .where(in_state("running", of=runner), lodger.c.group_key == rate_groups.c.key))
    held = select(fleet.c.id).where(fleet.c.id == 1, fleet.c.operator_pause_until > now)
    gates = [or_(gate.is_(None), gate <= now) for gate in (
        rate_groups.c.pause_until, rate_groups.c.operator_pause_until, rate_groups.c.next_request_at)]
    return tuple(conn.scalars(
        select(rate_groups.c.key)
        .where(rate_groups.c.ready_at < min(ready or now, now), rate_groups.c.key != group, *gates, ~running.exists(),
               ~away.exists(), ~held.exists(), _head(now).scalar_subquery().is_not(None))
        .order_by(rate_groups.c.ready_at).limit(most)))
