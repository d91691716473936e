"""Whether a group's day is long enough for what the schedule asks of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from tasks.schedule.terms import Entry


@dataclass(frozen=True)
class Usual:
    """What one run of an entry usually asks of one target: `requests` (mean of past runs), each followed by
    `interval_sec` and taking `response_sec`.
    """

    entry: str
    group: str
    target_code: str
    interval_sec: float
    requests: float
    response_sec: float = 0.0


@dataclass(frozen=True)
class Need:
    """Seconds of a group's day that all runs of an entry take."""

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
    """Return how many runs an entry starts on `day` if each ends before the next is due."""
    raise NotImplementedError("follows")


def needs(entries: Iterable[Entry], usual: Iterable[Usual], day: date) -> list[Need]:
    """Return the needs of each group and entry on `day`, by group, largest first."""
    raise NotImplementedError("follows")


def overloads(entries: Iterable[Entry], usual: Iterable[Usual], day: date) -> list[Overload]:
    """Return the groups that need more than 86,400 s a day, worst first."""
    raise NotImplementedError("follows")
