"""Whether a group's day is long enough for what the schedule asks of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import groupby

from tasks.schedule.calendar import first_shown
from tasks.schedule.planner import first
from tasks.schedule.preview import preview
from tasks.schedule.terms import Action, Entry

DAY_SEC = 86_400.0


@dataclass(frozen=True)
class Usual:
    """What one run of an entry usually asks of one target: `requests` (mean of past runs), each of which takes
    `response_sec` and is followed by `interval_sec`.
    """

    entry: str
    group: str
    target_code: str
    interval_sec: float
    requests: float
    response_sec: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds of the lane that one run takes for the target."""
        return self.requests * (self.interval_sec + self.response_sec)


@dataclass(frozen=True)
class Need:
    """Seconds of a group's day that the `runs` of an entry take together."""

    group: str
    entry: str
    runs: int
    seconds: float


@dataclass(frozen=True)
class Overload:
    """A group whose day is too short, the entry that takes most of it, and why in a sentence."""

    group: str
    entry: str
    seconds: float
    needs: tuple[Need, ...]
    reason: str


def runs_of(entry: Entry, day: date) -> int:
    """Return how many runs an entry starts on `day` in its zone if each ends before the next is due."""
    start, end = (first_shown(datetime.combine(each, time()), entry.zone) for each in (day, day + timedelta(days=1)))
    before = start - timedelta(days=2)
    lines = preview([(entry, first(entry, before))], start, end, before, usual={})
    return sum(each.action == Action.RUN and each.due_at < end for each in lines)


def needs(entries: Iterable[Entry], usual: Iterable[Usual], day: date) -> list[Need]:
    """Return what each entry needs of each group on `day`: by group, then the largest first.

    What `usual` says of entries that are not among `entries` counts for nothing.
    """
    runs = {entry.name: runs_of(entry, day) for entry in entries}
    seconds: dict[tuple[str, str], float] = {}
    for each in usual:
        if each.entry in runs:
            key = each.group, each.entry
            seconds[key] = seconds.get(key, 0.0) + runs[each.entry] * each.seconds
    found = [Need(group, entry, runs[entry], total) for (group, entry), total in seconds.items()]
    return sorted(found, key=lambda need: (need.group, -need.seconds, need.entry))


def overloads(entries: Iterable[Entry], usual: Iterable[Usual], day: date) -> list[Overload]:
    """Return the groups that need more than the 86,400 s of a day, the worst first."""
    found = []
    for group, those in groupby(needs(entries, usual, day), key=lambda need: need.group):
        parts = tuple(those)
        total = sum(need.seconds for need in parts)
        if total > DAY_SEC:
            most = parts[0]
            reason = (f"{group} needs {total:,.0f} s of a day's 86,400 s; {most.entry} takes {most.seconds:,.0f} s of them "
                      f"in {most.runs} {'run' if most.runs == 1 else 'runs'}")
            found.append(Overload(group, most.entry, total, parts, reason))
    return sorted(found, key=lambda each: (-each.seconds, each.group))
