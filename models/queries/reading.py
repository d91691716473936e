"""Rows, moments and durations in the form in which documents carry them (rule U6)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Select, select

from config import moments
from config.settings import get_settings
from models.base import db_now


@lru_cache(maxsize=8)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def zone() -> ZoneInfo:
    """Return the schedule's zone."""
    return _zone(get_settings().timezone)


def iso(moment: datetime | None, where: ZoneInfo | None = None) -> str | None:
    """Return `moment` as ISO 8601 with the offset of `where`, else of the settings' zone; None stays None (rule U6)."""
    if moment is None:
        return None
    return moments.iso(moment, where or zone())


def seconds(start: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds from `start` to `end` with one decimal, never negative; None if either is unknown (rule J13)."""
    if start is None or end is None:
        return None
    return round(max(0.0, (end - start).total_seconds()), 1)


def db_moment(conn: Connection, now: datetime | None = None) -> datetime:
    """Return the present moment by the database's clock, or the one that a test hands in."""
    return conn.execute(select(db_now()), {"p_now": now}).scalar_one()


def rows(conn: Connection, wanted: Select[Any]) -> Iterator[dict[str, Any]]:
    """Give the rows of `wanted`, each as a dict by column name."""
    for row in conn.execute(wanted):
        yield row._asdict()
