"""Workers that live: what they serve and whether they consume."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select

from models.groups import rate_groups
from models.queries.reading import db_moment, iso, rows, seconds
from models.workers import workers as table

#: a lane may be ready for so long before a worker has to have looked
_LOOKS_WITHIN_SEC = 10.0
#: heartbeats that a worker may miss before it counts as gone
_PATIENCE = 3


def workers(conn: Connection) -> list[dict[str, Any]]:
    """Return the workers that have not stopped, by name; `alive` and `consuming` by the database's clock.

    `trouble` is the word in which a worker says why it does not consume, empty if it does or has not said.

    A worker whose last heartbeat is a day old or older is history and left out.
    """
    now = db_moment(conn)
    wanted = (
        select(table)
        .where(table.c.stopped_at.is_(None), table.c.heartbeat_at > now - timedelta(days=1))
        .order_by(table.c.name, table.c.started_at)
    )
    return [
        {
            "name": row["name"], "host": row["host"], "pid": row["pid"], "boot_id": row["boot_id"],
            "pool": row["pool"], "concurrency": row["concurrency"], "lanes": row["lanes"],
            "started_at": iso(row["started_at"]), "heartbeat_at": iso(row["heartbeat_at"]),
            "consuming_at": iso(row["consuming_at"]), "up_for_sec": seconds(row["started_at"], now),
            "alive": is_fresh(row["heartbeat_at"], now, row["heartbeat_sec"]),
            "consuming": not row["trouble"] and is_fresh(row["consuming_at"], now, row["heartbeat_sec"]),
            "trouble": row["trouble"],
        }
        for row in rows(conn, wanted)
    ]


def is_fresh(moment: datetime | None, now: datetime, heartbeat_sec: float) -> bool:
    """Say whether a worker was heard of at `moment` lately enough to count: within three of its heartbeats."""
    return moment is not None and now - moment <= timedelta(seconds=_PATIENCE * heartbeat_sec)


def unserved(conn: Connection, lanes: Sequence[Sequence[str] | None], limit: int = 10) -> list[str]:
    """Return the keys of some groups that are ready and that nobody serves; `lanes` are the patterns of each worker.

    None serves every lane. A group that has just become ready is given the time in which a worker looks.
    """
    if any(patterns is None for patterns in lanes):
        return []
    since = db_moment(conn) - timedelta(seconds=_LOOKS_WITHIN_SEC)
    ready = conn.execute(select(rate_groups.c.key).where(rate_groups.c.ready_at <= since).order_by(
        rate_groups.c.ready_at)).scalars()
    served = [re.compile(pattern) for patterns in lanes for pattern in patterns or ()]
    left = (key for key in ready if not any(pattern.search(key) for pattern in served))
    return list(itertools.islice(left, limit))
