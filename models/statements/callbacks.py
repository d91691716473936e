"""The callbacks of final jobs: the row is their outbox until `callbacks_sent_at` says that they were sent (rule J2)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Connection, Integer, Select, String, bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite

from models.base import db_now
from models.jobs import TO_SEND, jobs
from models.workers import marks

#: a look through the partial index whether anything is to be sent
ANY = select(jobs.c.seq).where(TO_SEND).limit(1)

SENT = (
    update(jobs)
    .where(jobs.c.job_id == bindparam("b_job", type_=String()),
           # a requeue meanwhile has begun another life, whose end is told anew
           jobs.c.attempt == bindparam("b_attempt", type_=Integer()), TO_SEND)
    .values(callbacks_sent_at=db_now())
)

END_TURN = (
    update(marks)
    .where(marks.c.name == bindparam("b_name", type_=String()),
           marks.c.value == bindparam("b_mine", type_=BigInteger()))
    .values(value=0)
)


def unsent(limit: int) -> Select[Any]:
    """Find final jobs whose callbacks were not sent, oldest first."""
    return select(jobs.c.job_id, jobs.c.attempt, jobs.c.status, jobs.c.result, jobs.c.callbacks).where(
        TO_SEND).order_by(jobs.c.seq).limit(limit)


def hold_turn(conn: Connection, name: str, now: int, until: int) -> bool:
    """Take the turn called `name` until `until` if it is nobody's `now` (microseconds); one caller gets it."""
    make = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
    statement = make(marks).values(name=name, value=until)
    taken = conn.execute(statement.on_conflict_do_update(
        index_elements=["name"], set_={"value": statement.excluded.value}, where=marks.c.value <= now,
    ).returning(marks.c.name))
    return taken.first() is not None
