"""Rows, moments and durations in the form in which documents carry them (rule U6)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Select, select

from config.settings import get_settings
from models.base import FAR, db_now


@lru_cache(maxsize=8)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def iso(moment: datetime | None) -> str | None:
    """Return `moment` as ISO 8601 with the offset of the schedule's zone; None stays None (rule U6)."""
    if moment is None:
        return None
    return moment.astimezone(_zone(get_settings().timezone)).isoformat(timespec="milliseconds")


def seconds(start: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds from `start` to `end` with one decimal, never negative; None if either is unknown (rule J13)."""
    if start is None or end is None:
        return None
    return round(max(0.0, (end - start).total_seconds()), 1)


def db_moment(conn: Connection) -> datetime:
    """Return the present moment by the database's clock."""
    return conn.execute(select(db_now())).scalar_one()


def is_endless(moment: datetime | None) -> bool:
    """Say whether `moment` stands for "until somebody lifts it"."""
    return moment is not None and moment >= FAR


def rows(conn: Connection, wanted: Select[Any]) -> Iterator[dict[str, Any]]:
    """Give the rows of `wanted`, each as a dict by column name."""
    for row in conn.execute(wanted):
        yield row._asdict()
