"""Entries and runs as the schedule writes them: what is due, what begins, what became of it.

Every function takes part in the caller's transaction, and who writes an entry has locked its row. What is decided, and
by which rules, is the business of `tasks.schedule`; moments are the schedule's clock.

When the process dies in the middle: nothing of the turn has happened, and the entry is still due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from models.db import BEAT, BEAT_IDLE_MS, IDLE_IN_TRANSACTION_MS
from models.operations import Operator
from models.queries.entries import rows_of
from models.queries.schedule import OVER, is_open
from models.schedules import runs
from models.statements import postgres, schedules
from models.statements.operations import log_operation


def due(conn: Connection, now: datetime, limit: int) -> list[dict[str, Any]]:
    """Lock up to `limit` due entries that nobody else has locked, and return their rows."""
    return list(rows_of(conn, schedules.due(now, limit)).values())


def due_names(conn: Connection, now: datetime, limit: int) -> list[str]:
    """Return, without a lock, which entries are due, oldest first: an idle look on SQLite must take none."""
    return list(conn.scalars(schedules.due_names(now, limit)))


def end_frozen(conn: Connection) -> int:
    """End sessions of ours that stand in a transaction for longer than they may: a frozen beat holds its entries.

    The server does it by itself after the same time, but its timer was seen to miss one. Nothing on SQLite.
    """
    if conn.dialect.name != "postgresql":
        return 0
    return (postgres.end_frozen(conn, BEAT_IDLE_MS / 1000, BEAT)
            + postgres.end_frozen(conn, IDLE_IN_TRANSACTION_MS / 1000))


def lock(conn: Connection, *names: str, wait: bool = True) -> dict[str, dict[str, Any]]:
    """Lock the rows of entries and return them by name; without `wait` what is locked elsewhere is left out."""
    return rows_of(conn, schedules.lock(names, wait=wait))


def add(conn: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store entries that have no row yet."""
    schedules.add_entries(conn, rows)


def write(conn: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows of locked entries."""
    schedules.write_entries(conn, rows)


def start(conn: Connection, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Store runs that begin; returns their ids by entry. One without an id has its run or its end already (rule S2)."""
    return schedules.start_runs(conn, rows)


def record(conn: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store what became of occurrences without a run of their own; an end that is stored stays (rule S3)."""
    schedules.record(conn, rows)


def next_try(conn: Connection, entry: str, occurrence: datetime) -> int:
    """Return the number of the next try of an occurrence."""
    return int(conn.execute(schedules.last_try(entry, occurrence)).scalar() or 0) + 1


def end(conn: Connection, run_id: int, now: datetime, *, outcome: str, reason: str, until: datetime | None,
        progress: Mapping[str, Any] | None, by: int | None = None) -> bool:
    """Store how an open run ended; false if it has its end already."""
    values = {"b_run": run_id, "b_outcome": outcome, "b_reason": reason, "b_until": until, "b_progress": progress,
              "b_ended": now, "b_by": by}
    return bool(conn.execute(schedules.END_RUN, values).rowcount)


def over(conn: Connection, limit: int, among: Sequence[str] | None = None) -> list[tuple[int, str]]:
    """Return id and entry of open runs (of these entries) none of whose jobs is queued or running."""
    wanted = OVER if among is None else OVER.where(runs.c.entry.in_(among))
    return [(row.run_id, row.entry) for row in conn.execute(wanted.limit(limit))]


def is_over(conn: Connection, run_id: int) -> bool:
    """Tell, in a statement of its own, whether none of a run's jobs is queued or running."""
    return not conn.execute(is_open(run_id)).scalar()


def note_operation(conn: Connection, by: Operator, action: str, entry: str, details: dict[str, Any] | None = None) -> None:
    """Write what an operator did to an entry, in the transaction of the change."""
    log_operation(conn, by, action, entry=entry, details=details)
