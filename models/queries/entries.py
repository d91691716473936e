"""The rows of entries, of which one that cannot be read costs the others nothing (rule S4)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, select
from sqlalchemy.exc import DataError

from models.outcome import message_of
from models.schedules import entries

#: what a value that nobody can read makes a driver, a type or a reader of documents raise
UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, DataError)
_ASSUMED = {"enabled": True, "paused": False, "status": "failed"}


def rows_of(conn: Connection, wanted: Select[Any] | None = None) -> dict[str, dict[str, Any]]:
    """Return the rows of entries that `wanted` selects whole (None: all), by name and in its order.

    A column that cannot be read is None, and the row's member ``unreadable`` says why; only then is it there.
    """
    statement = select(entries).order_by(entries.c.name) if wanted is None else wanted
    try:
        return {row["name"]: dict(row) for row in conn.execute(statement).mappings()}
    except UNREADABLE:
        # with the same locks, if it takes any
        names = list(conn.scalars(statement.with_only_columns(entries.c.name)))
    return {name: _column_by_column(conn, name) for name in names}


def _column_by_column(conn: Connection, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {}
    wrong: list[str] = []
    for column in entries.c:
        try:
            row[column.name] = conn.execute(select(column).where(entries.c.name == name)).scalar_one()
        except UNREADABLE as error:
            row[column.name] = _ASSUMED.get(column.name)
            wrong.append(f"{column.name}: {message_of(error)}")
    return row | {"unreadable": "; ".join(wrong)} if wrong else row
