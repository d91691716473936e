"""The tab of the schedule: entries with what is to come on a line of time, their quiet windows, and the last runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from config import clock
from config.moments import iso
from config.settings import Settings
from models.db import Database
from models.queries.board import lists, paging
from models.queries.entries import rows_of
from models.queries.schedule import zone_of
from tasks.schedule import listing
from tasks.schedule.entries import configured
from tasks.schedule.terms import Entry

#: runs that are shown below the entries
RUNS = 30
#: where a line is full: an entry every minute has more moments in two days than anybody looks at
MOST_MOMENTS = 200


def schedule(db: Database, settings: Settings, *, hours: float = 48, search: str = "", limit: int = 50,
             cursor: str | None = None) -> dict[str, Any]:
    """Return a page of entries with their moments of the next `hours`, and the last runs; `search`: a part of a name."""
    now = clock.now()
    end = now + timedelta(hours=hours)
    with db.look() as conn:
        known, rows, zone = configured(conn, settings), rows_of(conn), zone_of(conn)
        runs = lists.runs(conn, limit=RUNS).rows
    behind = "" if cursor is None else paging.decode(cursor, str)[0]
    names = [name for name in sorted(known) if name > behind and search.lower() in name.lower()]
    shown = names[:limit]
    moments: dict[str, list[dict[str, Any]]] = {name: [] for name in shown}
    for one in listing.preview(db, settings, now, end, among=frozenset(shown)):
        moments[one["name"]].append(one)
    entries = [
        one | _beside(known[one["name"]].entry, rows.get(one["name"]), now)
        | {"occurrences": moments[one["name"]][:MOST_MOMENTS], "quiet": quiet_windows(known[one["name"]].entry, now, end)}
        for one in listing.entries(db, settings, among=frozenset(shown))]
    return {"at": iso(now, zone), "zone": zone.key, "from": iso(now, zone), "to": iso(end, zone), "rows": entries,
            "next": paging.encode(shown[-1]) if len(names) > limit else None, "total": paging.count(len(names)),
            "runs": runs}


def _beside(entry: Entry, row: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    stale = row["stale_at"] if row else None
    success = row["last_success_at"] if row else None
    return {"enabled": entry.enabled, "stale": bool(entry.enabled and stale is not None and stale <= now),
            "since_success_sec": None if success is None else round(max(0.0, (now - success).total_seconds()), 1)}


def quiet_windows(entry: Entry, start: datetime, end: datetime) -> list[dict[str, str]]:
    """Return the quiet windows of an entry that touch ``[start, end]``, each ``{"from", "to"}``."""
    found: list[dict[str, str]] = []
    if entry.quiet is None:
        return found
    begins = entry.quiet.start_after(start - timedelta(days=1), entry.zone)
    while begins < end:
        ends = entry.quiet.end_after(begins, entry.zone)
        if ends > start:
            found.append({"from": iso(begins, entry.zone), "to": iso(ends, entry.zone)})
        begins = entry.quiet.start_after(begins + timedelta(minutes=1), entry.zone)
    return found
