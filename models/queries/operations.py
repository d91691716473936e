"""What operators did to a job or to a group, newest first."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, or_, select

from models.operations import operations as table
from models.queries.reading import iso, rows

_OF_ALL = ("pause_all", "resume_all")
_AS_STORED = ("who", "surface", "action", "group_key", "job_id", "target_code", "entry", "reason", "details")


def operations_of_job(conn: Connection, job_id: str, limit: int = 100) -> list[dict[str, Any]]:
    """Return what operators did to a job."""
    return _documents(conn, table.c.job_id == job_id, limit)


def operations_of_group(conn: Connection, group: str, limit: int = 100) -> list[dict[str, Any]]:
    """Return what operators did to a group: to its lane, to its jobs, or to all lanes at once."""
    return _documents(conn, or_(table.c.group_key == group, table.c.action.in_(_OF_ALL)), limit)


def _documents(conn: Connection, wanted: ColumnElement[bool], limit: int) -> list[dict[str, Any]]:
    found = select(table).where(wanted).order_by(table.c.at.desc(), table.c.id.desc()).limit(limit)
    return [{"at": iso(row["at"]), **{name: row[name] for name in _AS_STORED}} for row in rows(conn, found)]
