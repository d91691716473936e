"""What a tick and the end of a run do to an entry. Pure (rules S1 to S7).

What operators and edits do stands in `tasks.schedule.operating` and is offered here as well.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tasks.schedule.operating import by_hand, edited, made_pending, resumed
from tasks.schedule.owed import GRACE, MOST_SKIPPED, Owed, is_too_late, owed, planned, remembered, skipped
from tasks.schedule.terms import (
    Action,
    DueFor,
    Ending,
    Entry,
    Kind,
    Outcome,
    Overlap,
    Recorded,
    RunInfo,
    Standing,
    Status,
    Turn,
)

__all__ = ["by_hand", "edited", "ended", "first", "made_pending", "resumed", "turn"]

_STATUS_AFTER = {Kind.SUCCESS: Status.DONE, Kind.FAILED: Status.FAILED, Kind.SKIPPED: Status.DEFERRED,
                 Kind.DEFERRED: Status.DEFERRED}
_LONGEST_WAIT_SEC = 366 * 86_400.0


def first(entry: Entry, now: datetime) -> Standing:
    """Return how an entry stands that has no row yet: its next moment, nothing past (rule S1)."""
    standing = Standing(due_at=None, after=now, since=now)
    return planned(entry, standing, now) if entry.enabled else standing


def turn(entry: Entry, standing: Standing, now: datetime) -> Turn:
    """Decide what a tick at `now` does (rules S1 to S7); ``wait`` if nothing is due. It may be asked at any time.

    Of several moments that were missed the last is run and makes up the others, each if it is not later than the
    entry's `catch_up` allows; what is later is skipped (``missed``).
    """
    if not entry.enabled:
        return Turn(Action.WAIT, "disabled", standing)
    if standing.due_at is None:
        return Turn(Action.WAIT, "no_state", planned(entry, standing, now))
    if now < standing.due_at:
        return Turn(Action.WAIT, "not_due", standing)
    late: list[Owed] = []
    live: list[Owed] = []
    for each in owed(entry, standing, now):
        if len(late) == MOST_SKIPPED:
            break
        (late if entry.paused or is_too_late(entry, each.due, now) else live).append(each)
    if len(late) == MOST_SKIPPED:
        return _skip(entry, standing, late, late[-1].occurrence, "paused" if entry.paused else "missed")
    if not live:
        return _skip(entry, standing, late, now, "paused" if entry.paused else "missed")
    missed = skipped(late, "missed")
    if entry.quiet is not None and entry.quiet.contains(now, entry.zone):
        return _defer(standing, live, missed, entry.quiet.end_after(now, entry.zone))
    if standing.running is not None and entry.overlap == Overlap.JOIN:
        return _join(entry, standing, live, missed, standing.running, now)
    return _run(entry, standing, live, missed, now)


def _skip(entry: Entry, standing: Standing, late: list[Owed], until: datetime, reason: str) -> Turn:
    """Skip what came up to `until`; a pause changes nothing of how the entry stands."""
    recorded = skipped(late, reason)
    status = Status.PENDING if reason == "missed" and recorded else None
    return Turn(Action.SKIP, reason, remembered(planned(entry, standing, until), recorded, status), recorded=recorded)


def _defer(standing: Standing, live: list[Owed], missed: tuple[Recorded, ...], until: datetime) -> Turn:
    """Defer all that is due to the end of the quiet window; the plan keeps the first, the others follow from it."""
    recorded = missed + tuple(each.recorded(Kind.DEFERRED, "quiet_window", until=until) for each in live)
    head = live[0]
    after = max(head.occurrence, standing.after or head.occurrence)
    waiting = replace(standing, due_at=until, due_for=DueFor.DEFERRED, occurrence=head.occurrence, try_no=head.try_no,
                      failures=head.failures, due_date=head.stat_date, source=head.source, force=head.force, after=after)
    return Turn(Action.DEFER, "quiet_window", remembered(waiting, recorded, Status.DEFERRED), until=until,
                recorded=recorded)


def _join(entry: Entry, standing: Standing, live: list[Owed], missed: tuple[Recorded, ...], running: RunInfo,
          now: datetime) -> Turn:
    recorded = missed + tuple(each.recorded(Kind.MADE_UP, "overlap", by=running.run_id) for each in live)
    return Turn(Action.MAKE_UP, "overlap", remembered(planned(entry, standing, now), recorded), by=running,
                recorded=recorded)


def _run(entry: Entry, standing: Standing, live: list[Owed], missed: tuple[Recorded, ...], now: datetime) -> Turn:
    """Run the last of what is due; the others, and a run that it takes over from, are made up by it."""
    *others, taken = live
    recorded = missed + tuple(each.recorded(Kind.MADE_UP, each.due_for if each.due_for == DueFor.DEFERRED else "missed")
                              for each in others)
    closes = standing.running if entry.overlap == Overlap.NEXT else None
    if closes is not None:
        recorded += (Recorded(closes.occurrence, closes.try_no, closes.stat_date, Outcome(Kind.MADE_UP, "overlap"),
                              closes.source),)
    run = taken.run(now)
    after = replace(planned(entry, standing, now), status=Status.RUNNING, running=run, last_run_at=now)
    return Turn(Action.RUN, _why(others, taken, now), after, run=run, closes=closes, recorded=recorded)


def _why(others: list[Owed], taken: Owed, now: datetime) -> str:
    """Return why `taken` runs. At the end of a deferral it is the deferral that a late tick makes good, not a downtime
    that the moment itself fell into.
    """
    if taken.due_for != DueFor.REGULAR or now <= taken.due + GRACE:
        return taken.due_for.value
    waited = any(each.due_for == DueFor.DEFERRED and each.due == taken.due for each in others)
    return DueFor.DEFERRED.value if waited else "missed"


def ended(entry: Entry, standing: Standing, outcome: Outcome, now: datetime, *, run: RunInfo | None = None) -> Ending:
    """Decide what the end of `run` (None: the running one) at `now` with `outcome` does (rules S3, S4, S5).

    The plan was set when the run began, so that a success, or a worker that dies here, needs nothing more. A failure, a
    skip or a deferral puts the next try of the same occurrence before it, unless the next regular moment or another
    planned try comes first. The end of a run that is no longer the running one changes only what is remembered.
    Raises ValueError if no run is known or `outcome` is not the end of one.
    """
    run = run or standing.running
    if run is None or outcome.kind not in _STATUS_AFTER:
        raise ValueError(f"{entry.name}: {outcome.kind} ends no run" if run else f"{entry.name} has no running run")
    current = standing.running is not None and _key(standing.running) == _key(run)
    if current and standing.running is not None:
        run = replace(run, absorbs=standing.running.absorbs)
    again, reason = _again(entry, standing, outcome, run, now, current)
    if outcome.kind == Kind.DEFERRED:
        # a deferral that nothing follows would leave its occurrence open
        outcome = replace(outcome, until=again) if again else replace(outcome, kind=Kind.SKIPPED, until=None)
    after = _past(standing, outcome, run, now)
    if current:
        after = replace(after, running=None, status=_STATUS_AFTER[outcome.kind])
    if again is not None:
        failures = run.failures + (outcome.kind == Kind.FAILED)
        due_for = DueFor.DEFERRED if outcome.kind == Kind.DEFERRED else DueFor.AGAIN
        after = replace(after, due_at=again, due_for=due_for, occurrence=run.occurrence, try_no=run.try_no + 1,
                        failures=failures, due_date=run.stat_date, force=run.force,
                        source="schedule" if run.absorbs else run.source)
    return Ending(outcome, after, reason, again)


def _again(entry: Entry, standing: Standing, outcome: Outcome, run: RunInfo, now: datetime,
           current: bool) -> tuple[datetime | None, str]:
    """Return when the occurrence of `run` is tried again, None for not at all, and why."""
    regular = standing.due_at
    if outcome.kind == Kind.SUCCESS:
        return None, "success"
    if not current:
        return None, "superseded"
    if regular is None:
        return None, "disabled"
    if standing.due_for != DueFor.REGULAR or regular <= run.occurrence:
        # one try is planned at a time; a moment that was owed before a run by hand is not put off by its end
        return None, "another_try_is_planned"
    if outcome.kind == Kind.FAILED and entry.max_tries is not None and run.failures + 1 >= entry.max_tries:
        return None, "tries_used_up"
    if outcome.kind == Kind.SKIPPED and _is_answer(run):
        return None, "answered_by_hand"
    wanted = outcome.until or now + _wait(entry, outcome)
    if outcome.kind == Kind.DEFERRED:
        return min(wanted, regular), outcome.reason or "deferred"
    return (wanted, "again") if wanted < regular else (None, "next_regular_moment")


def _is_answer(run: RunInfo) -> bool:
    """Tell whether `run` answers somebody and nothing else: it stands for nothing that the schedule would have tried."""
    return run.source == "manual" and not run.absorbs


def _wait(entry: Entry, outcome: Outcome) -> timedelta:
    asked = outcome.again_in
    if asked is None or asked != asked:
        return entry.retry_after
    return timedelta(seconds=min(max(asked, 0.0), _LONGEST_WAIT_SEC))


def _past(standing: Standing, outcome: Outcome, run: RunInfo, now: datetime) -> Standing:
    """Remember an end: a success moves `last_success_at`, and nothing but progress or success the stat date (S3, S5)."""
    skips = standing.skips_row + (not _is_answer(run)) if outcome.skipped else 0
    after = replace(standing, last_outcome=outcome, skips_row=skips)
    if outcome.ok:
        same = standing.stat_date == run.stat_date
        progress = outcome.progress or (standing.progress if same else None)
        return replace(after, last_success_at=now, stat_date=run.stat_date, progress=progress)
    if outcome.progress:
        return replace(after, stat_date=run.stat_date, progress=outcome.progress)
    return after


def _key(run: RunInfo) -> tuple[datetime, int]:
    return run.occurrence, run.try_no
