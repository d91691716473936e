"""What an entry owes at a moment, and how its plan moves on: the pieces that all decisions share. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from itertools import chain

from tasks.schedule.calendar import Times, stat_date
from tasks.schedule.terms import DueFor, Entry, Kind, Outcome, Recorded, RunId, RunInfo, Standing, Status

#: a tick that comes late by less is no downtime
GRACE = timedelta(minutes=1)
#: missed moments that one turn records as skipped; the rest is due at once, so that no transaction grows without bound
MOST_SKIPPED = 5_000


@dataclass(frozen=True)
class Owed:
    """An occurrence that has come and has no run: when its next try was due, and which try that is."""

    occurrence: datetime
    due: datetime
    stat_date: date
    due_for: DueFor = DueFor.REGULAR
    try_no: int = 1
    failures: int = 0
    source: str = "schedule"
    force: bool = False

    def recorded(self, kind: Kind, reason: str, *, until: datetime | None = None, by: RunId | None = None) -> Recorded:
        """Return this occurrence with what becomes of it."""
        return Recorded(self.occurrence, self.try_no, self.stat_date, Outcome(kind, reason, until, by=by), self.source)

    def run(self, now: datetime) -> RunInfo:
        """Return the run that takes it up."""
        return RunInfo(self.occurrence, self.try_no, self.stat_date, now, self.source, self.force, self.failures)


def owed(entry: Entry, standing: Standing, now: datetime) -> Iterator[Owed]:
    """Yield what came due and was not taken, oldest first: the planned try, then the regular moments up to `now`.

    A try after a failure or skip belongs to its occurrence and ends at the next regular moment (rule S4): when one has
    come, it is owed no more, and its occurrence ends as its last try did. What came while a deferral lasted was due at
    its end.
    """
    if standing.due_at is None or standing.occurrence is None:
        return
    occurrence, due_at, zone = standing.occurrence, standing.due_at, entry.zone
    regular = entry.when.between(max(occurrence, standing.after or occurrence), now, zone)
    following = next(regular, None)
    if following is None or standing.due_for != DueFor.AGAIN:
        yield Owed(occurrence, due_at, standing.due_date or stat_date(occurrence, zone), standing.due_for,
                   standing.try_no, standing.failures, standing.source, standing.force)
    if following is not None:
        for each in chain((following,), regular):
            waited = standing.due_for == DueFor.DEFERRED and each < due_at
            yield Owed(each, due_at if waited else each, stat_date(each, zone),
                       DueFor.DEFERRED if waited else DueFor.REGULAR)


def is_too_late(entry: Entry, due: datetime, now: datetime) -> bool:
    """Tell whether what was `due` is not made up any more (rule S1: `catch_up`)."""
    if now <= due + GRACE:
        return False
    if isinstance(entry.catch_up, time):
        return now > Times((entry.catch_up,)).next_after(due, entry.zone)
    return now > due + entry.catch_up


def skipped(those: Iterable[Owed], reason: str) -> tuple[Recorded, ...]:
    """Return `those` as skipped for `reason`; a try after a failure or skip leaves its occurrence as that ended."""
    return tuple(each.recorded(Kind.SKIPPED, reason) for each in those if each.due_for != DueFor.AGAIN)


def next_regular(entry: Entry, standing: Standing, now: datetime) -> datetime:
    """Return the next regular moment; a clock that was set back brings none again (rule S2)."""
    return entry.when.next_after(max(now, standing.after or now), entry.zone)


def planned(entry: Entry, standing: Standing, now: datetime) -> Standing:
    """Return `standing` planned for the next regular moment, with all before it accounted for."""
    after = max(now, standing.after or now)
    moment = entry.when.next_after(after, entry.zone)
    return replace(standing, due_at=moment, due_for=DueFor.REGULAR, occurrence=moment, try_no=1, failures=0,
                   due_date=stat_date(moment, entry.zone), source="schedule", force=False, after=after)


def unplanned(standing: Standing, now: datetime) -> Standing:
    """Return `standing` with nothing planned: that of a disabled entry."""
    return replace(standing, due_at=None, due_for=DueFor.REGULAR, occurrence=None, try_no=1, failures=0, due_date=None,
                   source="schedule", force=False, after=max(now, standing.after or now))


def remembered(standing: Standing, recorded: tuple[Recorded, ...], status: Status | None = None) -> Standing:
    """Return `standing` with the last of `recorded` as its last outcome, and `status` unless a run is under way."""
    last = recorded[-1].outcome if recorded else standing.last_outcome
    shown = standing.status if status is None or standing.running is not None else status
    return replace(standing, last_outcome=last, status=shown)
