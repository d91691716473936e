"""Entries and their rows: a new entry gets a row, an edited one a new plan, and nothing past fires (rules S1, S2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from config.logs import log_event
from models.agenda import records
from models.db import Database
from models.outcome import message_of
from models.queries.entries import UNREADABLE, rows_of
from tasks.periodic.base import Scope
from tasks.schedule import planner
from tasks.schedule.calendar import Every
from tasks.schedule.entries import Configured, Known
from tasks.schedule.rows import Row, entry_of, recorded_row, row_of, standing_of
from tasks.schedule.terms import Entry, Standing
from tasks.schedule.turns import Told, log, tell, told
from tasks.schedule.unread import fail, standing_at_best


def synchronise(db: Database, known: Known, now: datetime) -> bool:
    """Bring the rows of all entries up to what is configured; false if another process held one that has changed.

    Raises Outdated, and writes nothing, if the file says something else by now.
    """
    with db.read() as conn:
        rows = rows_of(conn)
    missing = [one for name, one in known.items() if name not in rows]
    changed = [name for name, row in rows.items() if row["rules"] != rules_for(known, row) or _is_never_due(known, row)]
    if not missing and not changed:
        return True
    lines: list[Told] = []
    with db.write() as conn:
        records.add(conn, [row_of(one.entry, one.rules, planner.first(one.entry, now), now) for one in missing])
        free = records.lock(conn, *changed, wait=False)
        known.require_present(conn)
        for row in free.values():
            lines += _brought(conn, known, row, now)
    tell(lines)
    return len(free) == len(changed)


def _is_never_due(known: Mapping[str, Configured], row: Row) -> bool:
    return "unreadable" in row and row["due_at"] is None and of_row(known, row).entry.enabled


def _brought(conn: Connection, known: Mapping[str, Configured], row: Row, now: datetime) -> list[Told]:
    """Bring a locked row up to what is configured; one that cannot be read has its failure when it is due, or now if that
    is never.
    """
    one = of_row(known, row)
    if _is_never_due(known, row):
        return fail(conn, one, row, now, f"the row cannot be read: {row['unreadable']}")
    try:
        standing, lines = edited(conn, one, row, now)
    except UNREADABLE as error:
        log_event(log, "schedule.unreadable", entry=row["name"], error=message_of(error))
        return []
    records.write(conn, [row_of(one.entry, one.rules, standing, now)])
    return lines


def of_row(known: Mapping[str, Configured], row: Row) -> Configured:
    """Return what is configured for a row; what is configured no longer is disabled. The pause is the row's."""
    one = known.get(row["name"])
    if one is None:
        entry, scope = _remembered(row)
        one = Configured(replace(entry, enabled=False), scope)
    return replace(one, entry=replace(one.entry, paused=bool(row["paused"])))


def _remembered(row: Row) -> tuple[Entry, Scope]:
    try:
        return entry_of(row["name"], row["rules"])
    except UNREADABLE:
        return Entry(row["name"], "crawl", Every(timedelta(days=1)), ZoneInfo("UTC")), Scope("crawl")


def rules_for(known: Mapping[str, Configured], row: Row) -> Row:
    """Return the rules that a row should have been planned under."""
    return of_row(known, row).rules


def edited(conn: Connection, one: Configured, row: Row, now: datetime, *, at_best: bool = False
           ) -> tuple[Standing, list[Told]]:
    """Return how a locked entry stands under its present rules; what an edit skips is recorded here (rule S2).

    A row that cannot be read raises one of `UNREADABLE`, or with `at_best` says what it can. Rules that cannot be read
    count as the present ones.
    """
    standing = standing_at_best(conn, row) if at_best else standing_of(row)
    if row["rules"] == one.rules:
        return standing, []
    before = rules_before(one, row)
    turn = planner.edited(one.entry, standing, now, before=before)
    records.record(conn, [recorded_row(row["name"], each, now, None) for each in turn.recorded])
    return replace(turn.standing, since=now), [line for each in turn.recorded for line in told(
        row["name"], each.outcome, run=None, stat_date=each.stat_date, due_at=turn.standing.due_at, zone=one.entry.zone)]


def rules_before(one: Configured, row: Row) -> Entry:
    """Return the entry by the rules that its row was planned under; by the present ones if nobody can read those, enabled
    or not as the row says.
    """
    try:
        return entry_of(row["name"], row["rules"], paused=bool(row["paused"]))[0]
    except UNREADABLE:
        return replace(one.entry, enabled=bool(row["enabled"]))
