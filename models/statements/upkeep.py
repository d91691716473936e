"""What keeps the store in order: expiry, since when notices are told, and the deletes of what is older than it is kept.

Statuses are spelled as literals here: neither database uses a partial index for a status that is a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Delete,
    Select,
    Table,
    Update,
    bindparam,
    cast,
    delete,
    func,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ColumnElement

from models.base import EPOCH, UtcDateTime, db_now, plus_seconds, seconds_from
from models.groups import cooldowns, rate_groups
from models.jobs import attempts, in_state, jobs
from models.operations import notices, operations
from models.requests import requests, robots_copies
from models.sites import interval_history
from models.snapshots import vitals
from models.workers import marks, workers

#: of the jobs table alone: the condition of the partial index on `expires_at`
_MAY_EXPIRE = text("jobs.status = 'queued' AND jobs.expires_at IS NOT NULL")
_FINAL = text("jobs.status IN ('done', 'failed', 'cancelled')")
#: `b_before`: what ended before this moment is no longer kept
BEFORE: ColumnElement[datetime] = bindparam("b_before", type_=UtcDateTime())


#: SQLite would take the index on status and read every queued job; SQLAlchemy has no word for this one of its
_EXPIRABLE_SQLITE = text(
    "SELECT job_id, group_key FROM jobs INDEXED BY ix_jobs_expires WHERE status = 'queued' AND expires_at IS NOT NULL "
    "AND expires_at <= coalesce(:p_now, rl_now()) ORDER BY expires_at LIMIT :b_limit"
).bindparams(bindparam("p_now", None, type_=UtcDateTime())).columns(jobs.c.job_id, jobs.c.group_key)


def expirable(limit: int, dialect: str) -> Any:
    """Find queued jobs past their `expires_at`, the longest past first."""
    if dialect == "sqlite":
        return _EXPIRABLE_SQLITE.bindparams(b_limit=limit)
    # the first ones in the index's order and then those that are due: asked for a range, PostgreSQL takes other plans
    first = select(jobs.c.job_id, jobs.c.group_key, jobs.c.expires_at).where(_MAY_EXPIRE).order_by(
        jobs.c.expires_at).limit(limit).subquery()
    return select(first.c.job_id, first.c.group_key).where(first.c.expires_at <= db_now())


def lock_free(keys: Sequence[str]) -> Select[Any]:
    """Lock those of the groups that nobody holds just now, in key order."""
    return select(rate_groups.c.key).where(rate_groups.c.key.in_(keys)).order_by(rate_groups.c.key).with_for_update(
        key_share=True, skip_locked=True)


def there(keys: Sequence[str]) -> Select[Any]:
    """Find out which groups have a row at all."""
    return select(rate_groups.c.key).where(rate_groups.c.key.in_(keys))


def lock_jobs(job_ids: Sequence[str]) -> Select[Any]:
    """Lock those of the jobs that nobody holds just now; their groups are locked before."""
    return select(jobs.c.job_id).where(jobs.c.job_id.in_(job_ids)).order_by(jobs.c.job_id).with_for_update(
        key_share=True, skip_locked=True)


def expire(job_ids: Sequence[str], keys: Sequence[str] | None = None) -> Update:
    """Cancel those of the jobs (in these groups) that are still queued past their `expires_at`; returns which."""
    among = [] if keys is None else [jobs.c.group_key.in_(keys)]
    return (
        update(jobs)
        .where(jobs.c.job_id.in_(job_ids), *among, _MAY_EXPIRE, jobs.c.expires_at <= db_now())
        .values(status="cancelled", finished_at=db_now(), updated_at=db_now(), error_msg="expired", wait_reason="")
        .returning(jobs.c.job_id, jobs.c.group_key)
    )


def _seconds_now(conn: Connection) -> ColumnElement[int]:
    since = seconds_from(literal(EPOCH, UtcDateTime()), db_now())
    # SQLite's cast cuts the fraction off; PostgreSQL's rounds, and a moment to come would hide what happens until then
    return cast(func.floor(since) if conn.dialect.name == "postgresql" else since, BigInteger)


def moment_of(name: str) -> Select[Any]:
    """Read the moment (whole seconds since 1970) that is kept as `name`, None if none is."""
    return select(select(marks.c.value).where(marks.c.name == name).scalar_subquery().label("kept"))


def keep_moment(conn: Connection, name: str) -> Any:
    """Keep the second that has begun as `name`, unless one is kept."""
    make = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
    return make(marks).values(name=name, value=_seconds_now(conn)).on_conflict_do_nothing()


#: a job whose callbacks are not sent yet is their outbox
_NOTHING_TO_SEND = or_(jobs.c.callbacks.is_(None), jobs.c.callbacks_sent_at.is_not(None))


def old_jobs(status: str, limit: int) -> Select[Any]:
    """Find finished jobs that are no longer kept, the oldest first; locked ones are left for the next time."""
    return (
        select(jobs.c.job_id)
        .where(in_state(status), jobs.c.finished_at < BEFORE, _NOTHING_TO_SEND)
        .order_by(jobs.c.finished_at).limit(limit).with_for_update(skip_locked=True)
    )


def delete_jobs(job_ids: Sequence[str]) -> Any:
    """Delete those of the jobs that are still what they were found to be; returns which."""
    return delete(jobs).where(
        jobs.c.job_id.in_(job_ids), _FINAL, jobs.c.finished_at < BEFORE, _NOTHING_TO_SEND).returning(jobs.c.job_id)


def delete_attempts(job_ids: Sequence[str]) -> Delete:
    """Delete the attempts of jobs that were just deleted."""
    return delete(attempts).where(attempts.c.job_id.in_(job_ids))


#: tables that grow at their end: what is old stands at the beginning of their ids; by which moment it is judged
BY_ID: dict[str, tuple[Table, ColumnElement[Any]]] = {
    "requests": (requests, requests.c.ended_at),
    "cooldowns": (cooldowns, cooldowns.c.until),
    "interval_history": (interval_history, interval_history.c.at),
    "operations": (operations, operations.c.at),
}
#: small tables
BY_TIME: dict[str, tuple[Table, ColumnElement[Any]]] = {
    "notices": (notices, notices.c.at),
    "robots_copies": (robots_copies, robots_copies.c.fetched_at),
    "workers": (workers, workers.c.heartbeat_at),
    # of sites that are gone, or have no enabled target any more
    "vitals": (vitals, vitals.c.checked_at),
}


def portion(name: str, behind: int, limit: int) -> Select[Any]:
    """Find the last id and the earliest moment of the next `limit` rows behind the id `behind`."""
    table, moment = BY_ID[name]
    rows = select(table.c.id, moment.label("moment")).where(table.c.id > behind).order_by(table.c.id).limit(limit)
    found = rows.subquery()
    return select(func.max(found.c.id).label("last"), func.min(found.c.moment, type_=UtcDateTime()).label("earliest"))


def delete_portion(name: str, behind: int, last: int) -> Delete:
    """Delete what is no longer kept between two ids; the newest step of each interval stays, it explains the present."""
    table, moment = BY_ID[name]
    kept: list[ColumnElement[bool]] = []
    if table is interval_history:
        newer = interval_history.alias()
        kept = [select(newer.c.id).where(newer.c.target_code == table.c.target_code, newer.c.id > table.c.id).exists()]
    return delete(table).where(table.c.id > behind, table.c.id <= last, moment < BEFORE, *kept)


def delete_old(name: str) -> Delete:
    """Delete what is no longer kept of a small table."""
    table, moment = BY_TIME[name]
    return delete(table).where(moment < BEFORE)


def moment_before(seconds: float) -> Select[Any]:
    """Read the moment that lies `seconds` before now by the database's clock."""
    return select(plus_seconds(db_now(), -seconds))
