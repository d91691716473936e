"""Durations and moments as people type them."""

from __future__ import annotations

from datetime import datetime, tzinfo

from console.durations import seconds_of


def duration_or_moment(text: str, zone: tzinfo | None = None) -> float | datetime:
    """Return ``30s``, ``10m``, ``2h``, ``1d`` or a bare number as seconds, anything else as a moment (in `zone`).

    Raises BadInput if it is neither.
    """
    found = seconds_of(text)
    return moment(text, zone) if found is None else found


def moment(text: str, zone: tzinfo | None = None) -> datetime:
    """Return an ISO 8601 date or time as an aware moment; without an offset it is in `zone`, or in that of the settings.

    Raises BadInput for anything else.
    """
    from zoneinfo import ZoneInfo

    from config.errors import BadInput
    from config.settings import get_settings

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"{text!r} is no time; write 2026-11-30T08:00 or 2026-11-30T08:00+08:00 (or 30s, 10m)") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=zone or ZoneInfo(get_settings().timezone))
