"""A job's row as the meta document that Celery's `AsyncResult` reads."""

from __future__ import annotations

from typing import Any

from celery import states
from celery.exceptions import TaskRevokedError
from sqlalchemy import Connection, select

from config.errors import JobFailed, JobWaits
from models.jobs import jobs


def celery_meta(conn: Connection, job_id: str) -> dict[str, Any]:
    """Return status, result, traceback, children, date_done and task_id of a job; PENDING for an unknown id.

    Failed, waiting and cancelled jobs answer an exception that pickles, a running one its progress.
    """
    row = conn.execute(select(
        jobs.c.status, jobs.c.attempt, jobs.c.result, jobs.c.error_msg, jobs.c.progress, jobs.c.finished_at,
        jobs.c.wait_reason, jobs.c.started_at,
    ).where(jobs.c.job_id == job_id)).first()
    meta: dict[str, Any] = {"task_id": job_id, "status": states.PENDING, "result": None, "traceback": None,
                            "children": [], "date_done": row.finished_at if row is not None else None}
    if row is not None:
        meta["status"], meta["result"] = _state(row)
        if row.status == "failed":
            meta["traceback"] = (row.result or {}).get("traceback") or None
    return meta


def _state(row: Any) -> tuple[str, Any]:
    if row.status == "done":
        return states.SUCCESS, row.result
    if row.status == "failed":
        return states.FAILURE, JobFailed(row.error_msg)
    if row.status == "cancelled":
        return states.REVOKED, TaskRevokedError(row.error_msg or "cancelled")
    if row.status == "running":
        return ("PROGRESS", row.progress) if row.progress else (states.STARTED, None)
    if row.attempt and row.wait_reason != "handed_back":
        return states.RETRY, JobWaits(row.error_msg or row.wait_reason)
    return states.PENDING, None
