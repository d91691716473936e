"""Targets, their intervals and what was stored for them, as documents."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from models.articles import articles as article_table
from models.articles import failed_items
from models.groups import rate_groups
from models.jobs import IS_QUEUED, IS_RUNNING, jobs
from models.queries.reading import iso, rows
from models.sites import IN_FORCE, interval_history, sites
from models.sites import targets as table

_ROWS_AT_ONCE = 500
#: names that are few enough to compare each of them with a mistyped one
_FEW = 5_000
_IN_FORCE = IN_FORCE.label("in_force")


def targets(conn: Connection, site: str | None = None) -> list[dict[str, Any]]:
    """Return every target, or those of `site`, with interval, last crawl, frontier, active job and number of items that
    are given up (rule P3), by site and code.
    """
    return _documents(conn, [] if site is None else [table.c.site_code == site], None)


def target_documents(conn: Connection, codes: Sequence[str]) -> list[dict[str, Any]]:
    """Return the same of the targets with these codes."""
    return _documents(conn, [table.c.target_code.in_(codes)], codes)


def _documents(
    conn: Connection, among: Sequence[ColumnElement[bool]], codes: Sequence[str] | None
) -> list[dict[str, Any]]:
    wanted = (
        select(table, sites.c.group_key, _IN_FORCE)
        .join_from(table, sites, sites.c.site_code == table.c.site_code, isouter=True)
        .where(*among).order_by(table.c.site_code, table.c.target_code)
    )
    active, given_up = _active(conn, codes), _given_up(conn, codes)
    return [_target_document(row) | {"active_job_id": active.get(row["target_code"]),
                                     "given_up": given_up.get(row["target_code"], 0)} for row in rows(conn, wanted)]


def _given_up(conn: Connection, codes: Sequence[str] | None) -> dict[str, int]:
    code = failed_items.c.target_code
    some = [] if codes is None else [code.in_(codes)]
    found = conn.execute(
        select(code, func.count()).where(failed_items.c.given_up_at.is_not(None), *some).group_by(code))
    return dict(found.all())


def _active(conn: Connection, codes: Sequence[str] | None) -> dict[str, str]:
    """The job of each target that runs, else the one that was queued first."""
    mine = jobs.c.target_code.is_not(None) if codes is None else jobs.c.target_code.in_(codes)
    first = select(func.min(jobs.c.seq)).where(IS_QUEUED, mine).group_by(jobs.c.target_code)
    queued = select(jobs.c.target_code, jobs.c.job_id).where(jobs.c.seq.in_(first))
    running = select(jobs.c.target_code, jobs.c.job_id).where(IS_RUNNING, mine)
    return dict(conn.execute(queued).all()) | dict(conn.execute(running).all())


def _target_document(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "target_code": row["target_code"], "site_code": row["site_code"], "name": row["name"],
        "group": row["group_key"], "enabled": row["enabled"], "track_checkpoint": row["track_checkpoint"],
        "interval_sec": row["in_force"], "baseline_sec": row["interval_sec"],
        "last_crawl_at": iso(row["last_crawl_at"]), "last_outcome": row["last_outcome"],
        "last_job_id": row["last_job_id"], "frontier_at": iso(row["frontier_at"]),
    }


def interval(conn: Connection, target_code: str) -> dict[str, Any] | None:
    """Return a target's interval in force, its baseline and every change, newest first; None if it is unknown."""
    row = next(rows(conn, select(table, _IN_FORCE).where(table.c.target_code == target_code)), None)
    if row is None:
        return None
    changes = (
        select(interval_history)
        .where(interval_history.c.target_code == target_code)
        .order_by(interval_history.c.at.desc(), interval_history.c.id.desc())
    )
    return {
        "target_code": target_code,
        "interval_sec": row["in_force"],
        "baseline_sec": row["interval_sec"],
        "history": [
            {"old_interval_sec": one["old_interval_sec"], "new_interval_sec": one["new_interval_sec"],
             "cause": one["cause"], "at": iso(one["at"]), "job_id": one["job_id"], "attempt": one["attempt"]}
            for one in rows(conn, changes)
        ],
    }


def nearest_target(conn: Connection, target_code: str) -> str | None:
    """Return the known target code that looks most like `target_code`, or None if there are no targets."""
    return nearest(target_code, conn.execute(select(table.c.target_code)).scalars().all())


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the one of `known` that looks most like `name`; of very many only one that really looks like it."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0 if len(known) <= _FEW else 0.6)
    return near[0] if near else None


def known_sites(conn: Connection) -> Sequence[str]:
    """Return the codes of all sites, sorted."""
    return conn.execute(select(sites.c.site_code).order_by(sites.c.site_code)).scalars().all()


def known_groups(conn: Connection) -> Sequence[str]:
    """Return the keys of all rate groups, sorted."""
    return conn.execute(select(rate_groups.c.key).order_by(rate_groups.c.key)).scalars().all()


def articles(
    conn: Connection, target_code: str | None = None, since: datetime | None = None
) -> Iterator[dict[str, Any]]:
    """Give the stored articles, of one target or of all, fetched at or after `since`, in the order of storing.

    The connection stays in use until the iterator is exhausted; few rows are in memory at a time.
    """
    wanted = select(article_table).order_by(article_table.c.id).execution_options(yield_per=_ROWS_AT_ONCE)
    if target_code is not None:
        wanted = wanted.where(article_table.c.target_code == target_code)
    if since is not None:
        wanted = wanted.where(article_table.c.fetched_at >= since)
    for row in rows(conn, wanted):
        yield {
            "target_code": row["target_code"], "url": row["url"], "title": row["title"],
            "published_at": iso(row["published_at"]), "text": row["text"], "sha256": row["sha256"],
            "source_page": row["source_page"], "fetched_at": iso(row["fetched_at"]),
        }
