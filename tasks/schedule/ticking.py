"""One look of the schedule at its rows: start what is due, end what is over (rules S1 to S8, design section 5).

What it owns: nothing. Any process may tick at any time and any number of them at once; each takes the entries that
nobody else has locked. Beat's scheduler ticks in a loop.

Invariants: a turn of entries, their runs, their jobs and their next moments are one transaction; one entry's mistake is
recorded as its failure and stops neither the others nor the loop.

When it dies in the middle: the transaction has not happened; the next tick of anybody finds the same rows due.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from config.logs import log_event
from config.probes import probe
from config.settings import Settings
from models.agenda import launching, records
from models.db import Database, is_transient
from models.outcome import message_of
from models.queries.schedule import Look, Mark, look, next_due
from tasks.schedule import planner
from tasks.schedule.closing import asked_by, close_over
from tasks.schedule.entries import Known, Outdated, configured
from tasks.schedule.owed import GRACE
from tasks.schedule.rows import Row
from tasks.schedule.syncing import edited, of_row, synchronise
from tasks.schedule.terms import Kind, Outcome
from tasks.schedule.turns import Taken, Told, hold_of, log, take, tell
from tasks.schedule.unread import fail

#: due entries in one transaction
AT_ONCE = 100
#: so long runs are ended before the entries are asked again that have come due: no start waits for a backlog of ends
ENDS_WITHIN_SEC = 0.25
#: jobs that are given their next quiet window in one transaction
HOLDS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Ticked:
    """What a tick did, and in how many seconds the next entry is due (0 or less: it is; None: none ever).

    `look_again`: it has ended runs, and may have left some, so that the next tick should follow at once.
    """

    started: int
    ended: int
    next_due_sec: float | None
    look_again: bool = False


class Entries:
    """What is configured, read again when the file has changed. One a process is enough."""

    def __init__(self) -> None:
        self._mark: tuple[str, Mark] | None = None
        self._known = Known((0, 0), {})

    def read(self, db: Database, settings: Settings, now: datetime) -> tuple[Known, Look]:
        """Return all entries by name, and what there is to do; gives new entries a row, edited ones their new plan (S1, S2)."""
        with db.read() as conn:
            seen = look(conn)
            if self._mark == (db.url, seen.mark) and not seen.never:
                return self._known, seen
            known = configured(conn, settings)
        whole = synchronise(db, known, now)
        self._mark, self._known = (db.url, known.mark) if whole else None, known
        with db.read() as conn:
            return known, look(conn)


def tick(db: Database, settings: Settings, now: datetime, entries: Entries | None = None) -> Ticked:
    """Do all that is due at `now` by the schedule's clock.

    `entries` remembers between ticks of one process what the configuration says. If a load changes that meanwhile, what
    is left is the next tick's, which asks for the time again: this one may have stood still for long. Raises what the
    database raises while it is away; everything that was committed stays.
    """
    try:
        return _tick(db, settings, now, entries or Entries())
    except Outdated:
        return Ticked(0, 0, None, look_again=True)


def _tick(db: Database, settings: Settings, now: datetime, entries: Entries) -> Ticked:
    known, seen = entries.read(db, settings, now)
    # before anything else: lanes go on without a beat, and a window may have begun while none was there
    _move_holds(db, known, now)
    # first, so that what comes due finds ended what it asks about (a seed, its snapshot)
    ended = close_over(db, settings, known, now, within_sec=ENDS_WITHIN_SEC) if seen.over else 0
    started, due = 0, seen.due_at
    # an end may have planned the next try for this very moment
    busy = more = ended > 0 or (due is not None and due <= now)
    while more:
        more, begun, closed = _some(db, settings, known, now)
        started, ended = started + begun, ended + closed
    if started:
        # what needed no job is over already
        ended += close_over(db, settings, known, now, within_sec=ENDS_WITHIN_SEC)
    if busy:
        with db.read() as conn:
            due = next_due(conn)
    return Ticked(started, ended, None if due is None else (due - now) / timedelta(seconds=1), ended > 0)


def _some(db: Database, settings: Settings, known: Known, now: datetime) -> tuple[bool, int, int]:
    """Take up to a hundred due entries; returns whether there may be more, how many runs began, and how many ended."""
    with db.read() as conn:
        coming = records.due_names(conn, now, AT_ONCE)
    if not coming:
        return False, 0, 0
    # a run that is over makes up no later moment, and nothing takes over from it
    ended = close_over(db, settings, known, now, among=[*coming, *asked_by(known, coming)])
    names: list[str] = []
    try:
        begun = _turn(db, settings, known, now, AT_ONCE, names)
        if not names:
            # somebody else has in hand what is due, or stands still with it
            with db.read() as conn:
                records.end_frozen(conn)
        return len(names) == AT_ONCE, begun, ended
    except Outdated:
        raise
    except Exception as error:
        log_event(log, "schedule.turn_failed", level=logging.WARNING,
                  error=message_of(error), entries=len(names))
    # one by one, so that the mistake of one is its own; what is left due is the next tick's
    return False, sum(_alone(db, settings, known, now, name) for name in names), ended


def _turn(db: Database, settings: Settings, known: Known, now: datetime, limit: int,
          names: list[str]) -> int:
    """Take due entries in one transaction; `names` are filled in before anything can go wrong with one of them."""
    with db.write() as conn:
        rows = records.due(conn, now, limit)
        names += [row["name"] for row in rows]
        if rows:
            known.require_present(conn)
        probe("turn_taken")
        taken, lines = _decided(conn, known, rows, now)
        lines += take(conn, settings, taken, now)
        probe("turn_written")
    probe("turn_committed")
    tell(lines)
    return sum(each.run_id is not None for each in taken)


def _alone(db: Database, settings: Settings, known: Known, now: datetime, name: str) -> int:
    """Take one entry by itself; a mistake of its own is recorded as its failure.

    What the database may be asked again (a lock that lasted too long) is asked again by the next ticks, for a minute.
    """
    try:
        with db.write() as conn:
            rows = _due_still(conn, name, now)
            known.require_present(conn)
            taken, lines = _decided(conn, known, rows, now)
            lines += take(conn, settings, taken, now)
        tell(lines)
        return sum(each.run_id is not None for each in taken)
    except Outdated:
        raise
    except Exception as error:
        reason, grace = message_of(error), GRACE if is_transient(error) else timedelta()
    try:
        # raises if the database is away
        with db.write() as conn:
            rows = [row for row in _due_still(conn, name, now) if now >= row["due_at"] + grace]
            known.require_present(conn)
            taken, lines = _decided(conn, known, rows, now)
            lines += take(conn, settings, taken, now, Outcome(Kind.FAILED, reason))
    except Exception as error:
        if is_transient(error) or isinstance(error, Outdated):
            raise
        # not even the planner can say what is due: the row alone remembers it
        with db.write() as conn:
            lines = [line for row in _due_still(conn, name, now) for line in fail(conn, of_row(known, row), row, now, reason)]
    tell(lines)
    return 0


def _due_still(conn: Connection, name: str, now: datetime) -> list[Row]:
    found = records.lock(conn, name, wait=False).values()
    return [row for row in found if row["due_at"] is not None and row["due_at"] <= now and row["enabled"]]


def _decided(conn: Connection, known: Known, rows: list[Row], now: datetime) -> tuple[list[Taken], list[Told]]:
    """Ask the planner about each row; edits come first, so that no turn follows rules that are gone."""
    taken: list[Taken] = []
    lines: list[Told] = []
    for row in rows:
        one = of_row(known, row)
        standing, moved = edited(conn, one, row, now)
        lines += moved
        turn = planner.turn(one.entry, standing, now)
        taken.append(Taken(one, turn))
    return taken, lines


def _move_holds(db: Database, known: Known, now: datetime) -> None:
    """Give jobs whose quiet window is over their next one (rule S6): the one that lasts, if a beat comes back inside."""
    moved = True
    while moved:
        moved = False
        with db.read() as conn:
            past = launching.held_past(conn, HOLDS_AT_ONCE)
        for name, job_ids in past.items():
            one = known.get(name)
            hold = None if one is None else hold_of(one.entry, now, opened=False)
            with db.write() as conn:
                # what somebody has in hand is the next tick's
                moved = launching.move_hold(conn, job_ids, hold) > 0 or moved
