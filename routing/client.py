"""What other Python programs use: submit a crawl, also inside their own transaction, and find it again (rules J1, J3).

No broker is needed. Database and settings are those of the process (``RATELANE_*``).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from config.settings import get_settings
from models import queries
from models.db import get_database
from models.ledger import Submitted
from routing import dispatch


def submit(target_code: str, *, conn: Connection | None = None, **options: Any) -> Submitted:
    """Store a job for `target_code` and return its id, whether it was created, and its group.

    With `conn` it is part of that transaction: on PostgreSQL any SQLAlchemy connection to the same database, on SQLite
    one of ``get_database().write()``. `options` are those of `routing.dispatch.submit`; there is no dedupe key unless
    one is given. Raises BadInput for an unknown target or a value that cannot be; then nothing is stored.
    """
    return dispatch.submit(get_database(), get_settings(), target_code, conn=conn, **options)


def find_active(key: str, *, conn: Connection | None = None) -> dict[str, str] | None:
    """Return ``{"job_id", "status"}`` of the queued or running job with this dedupe key, None if there is none."""
    if conn is not None:
        return queries.find_active(conn, key)
    with get_database().read() as own:
        return queries.find_active(own, key)


def find_latest(key: str, *, limit: int = 20, conn: Connection | None = None) -> list[dict[str, str]]:
    """Return ``{"job_id", "status"}`` of up to `limit` jobs with this dedupe key, newest first, finished ones too."""
    if conn is not None:
        return queries.find_latest(conn, key, limit)
    with get_database().read() as own:
        return queries.find_latest(own, key, limit)


__all__ = ["find_active", "find_latest", "submit"]
