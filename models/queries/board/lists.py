"""Targets and runs page by page."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select, tuple_

from models.queries import schedule
from models.queries.board import paging
from models.queries.board.paging import Page
from models.queries.catalogue import target_documents
from models.schedules import runs as run_table
from models.sites import targets as target_table


def targets(conn: Connection, *, site: str | None = None, limit: int = 50, cursor: str | None = None) -> Page:
    """Return a page of target documents, by site and code; raises BadInput for a cursor that leads nowhere."""
    place = (target_table.c.site_code, target_table.c.target_code)
    wanted = select(target_table.c.target_code, target_table.c.site_code).order_by(*place).limit(limit + 1)
    if site is not None:
        wanted = wanted.where(target_table.c.site_code == site)
    if cursor is not None:
        behind = paging.decode(cursor, str, str)
        wanted = wanted.where(tuple_(*place) > tuple_(*behind))
    found = conn.execute(wanted).all()
    some = found[:limit]
    follows = paging.encode(some[-1].site_code, some[-1].target_code) if len(found) > limit else None
    return Page(target_documents(conn, [row.target_code for row in some]), follows)


def runs(conn: Connection, *, name: str | None = None, limit: int = 50, cursor: str | None = None) -> Page:
    """Return a page of run documents, newest first, of one entry or of all; raises as `targets`."""
    wanted = select(run_table.c.run_id).order_by(run_table.c.run_id.desc()).limit(limit + 1)
    if name is not None:
        wanted = wanted.where(run_table.c.entry == name)
    if cursor is not None:
        wanted = wanted.where(run_table.c.run_id < paging.decode(cursor, int)[0])
    found: list[int] = list(conn.scalars(wanted))
    some = found[:limit]
    documents: list[dict[str, Any]] = schedule.run_documents(conn, some)
    return Page(documents, paging.encode(some[-1]) if len(found) > limit else None)
