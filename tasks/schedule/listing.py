"""The schedule as documents of the command line contract: entries and previews (rule S9).

Runs are read with `models.queries.schedule.run` and `runs_of`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from config import clock
from config.errors import BadInput
from config.settings import Settings
from models.db import Database
from models.outcome import message_of
from models.queries.entries import UNREADABLE, rows_of
from models.queries.reading import iso
from models.queries.schedule import tally_of, usual_lengths, zone_of
from tasks.schedule import planner
from tasks.schedule import preview as previewing
from tasks.schedule.calendar import stat_date
from tasks.schedule.entries import Configured, configured
from tasks.schedule.preview import Occurrence
from tasks.schedule.rows import Row, outcome_document, standing_of
from tasks.schedule.syncing import of_row, rules_before
from tasks.schedule.terms import Action, Entry, Kind, Outcome, Standing, Status
from tasks.schedule.unread import after_failure, salvaged

#: moments that an entry's document names
NEXT_RUNS = 3


def entries(db: Database, settings: Settings, name: str | None = None, *,
            among: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Return the `entry` documents, by name; of one entry, of those `among` or of all.

    Raises BadInput for a name that no entry has; one that is only among others is left out.

    An entry that no tick has met yet is shown as its first one will plan it.
    """
    now = clock.now()
    with db.look() as conn:
        found = _standings(conn, settings, now)
        if name is not None and name not in found:
            raise BadInput(f"no entry is called {name!r}; there are {', '.join(sorted(found))}")
        return [_document(conn, found[each], now) for each in sorted(found)
                if name in (None, each) and (among is None or each in among)]


def preview(db: Database, settings: Settings, start: datetime, end: datetime, *,
            among: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Return the `occurrence` documents of what would fire in `[start, end]`, by time and name; of all or some entries.

    Runs are taken to last as long as the last successful one of their entry did.
    """
    now = clock.now()
    with db.look() as conn:
        found = _standings(conn, settings, now)
        where = zone_of(conn)
        usual = {name: timedelta(seconds=length) for name, length in usual_lengths(conn).items()}
    planned: list[tuple[Entry, Standing]] = []
    unread: list[Occurrence] = []
    for name, (one, standing, wrong) in found.items():
        if among is not None and name not in among:
            continue
        if wrong and one.entry.enabled:
            due = max(now, standing.due_at or now)
            standing = after_failure(one.entry, standing, due)  # noqa: PLW2901 - what the preview goes on from
            unread.append(Occurrence(one.entry.name, due, Action.SKIP, None, wrong, stat_date(due, one.entry.zone)))
        planned.append((one.entry, standing))
    lines = [each for each in unread if start <= each.due_at <= end]
    lines += previewing.preview(planned, start, end, now, usual=usual)
    return [
        {"name": each.name, "due_at": iso(each.due_at, where), "action": str(each.action), "until": iso(each.until, where),
         "reason": each.reason, "stat_date": each.stat_date.isoformat()}
        for each in sorted(lines, key=lambda each: (each.due_at, each.name))]


def _standings(conn: Connection, settings: Settings, now: datetime) -> dict[str, tuple[Configured, Standing, str]]:
    """Return every configured entry with how it stands, as the next tick would find it, and why nobody can say so."""
    known, rows = configured(conn, settings), rows_of(conn)
    found: dict[str, tuple[Configured, Standing, str]] = {}
    for name, one in known.items():
        row = rows.get(name)
        if row is None:
            found[name] = one, planner.first(one.entry, now), ""
        else:
            found[name] = _edited(of_row(known, row), row, now)
    return found


def _edited(one: Configured, row: Row, now: datetime) -> tuple[Configured, Standing, str]:
    try:
        standing = standing_of(row)
    except UNREADABLE as error:
        wrong = f"the row cannot be read: {message_of(error)}"
        return one, replace(salvaged(row), status=Status.FAILED, last_outcome=Outcome(Kind.FAILED, wrong)), wrong
    if row["rules"] == one.rules:
        return one, standing, ""
    return one, planner.edited(one.entry, standing, now, before=rules_before(one, row)).standing, ""


def _document(conn: Connection, found: tuple[Configured, Standing, str], now: datetime) -> dict[str, Any]:
    one, standing, _ = found
    entry, running, last = one.entry, standing.running, standing.last_outcome
    progress: Any = standing.progress
    if running is not None and running.run_id is not None:
        progress = tally_of(conn, int(running.run_id)).progress
    return {
        "name": entry.name, "status": standing.status.value, "due_at": iso(standing.due_at, entry.zone),
        "next_runs": [iso(each, entry.zone) for each in _next(entry, standing, now)],
        "stat_date": None if standing.stat_date is None else standing.stat_date.isoformat(), "progress": progress,
        "last_run_at": iso(standing.last_run_at, entry.zone),
        "last_outcome": None if last is None else {
            key: value for key, value in outcome_document(last).items() if key in ("outcome", "ok", "skipped", "reason")},
        "last_success_at": iso(standing.last_success_at, entry.zone),
        "quiet_window": None if entry.quiet is None else [f"{entry.quiet.start:%H:%M}", f"{entry.quiet.end:%H:%M}"],
        "paused": entry.paused,
    }


def _next(entry: Entry, standing: Standing, now: datetime) -> list[datetime]:
    """Return the next moments: the planned one, then regular ones."""
    moments: list[datetime] = []
    if standing.due_at is None or not entry.enabled:
        return moments
    moments.append(standing.due_at)
    while len(moments) < NEXT_RUNS:
        moments.append(entry.when.next_after(max(moments[-1], now), entry.zone))
    return moments
