"""Whose turn it is: a row of `marks` whose value is the moment (microseconds since 1970) until which it is somebody's."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Connection, Select, String, bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite

from models.base import db_now
from models.workers import marks

GIVE_BACK = (
    update(marks)
    .where(marks.c.name == bindparam("b_name", type_=String()),
           marks.c.value == bindparam("b_mine", type_=BigInteger()))
    .values(value=0)
)


def look(name: str) -> Select[Any]:
    """Read until when the turn called `name` is somebody's (None if it never was), and the database's present moment."""
    until = select(marks.c.value).where(marks.c.name == name).scalar_subquery()
    return select(until.label("until"), db_now().label("now"))


def take(conn: Connection, name: str, now: int, until: int) -> bool:
    """Take the turn called `name` until `until` if it is nobody's `now` (microseconds); one caller gets it."""
    make = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
    statement = make(marks).values(name=name, value=until)
    taken = conn.execute(statement.on_conflict_do_update(
        index_elements=["name"], set_={"value": statement.excluded.value}, where=marks.c.value <= now,
    ).returning(marks.c.name))
    return taken.first() is not None
