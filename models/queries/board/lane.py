"""Everything that the page of one lane shows beside its row."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, func, select

from models.groups import cooldowns, rate_groups
from models.jobs import IS_QUEUED, jobs
from models.politeness import read_politeness
from models.queries.board import jobs as job_pages
from models.queries.board.lanes import rows_of
from models.queries.catalogue import interval
from models.queries.jobs import JobFilter, document, lane_order
from models.queries.operations import operations_of_group
from models.queries.reading import db_moment, iso, rows
from models.sites import sites, targets

#: what a page shows of each list
SHOWN = 50
#: politeness is told of so many hours
HOURS = 24


def lane(conn: Connection, group: str) -> dict[str, Any] | None:
    """Return a lane row with sites, queue, last jobs, cooldowns, intervals and operations; None if unknown."""
    if conn.execute(select(rate_groups.c.key).where(rate_groups.c.key == group)).first() is None:
        return None
    return rows_of(conn, [group])[0] | {
        "sites": _sites(conn, group), "queue": _queue(conn, group), "last_jobs": _last_jobs(conn, group),
        "cooldowns": _cooldowns(conn, group), "intervals": _intervals(conn, group),
        "operations": operations_of_group(conn, group, SHOWN)}


def politeness(conn: Connection, group: str) -> dict[str, Any]:
    """Return how polite a group was in the last `HOURS`; every request of that time is read for it."""
    since = db_moment(conn) - timedelta(hours=HOURS)
    return {"since": iso(since)} | read_politeness(conn, group, since=since)


def _sites(conn: Connection, group: str) -> list[dict[str, Any]]:
    number = select(func.count()).where(targets.c.site_code == sites.c.site_code).correlate(sites).scalar_subquery()
    found = conn.execute(
        select(sites.c.site_code, sites.c.name, sites.c.base_url, sites.c.cms_adapter, sites.c.group_rule, number)
        .where(sites.c.group_key == group).order_by(sites.c.site_code))
    return [{"site_code": code, "name": name, "base_url": url, "adapter": adapter, "rule": rule, "targets": number}
            for code, name, url, adapter, rule, number in found]


def _queue(conn: Connection, group: str) -> list[dict[str, Any]]:
    now = db_moment(conn)
    waiting = select(jobs).where(jobs.c.group_key == group, IS_QUEUED).order_by(*lane_order())
    return [document(row, now) for row in rows(conn, waiting.limit(SHOWN))]


def _last_jobs(conn: Connection, group: str) -> list[dict[str, Any]]:
    """The jobs that ended last: the newest of each status, which an index has in order."""
    return job_pages.page(conn, JobFilter(group=group), sort="-finished", limit=SHOWN).rows


def _cooldowns(conn: Connection, group: str) -> list[dict[str, Any]]:
    found = select(cooldowns).where(cooldowns.c.group_key == group).order_by(cooldowns.c.at.desc(), cooldowns.c.id.desc())
    return [{"at": iso(row["at"]), "until": iso(row["until"]), "kind": row["kind"], "reason": row["reason"],
             "job_id": row["job_id"], "attempt": row["attempt"], "target_code": row["target_code"]}
            for row in rows(conn, found.limit(SHOWN))]


def _intervals(conn: Connection, group: str) -> list[dict[str, Any]]:
    codes = conn.scalars(
        select(targets.c.target_code).join_from(targets, sites, sites.c.site_code == targets.c.site_code)
        .where(sites.c.group_key == group).order_by(targets.c.grown_interval_sec.is_(None), targets.c.target_code)
        .limit(SHOWN)).all()
    return [found for code in codes if (found := interval(conn, code)) is not None]
