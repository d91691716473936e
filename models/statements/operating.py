"""Cancelling and requeueing, of one job or of many: guarded by the state that the job must still be in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Update, case, func, insert, null, select, update

from models.base import db_now
from models.groups import lane_wake
from models.jobs import in_state, jobs
from models.sites import sites, targets

ACTIVE, DEAD = ("queued", "running"), ("failed", "cancelled")
# an expression, so that PostgreSQL finds the jobs by their numbers and does not read all that are in a state
_STATUS: ColumnElement[str] = jobs.c.status + ""

#: the site that a job's target belongs to now, and its group (rule R2); internal lanes are nobody's site
_SITE: ColumnElement[Any] = func.coalesce(
    select(targets.c.site_code).where(targets.c.target_code == jobs.c.target_code).correlate(jobs).scalar_subquery(),
    jobs.c.site_code)
_INTERNAL = jobs.c.group_key.startswith("_", autoescape=True)
HOME: ColumnElement[Any] = case(
    (_INTERNAL, jobs.c.group_key),
    else_=func.coalesce(
        select(sites.c.group_key).where(sites.c.site_code == _SITE).correlate(jobs).scalar_subquery(), jobs.c.group_key))


def wanted(conditions: Sequence[ColumnElement[bool]], states: Sequence[str]) -> Select[Any]:
    """Find the jobs in `states` that fulfil `conditions`, with what has to be locked for them, in lane order."""
    return (
        select(jobs.c.seq, jobs.c.group_key, HOME.label("home"), jobs.c.dedupe_key)
        .where(*conditions, in_state(*states)).order_by(jobs.c.group_key, jobs.c.seq))


def cancel_queued(seqs: Sequence[int]) -> Update:
    """Cancel those of the jobs that are still queued."""
    return (
        update(jobs).where(jobs.c.seq.in_(seqs), _STATUS == "queued")
        .values(status="cancelled", finished_at=db_now(), updated_at=db_now(), error_msg="cancelled", wait_reason="")
        .returning(jobs.c.seq))


def flag_running(seqs: Sequence[int]) -> Update:
    """Ask those of the jobs that run to stop."""
    return (
        update(jobs).where(jobs.c.seq.in_(seqs), _STATUS == "running")
        .values(stop_requested=True, updated_at=db_now()).returning(jobs.c.seq))


def stopping(seqs: Sequence[int]) -> Select[Any]:
    """Find those of the jobs that run and were asked to stop before."""
    return select(jobs.c.seq).where(jobs.c.seq.in_(seqs), _STATUS == "running", jobs.c.stop_requested.is_(True))


def requeue(seqs: Sequence[int], *, restart: bool) -> Update:
    """Bring failed and cancelled jobs back, with nothing spent, into the lane where their site is now (rule J14).

    A job whose dedupe key is active meanwhile stays as it is. With `restart` the checkpoint is dropped.
    """
    page = jobs.c.resume_from_page if restart else jobs.c.last_completed_page
    counters = ("failures", "recoveries", "recoveries_row", "cooldown_retries", "cooldown_row", "deadlines",
                "deadlines_row", "js_challenges")
    values: dict[str, Any] = dict.fromkeys(counters, 0) | {
        "status": "queued", "finished_at": null(), "started_at": null(), "error_msg": "", "wait_reason": "",
        "stop_requested": False, "park_requested": False, "result": null(), "outcome": null(), "cooldown_seen": null(),
        "worker": null(), "boot_id": null(), "run_after": db_now(), "queue_at": db_now(), "updated_at": db_now(),
        # what comes of it now is told again (rule J2)
        "callbacks_sent_at": null(),
        "expires_at": case((jobs.c.expires_at <= db_now(), null()), else_=jobs.c.expires_at),
        # the counts in a row begin at the page where it goes on
        "row_page": page, "group_key": HOME, "site_code": case((_INTERNAL, jobs.c.site_code), else_=_SITE),
    }
    if restart:
        values |= {"last_completed_page": page, "current_page": page, "checkpoint": null(), "progress": null()}
    return (
        update(jobs).where(jobs.c.seq.in_(seqs), _STATUS.in_(DEAD), _active_of_key().is_(None)).values(values)
        .returning(jobs.c.seq, jobs.c.group_key))


def _active_of_key() -> ColumnElement[Any]:
    """The active job of a job's dedupe key; looked up for each job: as a join it reads all active ones for each."""
    other = jobs.alias("other")
    return (
        select(other.c.job_id)
        .where(other.c.dedupe_key == jobs.c.dedupe_key, (other.c.status + "").in_(ACTIVE)).limit(1)
        .correlate(jobs).scalar_subquery())


def wake(conn: Connection, groups: Sequence[str], **at: Any) -> None:
    """Say of each of these groups that something may be due."""
    keys = sorted(set(groups))
    if keys:
        conn.execute(insert(lane_wake).values(at=db_now()), [{"group_key": key, **at} for key in keys])


def left_out(conn: Connection, seqs: Sequence[int]) -> list[tuple[str, str]]:
    """Return the ids of jobs that were not requeued, each with the reason."""
    found = conn.execute(
        select(jobs.c.job_id, jobs.c.status, jobs.c.dedupe_key, _active_of_key().label("active"))
        .where(jobs.c.seq.in_(seqs)).order_by(jobs.c.seq))
    return [(row.job_id, _why(row)) for row in found]


def _why(row: Any) -> str:
    if row.status not in DEAD:
        return f"cannot requeue status={row.status}"
    if row.active is not None:
        return f"dedupe key {row.dedupe_key} is active as job {row.active}"
    return f"another job with the dedupe key {row.dedupe_key} was requeued"
