"""What operators and edits do to an entry: run by hand, edit, enable, disable, resume. Pure (rules S2, S6, S9)."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta

from tasks.schedule import calendar
from tasks.schedule.owed import Owed, is_too_late, next_regular, owed, planned, remembered, skipped, unplanned
from tasks.schedule.terms import (
    Action,
    DueFor,
    Entry,
    Kind,
    Outcome,
    Overlap,
    Recorded,
    Refusal,
    RunInfo,
    Standing,
    Status,
    Turn,
)


def by_hand(entry: Entry, standing: Standing, now: datetime, *, force: bool = False,
            stat_date: date | None = None) -> Turn | Refusal:
    """Decide what `schedule run` does: a run at once, for `stat_date` (None: today's), or a refusal (rules S6, S9).

    It is an occurrence of its own; the entry's next regular moment stays. What is owed for the same stat date, or waits
    to be tried again for it, is made up by this run. `force` runs inside a quiet window, and takes over from a running
    run where the entry's overlap is ``next``.
    """
    day = stat_date or calendar.stat_date(now, entry.zone)
    if entry.quiet is not None and not force and entry.quiet.contains(now, entry.zone):
        return Refusal("quiet_window", until=entry.quiet.end_after(now, entry.zone))
    running = standing.running
    if running is not None and (entry.overlap == Overlap.JOIN or (entry.overlap == Overlap.NEXT and not force)):
        return Refusal("running", run=running)
    plan, recorded = _absorbed(entry, standing, day, now)
    absorbs = bool(recorded)
    closes = running if entry.overlap == Overlap.NEXT else None
    if closes is not None:
        absorbs = absorbs or closes.absorbs or closes.source != "manual"
        recorded += (Recorded(closes.occurrence, closes.try_no, closes.stat_date, Outcome(Kind.MADE_UP, "by_hand"),
                              closes.source),)
    # the key of a run is its occurrence: a run by hand at a regular moment is still another one
    regular = entry.when.latest(now, entry.zone) == now
    run = RunInfo(now + timedelta(microseconds=regular), 1, day, now, "manual", force, absorbs=absorbs)
    after = replace(plan, status=Status.RUNNING, running=run, last_run_at=now)
    return Turn(Action.RUN, "by_hand", after, run=run, closes=closes, recorded=recorded)


def _absorbed(entry: Entry, standing: Standing, day: date, now: datetime) -> tuple[Standing, tuple[Recorded, ...]]:
    """Return the plan and what a run for `day` makes up of what is owed: all, if the last of it is for that day."""
    if standing.occurrence is None or standing.occurrence > now:
        return standing, ()
    those = list(owed(entry, standing, now))
    if those[-1].stat_date != day:
        return standing, ()
    recorded = tuple(each.recorded(Kind.SKIPPED, "missed")
                     if each.stat_date != day and is_too_late(entry, each.due, now)
                     else each.recorded(Kind.MADE_UP, "by_hand") for each in those)
    return planned(entry, standing, now), recorded


def edited(entry: Entry, standing: Standing, now: datetime, *, before: Entry) -> Turn:
    """Return the row after `before` became `entry` (edited, enabled, disabled): no past moment fires (rule S2).

    The action is ``wait``, or ``skip`` if moments that had come and were not taken are recorded as skipped. A try that
    is planned for later stays if it comes before the new next moment; a deferral ends there at the latest.
    """
    if (before.when, before.zone.key, before.enabled) == (entry.when, entry.zone.key, entry.enabled):
        return Turn(Action.WAIT, "unchanged", standing)
    reason = "edited" if entry.enabled else "disabled"
    those = _come(before, standing, now) if before.enabled else []
    waiting = _waiting(standing, now) if entry.enabled else None
    if waiting is not None:
        those = [each for each in those if each.occurrence != standing.occurrence]
    recorded = skipped(those, reason)
    after = planned(entry, standing, now) if entry.enabled else unplanned(standing, now)
    if waiting is not None:
        after = _kept(after, waiting, next_regular(entry, standing, now))
    return Turn(Action.SKIP if recorded else Action.WAIT, reason, remembered(after, recorded), recorded=recorded)


def resumed(entry: Entry, standing: Standing, now: datetime) -> Turn:
    """Return the row after a pause of the entry is lifted: what it would have fired is skipped (rule S2)."""
    if standing.due_at is None or standing.due_at > now:
        return Turn(Action.WAIT, "resumed", standing)
    recorded = skipped(owed(entry, standing, now), "paused")
    return Turn(Action.SKIP if recorded else Action.WAIT, "paused" if recorded else "resumed",
                remembered(planned(entry, standing, now), recorded), recorded=recorded)


def made_pending(entry: Entry, standing: Standing, now: datetime) -> Turn:
    """Return the row with its next regular moment ``pending``: what a successful seed does for the snapshot (rule S7).

    Nothing is forced: `due_at` stays what it is, a running run goes on, and a deferral or another try that is planned
    comes first.
    """
    if not entry.enabled:
        return Turn(Action.WAIT, "disabled", standing)
    if standing.due_at is None:
        return Turn(Action.WAIT, "no_state", replace(planned(entry, standing, now), status=Status.PENDING))
    if standing.running is not None or standing.due_for != DueFor.REGULAR:
        return Turn(Action.WAIT, "busy", standing)
    return Turn(Action.WAIT, "pending", replace(standing, status=Status.PENDING))


def _come(entry: Entry, standing: Standing, now: datetime) -> list[Owed]:
    """Return what has come and has no run, a deferral that still lasts included: its moment has come on any clock."""
    if standing.occurrence is None or (standing.occurrence > now and standing.due_for != DueFor.DEFERRED):
        return []
    return list(owed(entry, standing, now))


def _waiting(standing: Standing, now: datetime) -> Standing | None:
    """Return the plan of `standing` if it is a deferral or another try that is still to come."""
    later = standing.due_at is not None and standing.due_at > now
    return standing if later and standing.due_for != DueFor.REGULAR else None


def _kept(after: Standing, waiting: Standing, regular: datetime) -> Standing:
    due_at = waiting.due_at
    if due_at is None or (due_at >= regular and waiting.due_for == DueFor.AGAIN):
        return after
    return replace(after, due_at=min(due_at, regular), due_for=waiting.due_for, occurrence=waiting.occurrence,
                   try_no=waiting.try_no, failures=waiting.failures, due_date=waiting.due_date, source=waiting.source,
                   force=waiting.force)
