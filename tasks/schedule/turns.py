"""One turn of entries that are locked: what the planner decides becomes rows, runs and jobs, in one transaction.

Invariants: every occurrence gets exactly one outcome; `due_at` is stored with whatever a turn does (rule S4); a turn
happens as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from config.logs import get_logger, log_event
from config.settings import Settings
from models.agenda import launching, records
from models.agenda.fan import FanOut
from models.agenda.launching import Hold, Launch
from models.outcome import message_of
from tasks.periodic.base import Run, work_of
from tasks.schedule import planner
from tasks.schedule.entries import Configured
from tasks.schedule.owed import planned
from tasks.schedule.rows import recorded_row, row_of, run_row
from tasks.schedule.terms import Action, Entry, Kind, Outcome, Standing, Turn

log = get_logger("ratelane.schedule")


@dataclass
class Taken:
    """An entry in its turn: what was decided, and how it stands by now."""

    configured: Configured
    turn: Turn
    run_id: int | None = None
    standing: Standing = field(init=False)

    def __post_init__(self) -> None:
        self.standing = self.turn.standing

    @property
    def entry(self) -> Entry:
        """The entry with its rules."""
        return self.configured.entry


@dataclass(frozen=True)
class Told:
    """A line to log once the transaction is committed (rule S3)."""

    event: str
    fields: dict[str, Any]


EVENTS = {Kind.SUCCESS: "scheduler.task_ok", Kind.SKIPPED: "scheduler.task_skip", Kind.FAILED: "scheduler.task_fail",
          Kind.DEFERRED: "scheduler.task_defer"}


def tell(lines: Sequence[Told]) -> None:
    """Log what happened, now that it is committed."""
    for line in lines:
        log_event(log, line.event, **line.fields)


def told(entry: str, outcome: Outcome, *, run: int | None, stat_date: object, due_at: datetime | None,
         zone: ZoneInfo | None) -> list[Told]:
    """Return the line of an outcome; what another run makes up has that run's line.

    `due_at` is when the entry is due next. Moments are told in the entry's `zone`, which the loaded file may name (rule
    U6); None, for an entry that nobody can read, leaves it to the log.
    """
    event = EVENTS.get(outcome.kind)
    if event is None:
        return []
    due_at, until = (each if each is None or zone is None else each.astimezone(zone) for each in (due_at, outcome.until))
    return [Told(event, {"entry": entry, "run": run, "stat_date": stat_date, "due_at": due_at,
                         "reason": outcome.reason or None, "until": until})]


def take(conn: Connection, settings: Settings, those: Sequence[Taken], now: datetime,
         failed: Outcome | None = None) -> list[Told]:
    """Write the turns of locked entries; returns what to log once they are committed.

    What a kind of work raises fails its run; what the database raises fails the transaction. With `failed` runs end so
    at once and nobody is asked.
    """
    _start(conn, those, now)
    records.record(conn, [recorded_row(each.entry.name, one, now, each.run_id)
                          for each in those for one in each.turn.recorded])
    lines = [line for each in those for one in each.turn.recorded
             for line in told(each.entry.name, one.outcome, run=None, stat_date=one.stat_date, due_at=each.standing.due_at,
                              zone=each.entry.zone)]
    launches: list[Launch] = []
    for each in those:
        if each.run_id is None:
            continue
        answer = failed or _planned(conn, settings, each, now)
        if isinstance(answer, FanOut):
            launches.append(_launch(each, each.run_id, answer, settings, now))
        else:
            lines += _at_once(conn, settings, each, each.run_id, answer, now)
    totals = launching.launch(conn, launches)
    lines += [Told("scheduler.task_start", {"entry": each.entry.name, "run": each.run_id, "reason": each.turn.reason,
                                            "stat_date": each.turn.run.stat_date, "targets": totals[each.run_id]})
              for each in those if each.run_id in totals and each.turn.run is not None]
    records.write(conn, [row_of(each.entry, each.configured.rules, each.standing, now) for each in those])
    return lines


def _start(conn: Connection, those: Sequence[Taken], now: datetime) -> None:
    """Give the runs that begin their rows and ids."""
    starting = [(each, each.turn.run) for each in those if each.turn.run is not None]
    ids = records.start(conn, [run_row(each.entry.name, run, now) for each, run in starting])
    for each, run in starting:
        each.run_id = ids.get(each.entry.name)
        if each.run_id is None:
            # its occurrence has been taken already: nothing happens twice, and the entry goes on
            log_event(log, "schedule.repeated", entry=each.entry.name, occurrence=run.occurrence, try_no=run.try_no)
            before = replace(each.standing, running=None)
            each.standing = planned(each.entry, before, now)
            each.turn = Turn(Action.WAIT, "repeated", each.standing)
        else:
            each.standing = replace(each.standing, running=replace(run, run_id=each.run_id))


def run_of(each: Taken, settings: Settings, now: datetime, run_id: int) -> Run:
    """Return the run of a turn as its kind of work sees it."""
    running = each.standing.running
    if running is None:
        raise LookupError(f"{each.entry.name} has no running run")
    closes = each.turn.closes
    return Run(run_id, each.entry, each.configured.scope, running, now, settings,
               None if closes is None or closes.run_id is None else int(closes.run_id))


def _planned(conn: Connection, settings: Settings, each: Taken, now: datetime) -> FanOut | Outcome:
    try:
        if each.configured.error:
            return Outcome(Kind.FAILED, each.configured.error)
        return work_of(each.configured.scope).plan(conn, run_of(each, settings, now, each.run_id or 0))
    except SQLAlchemyError:
        raise
    except Exception as error:
        log_event(log, "schedule.plan_failed", entry=each.entry.name, run=each.run_id, error=message_of(error), exc_info=error)
        return Outcome(Kind.FAILED, message_of(error))


def _at_once(conn: Connection, settings: Settings, each: Taken, run_id: int, outcome: Outcome,
             now: datetime) -> list[Told]:
    """End a run that needs no job."""
    run = run_of(each, settings, now, run_id)
    ending = planner.ended(each.entry, each.standing, outcome, now)
    end_run(conn, run_id, ending.outcome, now)
    each.standing = ending.standing
    if outcome.kind != Kind.FAILED:
        work_of(each.configured.scope).ended(conn, run, ending.outcome)
    return told(each.entry.name, ending.outcome, run=run_id, stat_date=run.stat_date, due_at=each.standing.due_at,
                zone=each.entry.zone)


def end_run(conn: Connection, run_id: int, outcome: Outcome, now: datetime) -> bool:
    """Store the end of an open run; false if it has one already."""
    return records.end(conn, run_id, now, outcome=outcome.kind.value, reason=outcome.reason, until=outcome.until,
                       progress=outcome.progress, by=None if outcome.by is None else int(outcome.by))


def _launch(each: Taken, run_id: int, fan: FanOut, settings: Settings, now: datetime) -> Launch:
    run, closes = run_of(each, settings, now, run_id), each.turn.closes
    goes_on = closes is None or (closes.stat_date == run.stat_date and not run.info.force)
    apart = None if closes is None or goes_on else closes.stat_date.isoformat()
    return Launch(run_id, fan, each.entry.priority, run.info.force, settings.max_attempts, hold_of(each.entry, now),
                  run.closes, apart)


def hold_of(entry: Entry, now: datetime, *, opened: bool = True) -> Hold | None:
    """Return the entry's next quiet window, in seconds from `now`.

    The one that `now` lies in was forced open for a run that starts in it; without `opened` it is the next one.
    """
    if entry.quiet is None:
        return None
    if not opened and entry.quiet.contains(now, entry.zone):
        return Hold(0.0, (entry.quiet.end_after(now, entry.zone) - now) / timedelta(seconds=1))
    start = entry.quiet.start_after(now, entry.zone)
    until = entry.quiet.end_after(start, entry.zone)
    return Hold((start - now) / timedelta(seconds=1), (until - now) / timedelta(seconds=1))
