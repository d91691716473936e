"""What operators do to the schedule: run an entry now, pause it, resume it (rules S6, S9)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date as Date
from datetime import datetime

from sqlalchemy import Connection

from config import clock
from config.errors import BadInput
from config.settings import Settings
from models.agenda import records
from models.db import Database
from models.operations import Operator
from tasks.schedule import planner
from tasks.schedule.closing import asked_by, close_over
from tasks.schedule.entries import Configured, Outdated, configured
from tasks.schedule.rows import recorded_row, row_of
from tasks.schedule.syncing import edited, of_row, synchronise
from tasks.schedule.terms import Refusal, Standing
from tasks.schedule.turns import Taken, Told, take, tell, told

#: how often an operator's command looks again, because a run has ended or the file has changed meanwhile
_LOOKS = 3


def run_by_hand(db: Database, settings: Settings, name: str, by: Operator, *, force: bool = False,
                date: Date | None = None) -> int | Refusal:
    """Start a run of the entry `name` at once and return its id, or say why not (rules S6, S9).

    `date` is the stat date to work for (None: today's in the entry's zone). `force` runs inside a quiet window, takes
    over from a running run where the overlap is ``next``, and is the run's own `force`. The run may be over when this
    returns (already completed, nothing to do): read it with `models.queries.schedule.run`. `by` is who asks, for the
    log of operations (`models.operations.acting`). A run that is over has its own end first, whether a beat lives or not:
    nothing is refused because of it, and nothing takes over from it. Raises BadInput for a name that no entry has, or a
    disabled one.
    """
    for _ in range(_LOOKS):
        _end_over(db, settings, name)
        with _held(db, settings, name) as held:
            if not held.one.entry.enabled:
                raise BadInput(f"the entry {name} is disabled")
            running = held.standing.running
            if running is None or running.run_id is None or not records.is_over(held.conn, int(running.run_id)):
                return _run(held, settings, by, force, date)
    # its last jobs ended between looks, or what ends it is locked elsewhere all the time
    return Refusal("running", run=running)


def _end_over(db: Database, settings: Settings, name: str) -> None:
    """End what is over of an entry and of those that its work asks about, as a tick does first."""
    with db.read() as conn:
        known = configured(conn, settings)
    close_over(db, settings, known, clock.now(), among=[name, *asked_by(known, [name])])


def _run(held: _Held, settings: Settings, by: Operator, force: bool, date: Date | None) -> int | Refusal:
    name = held.one.entry.name
    answer = planner.by_hand(held.one.entry, held.standing, held.now, force=force, stat_date=date)
    if isinstance(answer, Refusal):
        return answer
    taken = Taken(held.one, answer)
    held.lines += take(held.conn, settings, [taken], held.now)
    if taken.run_id is None:
        raise BadInput(f"a run of {name} was started at this very moment: ask again")
    details = {"run": taken.run_id, "force": force, "date": None if date is None else date.isoformat()}
    records.note_operation(held.conn, by, "schedule_run", name, details)
    return taken.run_id


def pause(db: Database, settings: Settings, name: str, by: Operator) -> bool:
    """Pause an entry: what comes due is skipped (``paused``), a run under way goes on. Returns whether that is new.

    Raises BadInput for a name that no entry has.
    """
    with _held(db, settings, name) as held:
        if held.one.entry.paused:
            return False
        _write(held, replace(held.one, entry=replace(held.one.entry, paused=True)), held.standing)
        records.note_operation(held.conn, by, "schedule_pause", name)
        return True


def resume(db: Database, settings: Settings, name: str, by: Operator) -> bool:
    """Lift a pause; nothing past fires (rule S2). Returns whether it was paused. Raises BadInput as `pause`."""
    with _held(db, settings, name) as held:
        if not held.one.entry.paused:
            return False
        entry = replace(held.one.entry, paused=False)
        turn = planner.resumed(entry, held.standing, held.now)
        records.record(held.conn, [recorded_row(name, each, held.now, None) for each in turn.recorded])
        for each in turn.recorded:
            held.lines += told(name, each.outcome, run=None, stat_date=each.stat_date, due_at=turn.standing.due_at,
                               zone=entry.zone)
        _write(held, replace(held.one, entry=entry), replace(turn.standing, since=held.now))
        records.note_operation(held.conn, by, "schedule_resume", name)
        return True


def make_pending(conn: Connection, settings: Settings, name: str, now: datetime) -> bool:
    """Make sure that an entry's next regular moment is pending, and force nothing (rule S7: what a seed does).

    Takes part in the caller's transaction; returns whether the entry is there.
    """
    row = records.lock(conn, name).get(name)
    if row is None:
        return False
    one = of_row(configured(conn, settings), row)
    standing, _ = edited(conn, one, row, now, at_best=True)
    turn = planner.made_pending(one.entry, standing, now)
    records.write(conn, [row_of(one.entry, one.rules, turn.standing, now)])
    return True


@dataclass
class _Held:
    """An entry whose row this transaction has locked."""

    conn: Connection
    one: Configured
    standing: Standing
    now: datetime
    lines: list[Told] = field(default_factory=list)


@contextmanager
def _held(db: Database, settings: Settings, name: str) -> Iterator[_Held]:
    """Lock an entry's row, give it its present rules, and log what happened once all is committed."""
    now = clock.now()
    for _ in range(_LOOKS):
        with db.read() as conn:
            known = configured(conn, settings)
        with suppress(Outdated):
            synchronise(db, known, now)
            break
    with db.write() as conn:
        row = records.lock(conn, name).get(name)
        # behind the lock: whoever wrote the row under newer rules has read them from what is read here
        known = configured(conn, settings)
        if row is None:
            raise BadInput(f"no entry is called {name!r}; there are {', '.join(sorted(known))}")
        one = of_row(known, row)
        standing, lines = edited(conn, one, row, now, at_best=True)
        held = _Held(conn, one, standing, now, lines)
        yield held
    tell(held.lines)


def _write(held: _Held, one: Configured, standing: Standing) -> None:
    records.write(held.conn, [row_of(one.entry, one.rules, standing, held.now)])
