"""Politeness as the site saw it: the judge that no client can talk round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from console.demo.requestlog import Entry


@dataclass(frozen=True)
class Politeness:
    """What `judge` found: pairs of requests of one group that overlapped or came too soon after each other.

    `smallest_gap` is in seconds (negative if two overlapped), None if no group was asked twice.
    """

    overlaps: tuple[tuple[Entry, Entry], ...]
    short_gaps: tuple[tuple[Entry, Entry], ...]
    smallest_gap: float | None
    requests: int

    @property
    def polite(self) -> bool:
        """Whether nothing was found."""
        return not self.overlaps and not self.short_gaps


def judge(
    log: Iterable[Entry],
    groups: Mapping[str, str],
    interval_sec: float | Mapping[str, float] = 0.0,
    tolerance: float = 0.0,
) -> Politeness:
    """Look for two requests of a group at once, and for gaps shorter than its interval (rules R3, R8).

    `groups` gives the group of a host (as in `Entry.host`; a host that is missing is a group of its own),
    `interval_sec` the interval of all groups or of each (by group; missing: 0). A gap runs from the end of the
    response that ended last to the start of the next request; `tolerance` seconds are forgiven.
    """
    by_group: dict[str, list[Entry]] = defaultdict(list)
    for entry in log:
        by_group[groups.get(entry.host, entry.host)].append(entry)
    overlaps, short = [], []
    smallest: float | None = None
    for group, entries in by_group.items():
        required = interval_sec.get(group, 0.0) if isinstance(interval_sec, Mapping) else interval_sec
        for before, after in _neighbours(entries):
            gap = after.started - before.ended
            smallest = gap if smallest is None else min(smallest, gap)
            if gap < 0:
                overlaps.append((before, after))
            elif gap < required - tolerance:
                short.append((before, after))
    return Politeness(tuple(overlaps), tuple(short), smallest, sum(map(len, by_group.values())))


def _neighbours(entries: list[Entry]) -> Iterable[tuple[Entry, Entry]]:
    """Yield each entry with that of its predecessors whose response ended last."""
    ordered = sorted(entries, key=lambda entry: entry.started)
    latest = ordered[0]
    for entry in ordered[1:]:
        yield latest, entry
        if entry.ended > latest.ended:
            latest = entry
