"""The six entries that come with Ratelane (rule S7)."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

from tasks.schedule.terms import Entry


def entries(zone: ZoneInfo, *, retry: timedelta = timedelta(minutes=5),
            seed_retry: timedelta = timedelta(minutes=10)) -> dict[str, Entry]:
    """Return the built-in entries by name, in `zone`, with the settings' waits after a failure."""
    raise NotImplementedError("follows")
