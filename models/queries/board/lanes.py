"""Lanes page by page, the paused and the busiest first, each row with what its bar, countdown and chart need.

Of every lane with work or a pause only its key, the number of its waiting jobs and what holds it are read; the rest only
of those on the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from models.base import UtcDateTime
from models.groups import fleet, rate_groups
from models.jobs import IS_QUEUED, IS_RUNNING, jobs
from models.queries.board import paging
from models.queries.board.paging import Page
from models.queries.jobs import progress
from models.queries.lanes import documents_of, pause_of, read_lanes
from models.queries.reading import db_moment, iso, rows, seconds
from models.sites import interval_history

#: steps of a lane's chart
CHART = 30
_PAUSED, _RUNNING, _WAITING = 0, 1, 2


class Place(NamedTuple):
    """Where a lane stands in the list: first what is paused, then what runs, then what waits; the busiest first."""

    rank: int
    fewer: int
    group: str


def page_and_total(
    conn: Connection, *, search: str = "", limit: int = 50, cursor: str | None = None
) -> tuple[Page, dict[str, Any]]:
    """Return a page of lane rows, and how many lanes there are in the list; `search` is how a group's key begins.

    Raises BadInput for a cursor that leads nowhere.
    """
    found = places(conn, search)
    some, follows = cut(found, limit=limit, cursor=cursor)
    return Page(rows_of(conn, some), follows), paging.count(len(found))


def cut(found: list[Place], *, limit: int, cursor: str | None) -> tuple[list[str], str | None]:
    """Return the groups of one page of places, and the cursor of the next; raises BadInput as `page_and_total`."""
    if cursor is not None:
        behind = Place(*paging.decode(cursor, int, int, str))
        found = [place for place in found if place > behind]
    some = found[:limit]
    return [place.group for place in some], paging.encode(*some[-1]) if len(found) > limit else None


def places(conn: Connection, search: str = "") -> list[Place]:
    """Return where every lane with work or a pause stands, in order."""
    now = db_moment(conn)
    begins = [column.startswith(search.lower(), autoescape=True) for column in (jobs.c.group_key, rate_groups.c.key)
              ] if search else [None, None]
    of_jobs, of_groups = ([condition] if condition is not None else [] for condition in begins)
    queued: dict[str, int] = dict(conn.execute(
        select(jobs.c.group_key, func.count()).where(IS_QUEUED, *of_jobs).group_by(jobs.c.group_key)).all())
    running = set(conn.scalars(select(jobs.c.group_key).where(IS_RUNNING, *of_jobs)))
    paused = set(conn.scalars(select(rate_groups.c.key).where(is_paused(now), *of_groups)))
    return sorted(
        Place(_PAUSED if group in paused else _RUNNING if group in running else _WAITING, -queued.get(group, 0), group)
        for group in {*queued, *running, *paused})


def is_paused(now: datetime) -> ColumnElement[bool]:
    """The condition that a group itself is paused, by its cooldown or by an operator."""
    return or_(rate_groups.c.pause_until > now, rate_groups.c.operator_pause_until > now)


def rows_of(conn: Connection, groups: Sequence[str]) -> list[dict[str, Any]]:
    """Return the lane rows of groups, in the order given: the lane documents with what a page shows beside them."""
    found = read_lanes(conn, groups)
    of_all = next(rows(conn, select(fleet).where(fleet.c.id == 1)), None)
    oldest = _oldest(conn, groups, found.now)
    documents = documents_of(conn, found, list(groups))
    shown = {one["running_target"] or one["next_queued_target"] for one in documents} - {None}
    charts = _charts(conn, sorted(shown))
    return [
        one | _beside(found.groups.get(one["group"]), of_all, found.running.get(one["group"]),
                      found.next_up.get(one["group"]), found.now)
        | {"oldest_wait_sec": seconds(oldest.get(one["group"]), found.now),
           "interval_history": charts.get(one["running_target"] or one["next_queued_target"], [])}
        for one in documents]


def _beside(group: Mapping[str, Any] | None, of_all: Mapping[str, Any] | None, running: Mapping[str, Any] | None,
            following: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    pause = pause_of(group, of_all, now)
    due = None if running is not None or following is None else following["run_after"]
    own = group["operator_pause_until"] if group else None
    by = None
    if pause.kind == "operator":
        whose = of_all if own is None or (of_all and (of_all["operator_pause_until"] or own) > own) else group
        by = whose["operator_pause_by"] if whose else None
    return {
        "progress": progress(running["progress"]) if running else None,
        "current_page": running["current_page"] if running else None,
        "progress_at": iso(running["updated_at"]) if running else None,
        "stop_requested": bool(running["stop_requested"]) if running else False,
        "paused_for_sec": seconds(now, pause.until), "paused_by": by,
        "lease_left_sec": seconds(now, running["lease_until"]) if running else None,
        "next_queued_job_id": following["job_id"] if following else None,
        "due_in_sec": seconds(now, due) if due is not None and due > now else None,
    }


def _oldest(conn: Connection, groups: Sequence[str], now: datetime) -> dict[str, datetime]:
    """Since when the due job that waits longest has been due, by group."""
    since = case((jobs.c.run_after > jobs.c.queue_at, jobs.c.run_after), else_=jobs.c.queue_at)
    wanted = select(jobs.c.group_key, func.min(since, type_=UtcDateTime())).where(
        IS_QUEUED, jobs.c.group_key.in_(groups), or_(jobs.c.run_after.is_(None), jobs.c.run_after <= now),
        or_(jobs.c.expires_at.is_(None), jobs.c.expires_at > now)).group_by(jobs.c.group_key)
    return dict(conn.execute(wanted).all())


def _charts(conn: Connection, codes: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The last steps of targets' intervals, oldest first."""
    table = interval_history.c
    number = func.row_number().over(partition_by=table.target_code, order_by=(table.at.desc(), table.id.desc()))
    steps = select(table.target_code, table.at, table.new_interval_sec, number.label("number")).where(
        table.target_code.in_(codes)).subquery()
    charts: dict[str, list[dict[str, Any]]] = {}
    for row in conn.execute(select(steps).where(and_(steps.c.number <= CHART)).order_by(steps.c.number.desc())):
        charts.setdefault(row.target_code, []).append({"at": iso(row.at), "interval_sec": row.new_interval_sec})
    return charts
