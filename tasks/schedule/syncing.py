"""Entries and their rows: a new entry gets a row, an edited one a new plan, and nothing past fires (rules S1, S2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from models.agenda import records
from models.db import Database
from models.queries.schedule import entry_rows
from tasks.schedule import planner
from tasks.schedule.entries import Configured, Known
from tasks.schedule.rows import Row, entry_of, recorded_row, row_of, standing_of
from tasks.schedule.terms import Standing
from tasks.schedule.turns import Told, tell, told


def synchronise(db: Database, known: Known, now: datetime) -> bool:
    """Bring the rows of all entries up to what is configured; false if another process held one that has changed.

    Raises Outdated, and writes nothing, if the file says something else by now.
    """
    with db.read() as conn:
        rows = entry_rows(conn)
    missing = [one for name, one in known.items() if name not in rows]
    changed = [name for name, row in rows.items() if row["rules"] != rules_for(known, row)]
    if not missing and not changed:
        return True
    lines: list[Told] = []
    with db.write() as conn:
        records.add(conn, [row_of(one.entry, one.rules, planner.first(one.entry, now), now) for one in missing])
        free = records.lock(conn, *changed, wait=False)
        known.require_present(conn)
        for row in free.values():
            one = of_row(known, row)
            standing, some = edited(conn, one, row, now)
            lines += some
            records.write(conn, [row_of(one.entry, one.rules, standing, now)])
    tell(lines)
    return len(free) == len(changed)


def of_row(known: Mapping[str, Configured], row: Row) -> Configured:
    """Return what is configured for a row; what is configured no longer is disabled. The pause is the row's."""
    one = known.get(row["name"])
    if one is None:
        entry, scope = entry_of(row["name"], row["rules"])
        one = Configured(replace(entry, enabled=False), scope)
    return replace(one, entry=replace(one.entry, paused=bool(row["paused"])))


def rules_for(known: Mapping[str, Configured], row: Row) -> Row:
    """Return the rules that a row should have been planned under."""
    return of_row(known, row).rules


def edited(conn: Connection, one: Configured, row: Row, now: datetime) -> tuple[Standing, list[Told]]:
    """Return how a locked entry stands under its present rules; what an edit skips is recorded here (rule S2)."""
    standing = standing_of(row)
    if row["rules"] == one.rules:
        return standing, []
    before, _ = entry_of(row["name"], row["rules"], paused=bool(row["paused"]))
    turn = planner.edited(one.entry, standing, now, before=before)
    records.record(conn, [recorded_row(row["name"], each, now, None) for each in turn.recorded])
    return replace(turn.standing, since=now), [line for each in turn.recorded for line in told(
        row["name"], each.outcome, run=None, stat_date=each.stat_date, due_at=turn.standing.due_at, zone=one.entry.zone)]
