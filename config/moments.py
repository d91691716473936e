"""Moments as documents carry them. Pure: nothing here asks what time it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

#: "never by itself": an endless pause, a lane that only a person opens again
FAR = datetime(9999, 1, 1, tzinfo=UTC)
#: a wait for the end of an endless pause was counted in seconds and lies a little before or behind it
_NEAR_FAR = FAR - timedelta(days=366)


def is_endless(moment: datetime | None) -> bool:
    """Say whether `moment` stands for "until somebody lifts it"."""
    return moment is not None and moment >= _NEAR_FAR


def iso(moment: datetime, zone: tzinfo, *, timespec: str = "milliseconds") -> str:
    """Return `moment` as ISO 8601 with the offset of `zone` (rule U6)."""
    return moment.astimezone(zone).isoformat(timespec=timespec)
