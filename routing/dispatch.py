"""Submitting a job: what every surface (Python, Celery, CLI, API, schedule) calls.

A submit is an INSERT. It needs no broker, locks nothing that others need, and can be part of the caller's own
transaction (rule J1).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from config.errors import BadInput
from config.moments import FAR
from config.settings import Settings
from models.db import Database
from models.ledger import Ledger, NewJob, Submitted
from models.operations import Operator
from models.queries.catalogue import nearest_target
from routing.kinds import INTERNAL_LANES, task_of

#: no job waits longer than this for its moment; a larger number is a mistake of units
LONGEST_WAIT_SEC = 366 * 86_400.0
#: what the columns hold with room to count on: pages, attempts, seconds
MOST = 1_000_000_000
#: moments that are still moments in every zone and every database
_FIRST = datetime(2, 1, 1, tzinfo=UTC)
SOURCES = ("manual", "schedule", "retry")


def submit(
    db: Database, settings: Settings, target_code: str, *, kind: str = "crawl", source: str = "manual",
    force: bool = False, resume_from_page: int = 0, priority: int = 100, dedupe_key: str | None = None,
    run_after: datetime | None = None, run_after_sec: float | None = None, max_attempts: int | None = None,
    deadline_sec: float | None = None, expires_at: datetime | None = None, expires_sec: float | None = None,
    again: bool = False, job_id: str | None = None, options: dict[str, Any] | None = None,
    callbacks: dict[str, Any] | None = None, conn: Connection | None = None,
    by: Operator | None = None,
) -> Submitted:
    """Store a job for `target_code` and return its id at once (rule J1).

    `run_after` is a moment, `run_after_sec` a wait from now; negative waits and pages count as 0. A job that is still
    queued at `expires_at` (or `expires_sec` from now) becomes cancelled instead of running: one that has expired when
    it is submitted never runs. With `again` the dedupe key is left out. `callbacks` are signatures to send once the job
    is final (see `routing.calls`). `conn` makes the submit part of the caller's transaction. `by` is the operator who
    asks, if one does: a job that is stored for him is logged as his operation. Raises BadInput for an unknown target or a
    value out of range; then nothing is stored.
    """
    _refuse_what_cannot_be(kind, source, target_code, job_id, dedupe_key)
    _refuse_numbers_out_of_range(resume_from_page, max_attempts, deadline_sec)
    for name, moment in (("run_after", run_after), ("expires_at", expires_at)):
        _refuse_what_is_no_moment(name, moment)
    if run_after_sec is not None and run_after_sec > LONGEST_WAIT_SEC:
        raise BadInput(f"run_after of {run_after_sec:g} s is more than a year away")
    if not -1_000_000 <= priority <= 1_000_000:
        raise BadInput(f"priority {priority} is out of range (-1000000 to 1000000)")
    expires = _expiry(expires_at, expires_sec)
    job = NewJob(
        kind=kind, target_code=target_code, group=INTERNAL_LANES.get(kind),
        source=source, force=force, resume_from_page=resume_from_page,
        priority=priority, dedupe_key=None if again else dedupe_key, run_after=run_after, delay_sec=run_after_sec,
        max_attempts=max_attempts, deadline_sec=deadline_sec, expires_at=expires_at, expires_sec=expires,
        job_id=job_id, options=options, callbacks=callbacks)
    try:
        return Ledger(db, settings).submit(conn, job, by)
    except BadInput as error:
        with db.read() as reading:
            near = nearest_target(reading, target_code)
        raise BadInput(f"{error}; did you mean {near!r}?" if near else str(error)) from error


def _refuse_what_cannot_be(
    kind: str, source: str, target_code: str, job_id: str | None, dedupe_key: str | None
) -> None:
    try:
        task_of(kind)
    except LookupError as error:
        raise BadInput(str(error)) from error
    if source not in SOURCES:
        raise BadInput(f"source {source!r} is none of {', '.join(SOURCES)}")
    if job_id is not None and not (1 <= len(job_id) <= 64 and job_id.isprintable()):
        raise BadInput("a job id has 1 to 64 printable characters")
    if dedupe_key is not None and not (1 <= len(dedupe_key) <= 300 and dedupe_key.isprintable()):
        raise BadInput("a dedupe key has 1 to 300 printable characters")
    if not _is_text(target_code):
        raise BadInput(f"unknown target {target_code!r}")


def _is_text(value: str) -> bool:
    """Tell whether every database keeps it: no NUL, no half character."""
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


def _refuse_numbers_out_of_range(resume_from_page: int, max_attempts: int | None, deadline_sec: float | None) -> None:
    if resume_from_page > MOST:
        raise BadInput(f"resume_from_page {resume_from_page} is out of range (0 to {MOST})")
    if max_attempts is not None and max_attempts < 1:
        raise BadInput(f"max_attempts must be at least 1, not {max_attempts}")
    if max_attempts is not None and max_attempts > MOST:
        raise BadInput(f"max_attempts {max_attempts} is out of range (1 to {MOST})")
    if deadline_sec is not None and not 0 < deadline_sec <= MOST:
        raise BadInput(f"deadline_sec must be above 0 and at most {MOST}, not {deadline_sec:g}")


def _refuse_what_is_no_moment(name: str, moment: datetime | None) -> None:
    if moment is None:
        return
    if moment.tzinfo is None:
        raise BadInput(f"{name} {moment} has no time zone")
    if not _FIRST <= moment < FAR:
        raise BadInput(f"{name} {moment} is out of range")


def _expiry(expires_at: datetime | None, expires_sec: float | None) -> float | None:
    """Return after how many seconds a job expires, None if it never does or does so at a moment."""
    if expires_at is not None and expires_sec is not None:
        raise BadInput("a job expires at expires_at or after expires_sec, not both")
    if expires_sec is None:
        return None
    if not expires_sec <= LONGEST_WAIT_SEC:
        raise BadInput(f"expires_sec of {expires_sec:g} s is more than a year away")
    return max(0.0, expires_sec)


def default_key(kind: str, code: str, *, force: bool = False) -> str:
    """Return the dedupe key that surfaces use unless another is given: ``crawl:<target>``, ``:force`` (rule J3)."""
    return f"{kind}:{code}:force" if force and kind == "crawl" else f"{kind}:{code}"
