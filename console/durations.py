"""Durations as people type them. Pure."""

from __future__ import annotations

import re

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(s|min|m|h|d|)\s*", re.ASCII)


def seconds_of(text: str) -> float | None:
    """Return ``30s``, ``10m``, ``2h``, ``1d`` or a bare number as seconds; None if `text` is no duration."""
    found = _DURATION.fullmatch(text)
    return float(found[1]) * _UNITS[found[2]] if found else None
