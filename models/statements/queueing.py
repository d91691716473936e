"""What happens to jobs that no worker holds (yet): submitting, cancelling, handing back, looking for lost ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Connection,
    Float,
    Insert,
    Integer,
    Select,
    String,
    Update,
    and_,
    bindparam,
    case,
    delete,
    false,
    func,
    insert,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ColumnElement

from models.base import UtcDateTime, db_now, plus_seconds, seconds_from
from models.groups import fleet, lane_wake, rate_groups
from models.jobs import INTERVAL, IS_ACTIVE, IS_QUEUED, IS_RUNNING, attempts, is_held, jobs
from models.listening import CHANNEL
from models.sites import sites, targets
from models.workers import counters, workers


def insert_job(
    conn: Connection, row: dict[str, Any], delay_sec: float | None, expires_sec: float | None, **at: Any
) -> str | None:
    """Insert a queued job unless its id or its active dedupe key exists; returns its id, None if nothing was stored.

    `delay_sec` counts from the database's now; so does `expires_sec`.
    """
    make = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
    values = dict(row, status="queued", enqueued_at=db_now(), queue_at=db_now(), updated_at=db_now())
    if delay_sec is not None and "run_after" not in values:
        values["run_after"] = plus_seconds(db_now(), delay_sec)
    if expires_sec is not None:
        values["expires_at"] = plus_seconds(db_now(), expires_sec)
    found = conn.execute(make(jobs).values(values).on_conflict_do_nothing().returning(jobs.c.job_id), at).scalar()
    return None if found is None else str(found)


def wake(group: str, at: datetime | None, delay_sec: float | None) -> Insert:
    """Say, without locking anything, that a job of `group` may be due at `at` (or after `delay_sec`, or now)."""
    moment: Any = at if at is not None else plus_seconds(db_now(), delay_sec) if delay_sec else db_now()
    return insert(lane_wake).values(group_key=group, at=moment)


def notify(conn: Connection) -> None:
    """Wake the workers when this transaction commits (rule J5): for every verb that makes work due for others.

    PostgreSQL sends equal notifications of one transaction once, and none after a rollback. On SQLite nothing is to be
    done: workers watch the file.
    """
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(f"NOTIFY {CHANNEL}")


def facts_of_target(target_code: str) -> Select[Any]:
    """Read what a submit needs to know of a target."""
    return select(targets.c.target_code, targets.c.enabled, sites.c.site_code, sites.c.group_key).join_from(
        targets, sites, sites.c.site_code == targets.c.site_code).where(targets.c.target_code == target_code)


def active(conn: Connection, job_id: str | None, dedupe_key: str | None) -> Any:
    """Find the job that answers a submit which stored nothing: the one of that id, or the active one of that key."""
    if job_id is not None:
        found = conn.execute(select(jobs.c.job_id, jobs.c.group_key).where(jobs.c.job_id == job_id)).first()
        if found is not None:
            return found
    if dedupe_key is None:
        return None
    return conn.execute(select(jobs.c.job_id, jobs.c.group_key).where(
        jobs.c.dedupe_key == dedupe_key, IS_ACTIVE)).first()


#: looks without a lock: is there anything to fold, is any group ready
LOOKS = {
    "lane_wake": select(lane_wake.c.id).limit(1),
    "ready": select(rate_groups.c.key).where(rate_groups.c.ready_at <= db_now()).limit(1),
}

def push_first_ready(lanes: Sequence[str] | None, dialect: str) -> Update:
    """Push the ready group that a worker of these lanes would take first a second away: a unique index refused it."""
    first = select(rate_groups.c.key).where(rate_groups.c.ready_at <= db_now(), *_served(lanes, dialect)).order_by(
        rate_groups.c.ready_at).limit(1)
    return update(rate_groups).where(rate_groups.c.key == first.scalar_subquery()).values(
        ready_at=plus_seconds(db_now(), 1.0))


def _served(lanes: Sequence[str] | None, dialect: str) -> list[ColumnElement[bool]]:
    if lanes is None:
        return []
    matches = [rate_groups.c.key.op("~")(lane) if dialect == "postgresql" else func.rl_match(lane, rate_groups.c.key)
               for lane in lanes]
    return [or_(false(), *matches)]


#: a submit woke a group that nobody ever made: nothing would fold such a row
DROP_LOST_WAKES = delete(lane_wake).where(
    lane_wake.c.group_key.not_in(select(rate_groups.c.key)), lane_wake.c.at < plus_seconds(db_now(), -60.0))

IS_JOB = jobs.c.job_id == bindparam("b_job", type_=String())
GROUP_OF = select(jobs.c.seq, jobs.c.group_key, jobs.c.status).where(IS_JOB)

#: A claim that never started goes back to its place; nothing is spent but the number of the attempt.
#: a running job that was taken and begun in the transaction that ended another: nothing else makes both one moment
HAS_FOLLOWED = jobs.c.started_at == jobs.c.claimed_at
HAND_BACK = (
    update(jobs)
    .where(jobs.c.job_id == bindparam("b_job", type_=String()),
           jobs.c.attempt == bindparam("b_attempt", type_=Integer()),
           jobs.c.status == "running",
           # who knows that the body has not run may give back one that began with its claim
           jobs.c.started_at.is_(None) | and_(bindparam("b_begun", type_=Boolean()), HAS_FOLLOWED))
    .values(
        # a stop request that came meanwhile is answered now: nobody else would
        status=case((jobs.c.stop_requested, "cancelled"), else_="queued"),
        finished_at=case((jobs.c.stop_requested, db_now()), else_=null()),
        error_msg=case((jobs.c.stop_requested, "cancelled"), else_=jobs.c.error_msg),
        # why it waited before the claim is still true: a retry after a cooldown stays one (rule C6)
        wait_reason=case((jobs.c.stop_requested, ""), (jobs.c.wait_reason == "", "handed_back"),
                         else_=jobs.c.wait_reason),
        stop_requested=False, park_requested=False, lease_until=None, busy_until=None, updated_at=db_now(),
        started_at=None, worker=None, boot_id=None)
    .returning(jobs.c.status)
)


def put_off(job_id: str, seconds: float) -> Update:
    """Make a queued job wait for `seconds` from now."""
    return update(jobs).where(jobs.c.job_id == job_id, jobs.c.status == "queued").values(
        run_after=plus_seconds(db_now(), seconds))


CLOSE_ATTEMPT = (
    update(attempts)
    .where(attempts.c.job_id == bindparam("b_job", type_=String()),
           attempts.c.attempt == bindparam("b_attempt", type_=Integer()))
    .values(finished_at=db_now(), outcome=bindparam("b_outcome", type_=String()))
)

_LOST = (
    jobs.c.job_id, jobs.c.attempt, jobs.c.group_key, jobs.c.boot_id, jobs.c.lease_until, jobs.c.stop_requested,
    jobs.c.site_code, jobs.c.target_code, jobs.c.failures, jobs.c.max_attempts, jobs.c.recoveries,
    jobs.c.recoveries_row, jobs.c.cooldown_retries, jobs.c.cooldown_row, jobs.c.deadlines, jobs.c.deadlines_row,
    jobs.c.js_challenges, jobs.c.row_page, jobs.c.last_completed_page, jobs.c.error_msg, jobs.c.cooldown_seen,
    jobs.c.started_at,
    INTERVAL.label("interval_sec"),
    select(rate_groups.c.crawl_delay_sec).where(rate_groups.c.key == jobs.c.group_key).scalar_subquery()
    .label("crawl_delay_sec"),
    db_now().label("now"),
)


def expired(limit: int, behind: str) -> Select[Any]:
    """Find running jobs whose lease is over, by id, those behind the id `behind`."""
    return select(jobs.c.job_id, jobs.c.attempt, jobs.c.group_key).where(
        IS_RUNNING, jobs.c.lease_until < db_now(), jobs.c.job_id > behind
    ).order_by(jobs.c.job_id).limit(limit)


def next_ready(lanes: Sequence[str] | None, dialect: str) -> Select[Any]:
    """Find out in how many seconds the next of these lanes becomes ready."""
    soonest = func.min(rate_groups.c.ready_at, type_=UtcDateTime())
    return select(seconds_from(db_now(), soonest).label("due_sec")).where(*_served(lanes, dialect))


def running_of(boot_ids: list[str]) -> Select[Any]:
    """Find the running jobs that these worker boots claimed."""
    return select(
        jobs.c.job_id, jobs.c.attempt, jobs.c.group_key, jobs.c.started_at.is_not(None).label("started"),
        func.coalesce(HAS_FOLLOWED, False).label("followed"),
        seconds_from(jobs.c.claimed_at, db_now()).label("age_sec"),
    ).where(IS_RUNNING, jobs.c.boot_id.in_(boot_ids))


def lost(job_id: str, attempt: int, *, only_expired: bool) -> Select[Any]:
    """Lock and read a running attempt that seems to be lost; no row if it is not (any more), or is locked."""
    statement = select(*_LOST).where(jobs.c.job_id == job_id, jobs.c.attempt == attempt, jobs.c.status == "running")
    if only_expired:
        statement = statement.where(jobs.c.lease_until < db_now())
    return statement.with_for_update(of=jobs, key_share=True, skip_locked=True)


def asleep(limit: int) -> Select[Any]:
    """Find groups with due work whose `ready_at` would not wake anybody in time (it should find none)."""
    queued = (jobs.c.group_key == rate_groups.c.key, IS_QUEUED, ~is_held(db_now()),
              jobs.c.expires_at.is_(None) | (jobs.c.expires_at > db_now()))
    due = (select(jobs.c.seq).where(*queued, jobs.c.run_after.is_(None)).exists()
           | select(jobs.c.seq).where(*queued, jobs.c.run_after <= db_now()).exists())
    held = select(fleet.c.operator_pause_until).where(fleet.c.id == 1).scalar_subquery()
    running = select(jobs.c.seq).where(jobs.c.group_key == rate_groups.c.key, IS_RUNNING).exists()
    woken = select(lane_wake.c.id).where(lane_wake.c.group_key == rate_groups.c.key).exists()
    soon = plus_seconds(db_now(), bindparam("b_slack", type_=Float()))

    def over(gate: ColumnElement[Any]) -> ColumnElement[bool]:
        return func.coalesce(gate, db_now(), type_=UtcDateTime()) <= db_now()

    late = rate_groups.c.ready_at.is_(None) | (rate_groups.c.ready_at > soon)
    return (
        select(rate_groups.c.key)
        .where(late, due, ~running, ~woken, over(rate_groups.c.pause_until),
               over(rate_groups.c.operator_pause_until), over(rate_groups.c.next_request_at), over(held))
        .order_by(rate_groups.c.key).limit(limit)
    )


def moved_lately(seconds: float, limit: int) -> Select[Any]:
    """Find sites that were changed within the last `seconds`: only theirs can be in another lane than they should."""
    return select(sites.c.site_code).where(sites.c.updated_at > plus_seconds(db_now(), -seconds)).limit(limit)


def misplaced(site_codes: Sequence[str] | None = None) -> Select[Any]:
    """Find sites (of all, or of these) whose queued jobs wait in another group's lane.

    A submit or a settle overlapped with a move. All sites means that every queued job is read.
    """
    among = [] if site_codes is None else [jobs.c.site_code.in_(site_codes)]
    return (
        select(jobs.c.site_code, jobs.c.group_key.label("here"), sites.c.group_key).distinct()
        .join_from(jobs, sites, sites.c.site_code == jobs.c.site_code)
        .where(*among, IS_QUEUED, sites.c.group_key != jobs.c.group_key,
               ~jobs.c.group_key.startswith("_", autoescape=True))
    )


REHOME = (
    update(jobs)
    .where(jobs.c.site_code == bindparam("b_site", type_=String()), IS_QUEUED,
           jobs.c.group_key != bindparam("b_group", type_=String()), ~jobs.c.group_key.startswith("_", autoescape=True))
    .values(group_key=bindparam("b_group", type_=String()), updated_at=db_now())
)


def count(conn: Connection, name: str, by: int = 1) -> None:
    """Add to a counter of what the protocol refused or repaired."""
    make = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
    statement = make(counters).values(name=name, value=by)
    conn.execute(statement.on_conflict_do_update(
        index_elements=["name"], set_={"value": counters.c.value + statement.excluded.value}))


def greet(conn: Connection, row: dict[str, Any]) -> None:
    """Write a worker's row at its start, or renew its heartbeat; `row` holds every column but the times."""
    make = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
    statement = make(workers).values(**row, started_at=db_now(), heartbeat_at=db_now(), consuming_at=db_now())
    conn.execute(statement.on_conflict_do_update(index_elements=["boot_id"], set_={"heartbeat_at": db_now()}))


def worker_seen(boot_id: str, *, trouble: str, stopped: bool) -> Any:
    """Renew a worker's heartbeat; note that it consumes (no `trouble`), or that it has stopped."""
    values: dict[str, Any] = {"heartbeat_at": db_now(), "trouble": trouble}
    if stopped:
        values["stopped_at"] = db_now()
    elif not trouble:
        values["consuming_at"] = db_now()
    return update(workers).where(workers.c.boot_id == boot_id).values(**values)
