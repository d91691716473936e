"""Storing the jobs of runs, set-based: ten thousand in a few statements, and no group is locked (rule S8)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from models.base import to_micros

#: the fields of a job to store, as they stand in the parameter, with their types on PostgreSQL
FIELDS = {
    "job_id": "text", "run_id": "bigint", "kind": "text", "site_code": "text", "target_code": "text",
    "group_key": "text", "priority": "integer", "dedupe_key": "text", "force": "boolean", "options": "jsonb",
    "max_attempts": "integer", "deadline_sec": "double precision", "hold_from": "double precision",
    "hold_until": "double precision", "expires_sec": "double precision",
}
_STORED = [name for name in FIELDS if not name.startswith(("hold_", "expires_"))]
_COLUMNS = ", ".join([*_STORED, "status", "source", "enqueued_at", "queue_at", "updated_at", "hold_from", "hold_until",
                      "expires_at"])
# in the order of the keys, so that two who store many jobs wait for each other at most; nobody waits the other way round
_POSTGRES_ROWS = f"json_to_recordset(%s::json) AS r({', '.join(f'{name} {kind}' for name, kind in FIELDS.items())})"
_POSTGRES_INSERT = f"""
    INSERT INTO jobs ({_COLUMNS})
    SELECT {', '.join(f'r.{name}' for name in _STORED)}, 'queued', 'schedule', n.now, n.now, n.now,
        n.now + make_interval(secs => r.hold_from), n.now + make_interval(secs => r.hold_until),
        n.now + make_interval(secs => r.expires_sec)
    FROM {_POSTGRES_ROWS}, (SELECT coalesce(%s::timestamptz, clock_timestamp()) AS now) n
    ORDER BY r.dedupe_key ON CONFLICT DO NOTHING"""
_FIELD = "json_extract(e.value, '$.{0}') AS {0}"
_SQLITE_ROWS = f"(SELECT {', '.join(_FIELD.format(name) for name in FIELDS)} FROM json_each(?) e) r"
_SQLITE_INSERT = f"""
    INSERT INTO jobs ({_COLUMNS})
    SELECT {', '.join(f'r.{name}' for name in _STORED)}, 'queued', 'schedule', n.now, n.now, n.now,
        n.now + CAST(r.hold_from * 1000000 AS INTEGER), n.now + CAST(r.hold_until * 1000000 AS INTEGER),
        n.now + CAST(r.expires_sec * 1000000 AS INTEGER)
    FROM {_SQLITE_ROWS}, (SELECT coalesce(?, rl_now()) AS now) n
    WHERE true ORDER BY r.dedupe_key ON CONFLICT DO NOTHING"""
# CROSS JOIN: SQLite then reads the rows once and looks each job up, instead of reading the document for every job
_COUNT = """
    INSERT INTO run_job (run_id, job_id, target_code, site_code)
    SELECT r.run_id, j.job_id, r.target_code, r.site_code
    FROM {rows} CROSS JOIN jobs j
    WHERE j.dedupe_key = r.dedupe_key AND j.status IN ('queued', 'running') AND {answers}
    ON CONFLICT DO NOTHING"""
# a walk for another stat date answers for nothing, nor does one that leaves bodies unread for a run that reads all
_ANSWERS = {
    "postgresql": """(j.options ->> 'snapshot') IS NOT DISTINCT FROM (r.options ->> 'snapshot')
        AND ((r.options ->> 'refetch') IS DISTINCT FROM 'true' OR (j.options ->> 'refetch') = 'true')""",
    "sqlite": """json_extract(j.options, '$.snapshot') IS json_extract(r.options, '$.snapshot')
        AND (json_extract(r.options, '$.refetch') IS NOT 1 OR json_extract(j.options, '$.refetch') IS 1)""",
}
_WAKE = """
    INSERT INTO lane_wake (group_key, at)
    SELECT DISTINCT r.group_key, n.now FROM {rows} CROSS JOIN (SELECT {now} AS now) n CROSS JOIN jobs j
    WHERE j.job_id = r.job_id ORDER BY r.group_key"""
_UNANSWERED = """
    SELECT r.dedupe_key FROM {rows} WHERE NOT EXISTS (
        SELECT 1 FROM run_job c JOIN jobs j ON j.job_id = c.job_id
        WHERE c.run_id = r.run_id AND j.dedupe_key = r.dedupe_key)"""


def insert_jobs(conn: Connection, rows: Sequence[dict[str, Any]], now: datetime | None) -> int:
    """Store a queued job for each row (the keys of `FIELDS`; holds and expiry in seconds from now); returns how many are new.

    A row whose dedupe key is active stores nothing. Call `count_jobs` in a later statement.
    """
    statement = _POSTGRES_INSERT if _is_postgresql(conn) else _SQLITE_INSERT
    return conn.exec_driver_sql(statement, (_document(rows), _moment(conn, now))).rowcount


def count_jobs(conn: Connection, rows: Sequence[dict[str, Any]]) -> int:
    """Write which active job answers for each row in its run; returns how many were found.

    Of a job that takes a snapshot only one for the same stat date does, and for a run that reads every body only one that
    reads them too.
    """
    statement = _COUNT.format(rows=_rows(conn), answers=_ANSWERS[conn.dialect.name])
    return conn.exec_driver_sql(statement, (_document(rows),)).rowcount


def unanswered(conn: Connection, rows: Sequence[dict[str, Any]]) -> set[str]:
    """Return the keys of the rows that no job answers for: the one that was active has ended meanwhile, or does not."""
    found = conn.exec_driver_sql(_UNANSWERED.format(rows=_rows(conn)), (_document(rows),))
    return {key for (key,) in found}


def wake_lanes(conn: Connection, rows: Sequence[dict[str, Any]], now: datetime | None) -> None:
    """Leave word in the lanes of those rows that became jobs, in key order."""
    clock = "coalesce(%s::timestamptz, clock_timestamp())" if _is_postgresql(conn) else "coalesce(?, rl_now())"
    statement = _WAKE.format(rows=_rows(conn), now=clock)
    conn.exec_driver_sql(statement, (_document(rows), _moment(conn, now)))


def _is_postgresql(conn: Connection) -> bool:
    return conn.dialect.name == "postgresql"


def _rows(conn: Connection) -> str:
    return _POSTGRES_ROWS if _is_postgresql(conn) else _SQLITE_ROWS


def _moment(conn: Connection, now: datetime | None) -> Any:
    return now if now is None or _is_postgresql(conn) else to_micros(now)


def _document(rows: Sequence[dict[str, Any]]) -> str:
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
