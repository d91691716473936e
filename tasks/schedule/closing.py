"""The ends of runs: a run is over when none of its jobs is queued or running, and only the schedule says so (rule S8).

Jobs whose worker is lost are recovered by their own leases; the run waits for them like for any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import inf

from sqlalchemy import Connection

from config.clock import Stopwatch
from config.logs import log_event
from config.probes import probe
from config.settings import Settings
from models.agenda import records
from models.db import Database, is_transient
from models.outcome import message_of
from models.queries.schedule import run_rows, tally_of
from tasks.periodic.base import WORKS, Run, work_of
from tasks.schedule import planner
from tasks.schedule.entries import Configured
from tasks.schedule.rows import row_of, run_of
from tasks.schedule.syncing import of_row
from tasks.schedule.terms import Kind, Outcome
from tasks.schedule.turns import end_run, log, tell, told
from tasks.schedule.unread import standing_at_best

#: runs that are looked at in one go
AT_ONCE = 1_000


def close_over(db: Database, settings: Settings, known: Mapping[str, Configured], now: datetime, *,
               among: Sequence[str] | None = None, within_sec: float = inf) -> int:
    """End runs that are over, each in a transaction of its own; returns how many were ended here.

    `among`: of these entries alone. `within_sec`: stop at the first end after so long a time, and leave the rest.
    """
    with db.read() as conn:
        found = records.over(conn, AT_ONCE, among)
    ended, taken = 0, Stopwatch()
    for run_id, name in found:
        ended += _close(db, settings, known, run_id, name, now)
        if ended and taken.elapsed() >= within_sec:
            break
    return ended


def asked_by(known: Mapping[str, Configured], names: Sequence[str]) -> list[str]:
    """Return the entries whose runs the work of these entries asks about: what is over of them must have its end."""
    scopes = (known[name].scope for name in names if name in known)
    return sorted({other for scope in scopes if scope.task in WORKS for other in work_of(scope).asks_about})


def _close(db: Database, settings: Settings, known: Mapping[str, Configured], run_id: int, name: str,
           now: datetime) -> bool:
    try:
        return _closed(db, settings, known, run_id, name, now)
    except Exception as error:
        if is_transient(error):
            with db.read() as conn:  # raises if the database is away; else the next tick asks again
                records.is_over(conn, run_id)
            return False
        reason = message_of(error)
        log_event(log, "schedule.judge_failed", entry=name, run=run_id, error=reason, exc_info=error)
    # what judges it is broken: that is the run's failure, not the schedule's
    return _closed(db, settings, known, run_id, name, now, Outcome(Kind.FAILED, reason))


def _closed(db: Database, settings: Settings, known: Mapping[str, Configured], run_id: int, name: str, now: datetime,
            outcome: Outcome | None = None) -> bool:
    with db.write() as conn:
        row = records.lock(conn, name, wait=False).get(name)
        if row is None:
            return False
        # later statements, each with a snapshot of its own: what was committed before the lock is seen
        found = run_rows(conn, [run_id]).get(run_id)
        if found is None or found["outcome"] is not None or not records.is_over(conn, run_id):
            return False
        one, standing, info = of_row(known, row), standing_at_best(conn, row), run_of(found)
        run = Run(run_id, one.entry, one.scope, info, now, settings)
        answer = outcome or _judged(conn, one, run)
        ending = planner.ended(one.entry, standing, answer, now, run=info)
        end_run(conn, run_id, _with_progress(conn, run_id, ending.outcome), now)
        # the rules stay those that the row was planned under: an edit is made where edits are made
        records.write(conn, [row_of(one.entry, row["rules"], ending.standing, now) | {"enabled": row["enabled"]}])
        if outcome is None:
            work_of(one.scope).ended(conn, run, ending.outcome)
        probe("run_ending")
        lines = told(name, ending.outcome, run=run_id, stat_date=info.stat_date, due_at=ending.standing.due_at,
                     zone=one.entry.zone)
    probe("run_ended")
    tell(lines)
    return True


def _judged(conn: Connection, one: Configured, run: Run) -> Outcome:
    if one.error:
        return Outcome(Kind.FAILED, one.error)
    return work_of(one.scope).judge(conn, run, tally_of(conn, run.run_id))


def _with_progress(conn: Connection, run_id: int, outcome: Outcome) -> Outcome:
    """A run keeps how far it came, whatever its entry remembers (rule S5)."""
    return outcome if outcome.progress is not None else replace(outcome, progress=tally_of(conn, run_id).progress)
