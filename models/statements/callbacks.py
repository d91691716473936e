"""The callbacks of final jobs: the row is their outbox until `callbacks_sent_at` says that they were sent (rule J2)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Integer, Select, String, bindparam, select, update

from models.base import db_now
from models.jobs import TO_SEND, jobs

#: a look through the partial index whether anything is to be sent
ANY = select(jobs.c.seq).where(TO_SEND).limit(1)

SENT = (
    update(jobs)
    .where(jobs.c.job_id == bindparam("b_job", type_=String()),
           # a requeue meanwhile has begun another life, whose end is told anew
           jobs.c.attempt == bindparam("b_attempt", type_=Integer()), TO_SEND)
    .values(callbacks_sent_at=db_now())
)


def unsent(limit: int) -> Select[Any]:
    """Find final jobs whose callbacks were not sent, oldest first."""
    return select(jobs.c.job_id, jobs.c.attempt, jobs.c.status, jobs.c.result, jobs.c.callbacks).where(
        TO_SEND).order_by(jobs.c.seq).limit(limit)
