"""The hours ahead as a drawing: where an entry's moments and quiet windows lie on a line. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

#: the drawing is so wide; one unit is a thousandth of it
WIDTH = 1000
#: hours between two labels of the axis
_STEP_HOURS = 6
_STEP_MINUTES = 10
_WORDS = {"run": "runs", "defer": "deferred", "make_up": "made up by another run", "skip": "skipped"}


@dataclass(frozen=True)
class Mark:
    """Something that an entry does at a moment: `x` is its place, `action` its kind, `text` what it says."""

    x: float
    action: str
    text: str


@dataclass(frozen=True)
class Row:
    """What the line of one entry shows; `quiet` holds places and widths, `text` says all of it in words."""

    name: str
    marks: tuple[Mark, ...]
    quiet: tuple[tuple[float, float], ...]
    text: str


@dataclass(frozen=True)
class Timeline:
    """Rows, the labels of the axis with their places in per cent and whether a narrow one does without, the midnights."""

    rows: tuple[Row, ...]
    labels: tuple[tuple[float, str, bool], ...]
    midnights: tuple[float, ...]


def timeline(start: str, end: str, entries: Sequence[Mapping[str, Any]], zone: tzinfo) -> Timeline:
    """Return how the hours from `start` to `end` look; entries carry ``occurrences`` and ``quiet`` of these hours."""
    first, last = _step(start), _step(end)
    axis = _Axis(first, last, zone)
    rows = tuple(_row(axis, entry) for entry in entries)
    ticks = axis.hours()
    return Timeline(
        rows, tuple((round(axis.place(one) / WIDTH * 100, 2), _label(one), one.hour % 12 != 0) for one in ticks),
        tuple(axis.place(one) for one in ticks if one.hour == 0))


def _step(moment: str) -> datetime:
    """The beginning of the ten minutes of a moment: a drawing stays the same for as long."""
    found = datetime.fromisoformat(moment)
    return found.replace(minute=found.minute // _STEP_MINUTES * _STEP_MINUTES, second=0, microsecond=0)


@dataclass(frozen=True)
class _Axis:
    first: datetime
    last: datetime
    zone: tzinfo

    def place(self, moment: datetime) -> float:
        share = (moment - self.first) / (self.last - self.first)
        return round(max(0.0, min(1.0, share)) * WIDTH, 1)

    def hours(self) -> list[datetime]:
        """The full hours of the zone that get a label."""
        local = self.first.astimezone(self.zone)
        moment = local.replace(minute=0, second=0, microsecond=0)
        found = []
        while moment <= self.last:
            if moment >= self.first and moment.hour % _STEP_HOURS == 0:
                found.append(moment)
            # in the zone's wall time: on the day of a change of clocks an hour is there twice, or not at all
            moment += timedelta(hours=1)
        return found


def _label(moment: datetime) -> str:
    return f"{moment:%a %d}" if moment.hour == 0 else f"{moment:%H:%M}"


def _row(axis: _Axis, entry: Mapping[str, Any]) -> Row:
    marks = tuple(
        Mark(axis.place(datetime.fromisoformat(one["due_at"])), one["action"], _sentence(axis, one))
        for one in entry["occurrences"])
    quiet = tuple(_window(axis, one) for one in entry["quiet"])
    return Row(entry["name"], marks, quiet, _summary(axis, entry))


def _window(axis: _Axis, window: Mapping[str, str]) -> tuple[float, float]:
    begins = axis.place(datetime.fromisoformat(window["from"]))
    return begins, round(axis.place(datetime.fromisoformat(window["to"])) - begins, 1)


def _sentence(axis: _Axis, one: Mapping[str, Any]) -> str:
    at = datetime.fromisoformat(one["due_at"]).astimezone(axis.zone)
    why = f" ({one['reason'].replace('_', ' ')})" if one.get("reason") else ""
    until = f" until {datetime.fromisoformat(one['until']).astimezone(axis.zone):%H:%M}" if one.get("until") else ""
    return f"{at:%a %H:%M} {_WORDS.get(one['action'], one['action'])}{until}{why}"


def _summary(axis: _Axis, entry: Mapping[str, Any]) -> str:
    found = entry["occurrences"]
    if not found:
        return f"{entry['name']}: nothing in these hours"
    quiet = f"; quiet windows: {len(entry['quiet'])}" if entry["quiet"] else ""
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"{entry['name']}: {', '.join(_sentence(axis, one) for one in found[:3])}{more}{quiet}"
