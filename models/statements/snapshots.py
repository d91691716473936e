"""What snapshots, discovery and vitals write (rule S7). Repeating any of it does no harm.

Rows come in as one JSON parameter, so that a page, a portion or a fleet is one statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Date,
    Delete,
    Float,
    Integer,
    String,
    Text,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ColumnElement

from models.articles import article_aliases, articles
from models.base import UtcDateTime, db_now
from models.given import given
from models.snapshots import candidates, snapshot_items, snapshots, vitals

#: rows of a JSON parameter by the names and types of their members
_LISTED = {"url": Text(), "mark": Text()}
_CANDIDATE = {"url": Text(), "title": Text(), "links": Integer()}
_VITALS = {"site_code": Text(), "state": Text(), "reason": Text(), "status": Integer(), "latency_sec": Float()}
_BEFORE: ColumnElement[datetime] = bindparam("b_before", type_=UtcDateTime())


def _insert(conn: Connection, table: Any) -> Any:
    return (postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert)(table)


def listed(conn: Connection, day: date, target_code: str, rows: Sequence[tuple[str, str]], **at: Any) -> None:
    """Note that a target lists these (URL, mark) on a stat date; what was only seeded becomes seen (rule S7).

    The hash is that of the article's text as it is stored by now, under this URL or the one that it leads to.
    """
    table, of = given(conn, [{"url": url, "mark": mark} for url, mark in sorted(rows)], _LISTED)
    own, alias, led = articles.alias(), article_aliases.alias(), articles.alias()
    found = (
        select(literal(day, Date()), literal(target_code, String()), of("url"),
               func.coalesce(own.c.sha256, led.c.sha256, ""), of("mark"), literal("list", String()), true(), db_now())
        .select_from(table)
        .outerjoin(own, and_(own.c.target_code == target_code, own.c.url == of("url")))
        .outerjoin(alias, and_(alias.c.target_code == target_code, alias.c.url == of("url")))
        .outerjoin(led, and_(led.c.target_code == target_code, led.c.url == alias.c.article_url))
        # without a condition SQLite would read ON CONFLICT as that of the join
        .where(true())
    )
    statement = _insert(conn, snapshot_items).from_select(
        ["stat_date", "target_code", "url", "hash", "mark", "src", "ok", "seen_at"], found)
    conn.execute(statement.on_conflict_do_update(
        index_elements=["stat_date", "target_code", "url"],
        set_={name: statement.excluded[name] for name in ("hash", "mark", "src", "ok", "seen_at")}), at)


def seed(
    conn: Connection, day: date, source: date, behind: tuple[str, str], last: tuple[str, str], unseen: Sequence[str]
) -> int:
    """Clone the items of `source` between two keys (target, URL) into `day`; returns how many rows were written.

    What was really seen on `day` stays. What `source` had itself from a seed and did not meet is gone from its list, but
    for the targets in `unseen`, which were not walked.
    """
    old = snapshot_items.alias()
    key = tuple_(old.c.target_code, old.c.url)
    found = (
        select(literal(day, Date()), old.c.target_code, old.c.url, old.c.hash, old.c.mark, literal("seed", String()),
               literal(False), old.c.seen_at)
        .where(old.c.stat_date == source, key > tuple_(*map(literal, behind)), key <= tuple_(*map(literal, last)),
               or_(old.c.ok, old.c.target_code.in_(unseen)))
        .order_by(old.c.target_code, old.c.url)
    )
    statement = _insert(conn, snapshot_items).from_select(
        ["stat_date", "target_code", "url", "hash", "mark", "src", "ok", "seen_at"], found)
    return int(conn.execute(statement.on_conflict_do_update(
        index_elements=["stat_date", "target_code", "url"],
        set_={name: statement.excluded[name] for name in ("hash", "mark", "seen_at")},
        where=snapshot_items.c.src == "seed")).rowcount)


def unseen_targets(conn: Connection, day: date) -> list[str]:
    """Return the targets of a stat date of which nothing was really seen that day: all their items come from its seed."""
    table = snapshot_items.c
    return list(conn.scalars(
        select(table.target_code).where(table.stat_date == day).group_by(table.target_code)
        .having(func.count().filter(table.ok) == 0)))


def key_after(conn: Connection, day: date, behind: tuple[str, str], rows: int) -> tuple[tuple[str, str] | None, int]:
    """Return the key (target, URL) of the last of the next `rows` items of a stat date behind another key, and how many
    they are; None and 0 if there is none.
    """
    table = snapshot_items.c
    key = tuple_(table.target_code, table.url)
    part = (select(table.target_code, table.url)
            .where(table.stat_date == day, key > tuple_(*map(literal, behind)))
            .order_by(table.target_code, table.url).limit(rows)).subquery()
    count = int(conn.execute(select(func.count()).select_from(part)).scalar_one())
    if not count:
        return None, 0
    last = conn.execute(select(part).order_by(part.c.target_code.desc(), part.c.url.desc()).limit(1)).one()
    return (last.target_code, last.url), count


def set_seeded(conn: Connection, day: date, source: date, at: datetime) -> None:
    """Note that `day` was seeded from `source`."""
    _upsert_day(conn, day, {"seeded_at": at, "seeded_from": source, "updated_at": at})


def set_completed(conn: Connection, day: date, run_id: int, run_started_at: datetime, at: datetime) -> None:
    """Note that a run has completed the snapshot of `day`."""
    _upsert_day(conn, day, {"completed_at": at, "completed_run": run_id, "completed_run_started_at": run_started_at,
                            "updated_at": at})


def _upsert_day(conn: Connection, day: date, values: dict[str, Any]) -> None:
    statement = _insert(conn, snapshots).values(stat_date=day, **values)
    conn.execute(statement.on_conflict_do_update(index_elements=["stat_date"], set_=values))


def seen_candidates(conn: Connection, site_code: str, rows: Sequence[Mapping[str, Any]], **at: Any) -> None:
    """Note pages of a site that look like lists: ``{"url", "title", "links"}``, each URL once."""
    table, of = given(conn, sorted(rows, key=lambda row: str(row["url"])), _CANDIDATE)
    found = select(literal(site_code, String()), of("url"), of("title"), of("links"), db_now(), db_now()).select_from(
        table).where(true())
    statement = _insert(conn, candidates).from_select(
        ["site_code", "url", "title", "links", "first_seen_at", "last_seen_at"], found)
    conn.execute(statement.on_conflict_do_update(
        index_elements=["site_code", "url"],
        set_={name: statement.excluded[name] for name in ("title", "links", "last_seen_at")}), at)


def drop_candidates(limit: int) -> Delete:
    """Delete a portion of the candidates that were last seen before `b_before`, the oldest first."""
    old = (select(candidates.c.site_code, candidates.c.url).where(candidates.c.last_seen_at < _BEFORE)
           .order_by(candidates.c.last_seen_at).limit(limit))
    return delete(candidates).where(
        tuple_(candidates.c.site_code, candidates.c.url).in_(old), candidates.c.last_seen_at < _BEFORE)


def keep_vitals(conn: Connection, rows: Sequence[Mapping[str, Any]], **at: Any) -> None:
    """Note how sites answered: ``{"site_code", "state", "reason", "status", "latency_sec"}``, each site once."""
    table, of = given(conn, sorted(rows, key=lambda row: str(row["site_code"])), _VITALS)
    reached = case((of("state") == "reachable", db_now()), else_=None)
    found = select(of("site_code"), of("state"), of("reason"), of("status"), of("latency_sec"), db_now(), reached).select_from(
        table).where(true())
    statement = _insert(conn, vitals).from_select(
        ["site_code", "state", "reason", "status", "latency_sec", "checked_at", "reachable_at"], found)
    new = statement.excluded
    conn.execute(statement.on_conflict_do_update(index_elements=["site_code"], set_={
        **{name: new[name] for name in ("state", "reason", "status", "latency_sec", "checked_at")},
        "reachable_at": func.coalesce(new.reachable_at, vitals.c.reachable_at)}), at)


def oldest_day(conn: Connection, before: date) -> date | None:
    """Return the oldest stat date before another one that has a row or items, None without any."""
    found = [conn.execute(select(func.min(table.c.stat_date)).where(table.c.stat_date < before)).scalar()
             for table in (snapshots, snapshot_items)]
    return min((day for day in found if day is not None), default=None)


def drop_items(day: date, last: tuple[str, str]) -> Delete:
    """Delete a portion of a stat date's items: those up to a key (target, URL)."""
    key = tuple_(snapshot_items.c.target_code, snapshot_items.c.url)
    return delete(snapshot_items).where(snapshot_items.c.stat_date == day, key <= tuple_(*map(literal, last)))


def drop_day(day: date) -> Delete:
    """Delete what is known of a stat date whose items are gone."""
    return delete(snapshots).where(snapshots.c.stat_date == day)
