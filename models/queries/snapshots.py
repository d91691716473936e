"""What is known of stat dates, and of how sites answer (rule S7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, func, select, true

from models.queries.crawling import parts
from models.schedules import entries, runs
from models.snapshots import candidates, snapshot_items, snapshots


@dataclass(frozen=True)
class Day:
    """What is known of one stat date; a date without a row has none of it."""

    seeded_at: datetime | None = None
    seeded_from: date | None = None
    completed_at: datetime | None = None
    completed_run: int | None = None
    completed_run_started_at: datetime | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it was completed by a run that started after its last seed."""
        started = self.completed_run_started_at
        return self.completed_at is not None and (self.seeded_at is None or (started is not None and started > self.seeded_at))


def day_of(conn: Connection, day: date) -> Day:
    """Return what is known of a stat date."""
    row = conn.execute(select(snapshots).where(snapshots.c.stat_date == day)).first()
    return Day() if row is None else Day(
        row.seeded_at, row.seeded_from, row.completed_at, row.completed_run, row.completed_run_started_at)


def last_completed(conn: Connection, *, before: date | None = None) -> date | None:
    """Return the latest stat date whose snapshot was completed (before another one), None without any."""
    earlier = true() if before is None else snapshots.c.stat_date < before
    found: date | None = conn.execute(
        select(snapshots.c.stat_date).where(snapshots.c.completed_at.is_not(None), earlier)
        .order_by(snapshots.c.stat_date.desc()).limit(1)).scalar()
    return found


def item_count(conn: Connection, day: date) -> int:
    """Return how many items a stat date has."""
    return int(conn.execute(
        select(func.count()).select_from(snapshot_items).where(snapshot_items.c.stat_date == day)).scalar_one())


def marks(conn: Connection, target_code: str, urls: Sequence[str], day: date) -> dict[str, str]:
    """Return what the list last said of these URLs, by a stat date up to `day`: their marks, of those that have one row.

    That is the day's own row, or else the one of the day before it on which the target has any.
    """
    table = snapshot_items.c
    before: date | None = conn.execute(select(func.max(table.stat_date)).where(
        table.target_code == target_code, table.stat_date < day)).scalar()
    days = [each for each in (before, day) if each is not None]
    found: dict[str, str] = {}
    for part in parts(urls):
        rows = conn.execute(
            select(table.url, table.mark).where(table.target_code == target_code, table.stat_date.in_(days), table.url.in_(part))
            .order_by(table.stat_date)).all()
        found |= {row.url: row.mark for row in rows}
    return found


def candidates_of(conn: Connection, site_code: str) -> dict[str, dict[str, Any]]:
    """Return the candidates of a site by URL, each as ``{"title", "links"}``."""
    table = candidates.c
    rows = conn.execute(select(table.url, table.title, table.links).where(table.site_code == site_code))
    return {row.url: {"title": row.title, "links": row.links} for row in rows}


def running_run(conn: Connection, entry: str) -> int | None:
    """Return the run of an entry that is under way, None without one."""
    found: int | None = conn.execute(
        select(runs.c.run_id).where(runs.c.entry == entry, runs.c.outcome.is_(None)).order_by(runs.c.run_id.desc())
        .limit(1)).scalar()
    return found


def skips_row(conn: Connection, entry: str) -> int:
    """Return how many tries of an entry were skipped in a row."""
    plan = conn.execute(select(entries.c.plan).where(entries.c.name == entry)).scalar()
    return int(plan.get("skips_row") or 0) if isinstance(plan, dict) else 0
