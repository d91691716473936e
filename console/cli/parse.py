"""Durations and moments as people type them."""

from __future__ import annotations

import re
from datetime import datetime

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(s|min|m|h|d|)\s*", re.ASCII)


def duration_or_moment(text: str) -> float | datetime:
    """Return ``30s``, ``10m``, ``2h``, ``1d`` or a bare number as seconds, anything else as a moment.

    Raises BadInput if it is neither.
    """
    found = _DURATION.fullmatch(text)
    return float(found[1]) * _UNITS[found[2]] if found else moment(text)


def moment(text: str) -> datetime:
    """Return an ISO 8601 date or time as an aware moment; without an offset it is in the schedule's zone.

    Raises BadInput for anything else.
    """
    from zoneinfo import ZoneInfo

    from config.errors import BadInput
    from config.settings import get_settings

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"{text!r} is no time; write 2026-11-30T08:00 or 2026-11-30T08:00+08:00 (or 30s, 10m)") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=ZoneInfo(get_settings().timezone))
