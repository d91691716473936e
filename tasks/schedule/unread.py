"""Entries whose rows cannot be read: written by a newer release, or broken by hand (rule S4).

Their failure is recorded, their whole row is written anew from what can be read of it, and they go on. No other entry
waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection

from models.agenda import records
from models.queries.entries import UNREADABLE
from models.queries.schedule import run_rows
from tasks.schedule import calendar
from tasks.schedule.entries import Configured
from tasks.schedule.owed import is_too_late, next_regular, planned, unplanned
from tasks.schedule.rows import Row, date_of, moment_of, outcome_of, row_of, run_of, running_of, standing_of
from tasks.schedule.terms import DueFor, Entry, Kind, Outcome, RunInfo, Standing, Status
from tasks.schedule.turns import Told, told

T = TypeVar("T")


def standing_at_best(conn: Connection, row: Row) -> Standing:
    """Return how the entry of a row stands, as far as anybody can read it."""
    try:
        return standing_of(row)
    except UNREADABLE:
        return salvaged(row, _open_run(conn, row["run_id"]))


def salvaged(row: Row, running: RunInfo | None = None) -> Standing:
    """Return what can be read of a row, each piece by itself; `running` stands for its run if that cannot be read."""
    plan = row["plan"] if isinstance(row["plan"], Mapping) else {}
    run = _piece(running_of, plan.get("running"), None)
    progress, due_at = row["progress"], row["due_at"]
    return Standing(
        due_at=due_at, status=_piece(Status, row["status"], Status.FAILED),
        due_for=_piece(DueFor, plan.get("due_for"), DueFor.REGULAR),
        # without one the moment that is due would be nobody's
        occurrence=_piece(moment_of, plan.get("occurrence"), due_at), try_no=_piece(int, plan.get("try_no"), 1),
        failures=_piece(int, plan.get("failures"), 0), due_date=_piece(date_of, plan.get("due_date"), None),
        source=_piece(str, plan.get("source"), "schedule"), force=plan.get("force") is True,
        after=_piece(moment_of, plan.get("after"), None),
        running=run if run is not None and run.run_id == row["run_id"] else running,
        stat_date=row["stat_date"], progress=progress if isinstance(progress, Mapping) else None,
        last_run_at=row["last_run_at"], last_outcome=_piece(outcome_of, row["last_outcome"], None),
        last_success_at=row["last_success_at"], skips_row=_piece(int, plan.get("skips_row"), 0),
        since=_piece(moment_of, plan.get("since"), None))


def after_failure(entry: Entry, standing: Standing, now: datetime) -> Standing:
    """Return how an entry stands once its failure at `now` is recorded: tried again soon, if what was due still may be.

    Pure. `standing` is what could be read. Nothing is tried again whose moment nobody knows, that is too late by now, or
    that has failed as often as it may.
    """
    failed = replace(standing, failures=standing.failures + 1,
                     status=Status.RUNNING if standing.running is not None else Status.FAILED)
    if not entry.enabled:
        return unplanned(failed, now)
    due, again = standing.due_at, now + entry.retry_after
    used_up = entry.max_tries is not None and failed.failures >= entry.max_tries
    if due is None or due > now or used_up or is_too_late(entry, due, now) or again >= next_regular(entry, standing, now):
        return planned(entry, failed, now)
    return replace(failed, due_at=again, due_for=DueFor.AGAIN)


def fail(conn: Connection, one: Configured, row: Row, now: datetime, reason: str) -> list[Told]:
    """Record a turn of a locked entry that could not be taken as a failed try, and write its whole row anew."""
    entry, standing = one.entry, standing_at_best(conn, row)
    occurrence = standing.occurrence if standing.occurrence is not None and standing.occurrence <= now else now
    number = records.next_try(conn, entry.name, occurrence)
    day = standing.due_date or calendar.stat_date(occurrence, entry.zone)
    outcome = Outcome(Kind.FAILED, reason)
    records.record(conn, [{
        "entry": entry.name, "occurrence": occurrence, "try_no": number, "source": standing.source, "stat_date": day,
        "outcome": outcome.kind.value, "reason": reason, "until": None, "by_run": None, "ended_at": now,
        "recorded_at": now}])
    after = after_failure(entry, standing, now)
    if after.due_for == DueFor.AGAIN:
        after = replace(after, occurrence=occurrence, try_no=number + 1, due_date=day)
    after = replace(after, last_outcome=outcome, since=after.since or now)
    records.write(conn, [row_of(entry, one.rules, after, now)])
    return told(entry.name, outcome, run=None, stat_date=day, due_at=after.due_at, zone=entry.zone)


def _open_run(conn: Connection, run_id: int | None) -> RunInfo | None:
    found = None if run_id is None else run_rows(conn, [run_id]).get(run_id)
    return None if found is None or found["outcome"] is not None else run_of(found)


def _piece(read: Callable[[Any], T], value: Any, otherwise: T) -> T:
    try:
        return otherwise if value is None else read(value)
    except UNREADABLE:
        return otherwise
