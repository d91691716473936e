"""The log of what operators did: one row an action, in the transaction of the change itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, literal, select

from models.base import Json, db_now
from models.jobs import jobs
from models.operations import Operator, operations

_MOST_OF_A_NAME = 200


def log_operation(
    conn: Connection, by: Operator, action: str, *, jobs_seq: Sequence[int] | None = None,
    details: dict[str, Any] | None = None, at: dict[str, Any] | None = None, **about: str | None,
) -> None:
    """Write that `by` did `action`: a row, or with `jobs_seq` one for each of these jobs.

    `about` names what it was done to: `group_key`, `job_id`, `target_code`, `entry`. `at` carries a test's clock.
    """
    told: dict[str, Any] = {
        "who": by.who[:_MOST_OF_A_NAME], "surface": by.surface, "action": action, "reason": by.reason}
    if jobs_seq is None:
        conn.execute(insert(operations).values(at=db_now(), details=details, **told, **about), at or {})
        return
    each = select(db_now(), *(literal(value) for value in told.values()), literal(details, Json), jobs.c.group_key,
                  jobs.c.job_id, jobs.c.target_code).where(jobs.c.seq.in_(jobs_seq))
    conn.execute(insert(operations).from_select(
        ["at", *told, "details", "group_key", "job_id", "target_code"], each), at or {})
