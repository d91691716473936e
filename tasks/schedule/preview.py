"""What the schedule will do: the planner itself, run through a stretch of time to come. Pure (rule S9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from tasks.schedule.planner import ended, turn
from tasks.schedule.terms import Action, DueFor, Entry, Kind, Outcome, Recorded, Standing, Turn

_SUCCESS = Outcome(Kind.SUCCESS)
_ACTIONS = {Kind.DEFERRED: Action.DEFER, Kind.SKIPPED: Action.SKIP, Kind.MADE_UP: Action.MAKE_UP}


@dataclass(frozen=True)
class Occurrence:
    """One line of the preview: what becomes of the try that is due at `due_at`, and why.

    `action` is one of ``run``, ``defer`` (then `until`), ``make_up``, ``skip``.
    """

    name: str
    due_at: datetime
    action: str
    until: datetime | None
    reason: str
    stat_date: date


def preview(planned: Iterable[tuple[Entry, Standing]], start: datetime, end: datetime, now: datetime, *,
            usual: Mapping[str, timedelta]) -> list[Occurrence]:
    """Return what happens in `[start, end]`, by time and name, if runs take their usual time and succeed.

    `planned` holds entries with how they stand at `now`; what is overdue then counts as of `now`. `usual` holds the usual
    length of a run by entry name; an entry without one ends at once.
    """
    found = [each for entry, standing in planned
             for each in _simulated(entry, standing, end, now, usual.get(entry.name, timedelta()))
             if start <= max(each.due_at, now) <= end]
    return sorted(found, key=lambda each: (each.due_at, each.name))


def _simulated(entry: Entry, standing: Standing, end: datetime, now: datetime,
               usual: timedelta) -> Iterator[Occurrence]:
    running = standing.running
    over = max(now, running.started_at + usual) if running else None
    while entry.enabled:
        due = max(standing.due_at or now, now)
        if over is not None and over <= due:
            now, over = over, None
            standing = ended(entry, standing, _SUCCESS, now).standing
            continue
        if due > end:
            return
        now = due
        decided = turn(entry, standing, now)
        yield from _lines(entry.name, standing, decided)
        standing = decided.standing
        if decided.run is not None:
            over = now + usual


def _lines(name: str, before: Standing, decided: Turn) -> Iterator[Occurrence]:
    for each in decided.recorded:
        if decided.closes is None or (each.occurrence, each.try_no) != (decided.closes.occurrence, decided.closes.try_no):
            yield from _line(name, before, each)
    run = decided.run
    if run is not None:
        waited = decided.reason in (DueFor.DEFERRED, DueFor.AGAIN)
        due_at = before.due_at if waited and before.due_at else run.occurrence
        yield Occurrence(name, due_at, Action.RUN, None, decided.reason, run.stat_date)


def _line(name: str, before: Standing, each: Recorded) -> Iterator[Occurrence]:
    outcome = each.outcome
    waited = before.due_for == DueFor.DEFERRED and outcome.kind == Kind.MADE_UP and outcome.reason == DueFor.DEFERRED
    if waited and each.occurrence == before.occurrence:
        return  # its deferral has been told
    if waited:
        # it came while the deferral lasted: for whoever reads this, it was deferred like the first
        told = before.last_outcome.reason if before.last_outcome else ""
        yield Occurrence(name, each.occurrence, Action.DEFER, before.due_at, told or "deferred", each.stat_date)
        return
    yield Occurrence(name, each.occurrence, _ACTIONS[outcome.kind], outcome.until, outcome.reason, each.stat_date)
