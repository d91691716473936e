"""What the schedule will do: the planner itself, run through a stretch of time to come. Pure (rule S9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from tasks.schedule.terms import Entry, Standing


@dataclass(frozen=True)
class Occurrence:
    """One line of the preview."""

    name: str
    due_at: datetime
    action: str
    until: datetime | None
    reason: str
    stat_date: date

    def document(self) -> dict[str, Any]:
        """Return it as `schedule preview --json` prints it (times still datetimes)."""
        raise NotImplementedError("follows")


def preview(planned: Iterable[tuple[Entry, Standing]], start: datetime, end: datetime, now: datetime, *,
            usual: Mapping[str, timedelta]) -> list[Occurrence]:
    """Return what happens in `[start, end]`, by time and name, if runs take their usual time and succeed.

    `usual` holds the usual length of a run by entry name; an entry without one ends at once.
    """
    raise NotImplementedError("follows")
