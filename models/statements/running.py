"""What a running attempt writes and reads of its own row. Every write carries the fence: job, attempt, running."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Connection,
    Float,
    Integer,
    String,
    Update,
    bindparam,
    case,
    cast,
    func,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ColumnElement

from models.base import Json, db_now, plus_seconds, seconds_from
from models.groups import fleet, rate_groups
from models.jobs import is_held, jobs
from models.requests import requests, robots_copies
from models.sites import targets

FENCE: tuple[ColumnElement[bool], ...] = (
    jobs.c.job_id == bindparam("b_job", type_=String()),
    jobs.c.attempt == bindparam("b_attempt", type_=Integer()),
    jobs.c.status == "running",
)


def _of_group(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return select(column).where(rate_groups.c.key == jobs.c.group_key).scalar_subquery()


_BEGIN = (
    update(jobs)
    .where(*FENCE, jobs.c.started_at.is_(None))
    .values(started_at=db_now(), updated_at=db_now(),
            busy_until=plus_seconds(db_now(), bindparam("b_busy", type_=Float())))
    .returning(
        jobs.c.job_id, jobs.c.attempt, jobs.c.claim_no, jobs.c.group_key, jobs.c.kind, jobs.c.target_code,
        jobs.c.site_code, jobs.c.source, jobs.c.force, jobs.c.options, jobs.c.failures, jobs.c.max_attempts,
        jobs.c.recoveries, jobs.c.recoveries_row, jobs.c.cooldown_retries, jobs.c.cooldown_row, jobs.c.deadlines,
        jobs.c.deadlines_row, jobs.c.js_challenges, jobs.c.row_page, jobs.c.error_msg, jobs.c.resume_from_page,
        jobs.c.last_completed_page, jobs.c.checkpoint, jobs.c.progress, jobs.c.deadline_sec,
        seconds_from(db_now(), jobs.c.lease_until).label("lease_sec"),
        seconds_from(db_now(), _of_group(rate_groups.c.next_request_at)).label("wait_sec"),
        seconds_from(_of_group(rate_groups.c.last_response_at), db_now()).label("since_response_sec"),
        _of_group(rate_groups.c.crawl_delay_sec).label("crawl_delay_sec"),
        _of_group(rate_groups.c.last_interval_sec).label("last_interval_sec"),
        _of_group(rate_groups.c.usual_latency_sec).label("usual_latency_sec"),
    )
)

#: The body's first statement: it runs only if nobody has started this attempt yet. Returns the row it works with.
START = _BEGIN.values(wait_reason="")
#: The same for a job that was taken in this transaction (SQLite): why it waited is kept, in case it is handed back.
FOLLOW = _BEGIN

#: What the guard and the waits look at.
PULSE = (
    select(
        seconds_from(db_now(), jobs.c.lease_until).label("remaining_sec"),
        jobs.c.stop_requested, jobs.c.park_requested,
        seconds_from(db_now(), rate_groups.c.pause_until).label("cooling_sec"),
        seconds_from(db_now(), rate_groups.c.operator_pause_until).label("held_sec"),
        rate_groups.c.pause_reason, rate_groups.c.operator_pause_reason,
        seconds_from(db_now(), fleet.c.operator_pause_until).label("fleet_sec"),
        fleet.c.operator_pause_reason.label("fleet_reason"),
        case((is_held(db_now()), seconds_from(db_now(), jobs.c.hold_until)), else_=0.0).label("quiet_sec"),
    )
    .join_from(jobs, rate_groups, rate_groups.c.key == jobs.c.group_key)
    .outerjoin(fleet, fleet.c.id == 1)
    .where(*FENCE)
)

#: A body says how long it may be silent.
BUSY = update(jobs).where(*FENCE).values(busy_until=plus_seconds(db_now(), bindparam("b_busy", type_=Float())))

#: One commit of a body; what it does not know stays as it is.
COMMIT = (
    update(jobs)
    .where(*FENCE)
    .values(
        progress=func.coalesce(bindparam("b_progress", type_=Json), jobs.c.progress),
        current_page=func.coalesce(bindparam("b_page", type_=Integer()), jobs.c.current_page),
        last_completed_page=func.coalesce(bindparam("b_done_page", type_=Integer()), jobs.c.last_completed_page),
        checkpoint=func.coalesce(bindparam("b_checkpoint", type_=Json), jobs.c.checkpoint),
        cooldown_seen=func.coalesce(bindparam("b_seen", type_=Json), jobs.c.cooldown_seen),
        last_response_at=func.coalesce(
            plus_seconds(db_now(), -cast(bindparam("b_age", type_=Float()), Float())), jobs.c.last_response_at),
        last_interval_sec=func.coalesce(bindparam("b_gap", type_=Float()), jobs.c.last_interval_sec),
        busy_until=plus_seconds(db_now(), bindparam("b_busy", type_=Float())),
        updated_at=db_now(),
    )
)


#: A crawl that ended complete moves its target's frontier to its own generation (rule P2); never back.
MOVE_FRONTIER = (
    update(targets)
    .where(targets.c.target_code == bindparam("b_target", type_=String()),
           targets.c.frontier_gen < bindparam("b_generation", type_=Integer()))
    .values(frontier_gen=bindparam("b_generation", type_=Integer()), frontier_at=db_now())
)
#: What the target's last crawl came to.
NOTE_CRAWL = (
    update(targets)
    .where(targets.c.target_code == bindparam("b_target", type_=String()))
    .values(last_crawl_at=db_now(), last_outcome=bindparam("b_outcome", type_=String()),
            last_job_id=bindparam("b_job", type_=String()))
)
WEAK_403 = update(targets).where(targets.c.target_code == bindparam("b_target", type_=String())).values(
    lone_403_weak=True)

#: The document of what a cooldown did, on the row that this attempt has just settled.
NOTE_RESULT = (
    update(jobs)
    .where(jobs.c.job_id == bindparam("b_job", type_=String()), jobs.c.attempt == bindparam("b_attempt", type_=Integer()))
    .values(result=bindparam("b_notes", type_=Json))
)


def park_running(job_ids: list[str], boot_id: str) -> Update:
    """Ask running jobs of one worker to go to their next stop point (the worker is stopping)."""
    return update(jobs).where(
        jobs.c.job_id.in_(job_ids), jobs.c.boot_id == boot_id, jobs.c.status == "running"
    ).values(park_requested=True)


def _log_requests(make: Any) -> Any:
    """Insert request-log rows; `b_started` and `b_ended` are ages in seconds, so that no row holds a worker's clock."""
    return make(requests).values(
        group_key=bindparam("b_group"), host=bindparam("b_host"), job_id=bindparam("b_job"),
        attempt=bindparam("b_attempt"), number=bindparam("b_number"), url=bindparam("b_url"),
        started_at=plus_seconds(db_now(), -cast(bindparam("b_started", type_=Float()), Float())),
        ended_at=plus_seconds(db_now(), -cast(bindparam("b_ended", type_=Float()), Float())),
        status=bindparam("b_status"), bytes=bindparam("b_bytes"), error=bindparam("b_error"),
        interval_sec=bindparam("b_interval"),
    ).on_conflict_do_nothing(index_elements=["job_id", "attempt", "number"])


#: by dialect; a row that a repeated commit brings again stays as it was
LOG_REQUESTS = {"postgresql": _log_requests(postgresql.insert), "sqlite": _log_requests(sqlite.insert)}


def _insert(conn: Connection, table: Any) -> Any:
    return (postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert)(table)


def keep_robots(conn: Connection, row: dict[str, Any]) -> None:
    """Keep the copy of a host's robots.txt; `row` holds every column but the time."""
    statement = _insert(conn, robots_copies).values(**row, fetched_at=db_now())
    conn.execute(statement.on_conflict_do_update(
        index_elements=["host"], set_={name: statement.excluded[name] for name in
                                       ("fetched_at", "status", "decision", "wait_sec", "body")}))
