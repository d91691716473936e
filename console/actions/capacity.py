"""Whether the groups' days are long enough for what the schedule asks of them (rule S9)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from config import clock
from config.settings import Settings
from models.db import Database
from models.queries.entries import rows_of
from models.queries.schedule import config_documents
from models.queries.usual import usual_requests


def overload_notes(
    db: Database, settings: Settings, documents: Mapping[str, Mapping[str, Any]] | None = None
) -> list[str]:
    """Return a sentence for each group whose day is shorter than what the schedule asks of it, the worst first.

    It is told from what the last runs asked and the intervals in force, so an entry that never ran says nothing.
    `documents` are those of a file that is not stored; without them what is stored counts.
    """
    now = clock.now()
    with db.look() as conn:
        asked = usual_requests(conn, rows_of(conn), now - timedelta(days=settings.request_log_days))
        documents = config_documents(conn) if documents is None else documents
    if not asked:
        return []
    # the rules of entries bring Celery along: only where something has run does somebody wait for it
    from tasks.schedule.calendar import stat_date
    from tasks.schedule.capacity import Usual, overloads
    from tasks.schedule.entries import configured_by

    usual = [Usual(each.entry, each.group, each.target_code, each.gap_sec, each.requests, each.response_sec)
             for each in asked]
    entries = [each.entry for each in configured_by(documents, settings).values() if each.entry.enabled]
    if not entries:
        return []
    return [each.reason for each in overloads(entries, usual, stat_date(now, entries[0].zone))]
