"""The hot transactions on PostgreSQL: one call of a stored function each (`functions.sql`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection

from models.claim import Claim, Round, Started, Taker, started_of

_CLAIM = "SELECT * FROM rl_claim_v3(%s, %s, %s, %s, %s::text[], %s::timestamptz)"
_FOLD = "SELECT rl_fold_v1(%s, %s::timestamptz)"
_REFRESH = "SELECT rl_refresh_v3(%s::text[], coalesce(%s::timestamptz, clock_timestamp()))"
_RENEW = "SELECT * FROM rl_renew_v1(%s::text[], %s::integer[], %s, %s, %s::timestamptz)"
_SETTLE = "SELECT * FROM rl_settle_v4(%s, %s, %s, %s::jsonb, %s, %s, %s, %s, %s::text[], %s, %s::timestamptz)"
_NOBODY = (None,) * len(Taker._fields)
#: sessions of ours that stand in a transaction for longer than they may: the server's own timer was seen to miss one
_END_FROZEN = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND application_name LIKE %s
      AND state LIKE 'idle in transaction%%' AND pid <> pg_backend_pid()
      AND state_change < clock_timestamp() - make_interval(secs => %s)"""
_LOCK_GROUP = "SELECT key FROM rate_groups WHERE key = ANY(%s::text[]) ORDER BY key FOR NO KEY UPDATE"


def fold(conn: Connection, limit: int, now: datetime | None) -> int:
    """Fold up to `limit` wake rows into their groups; returns how many groups changed."""
    return int(conn.exec_driver_sql(_FOLD, (limit, now)).scalar_one())


def claim(
    conn: Connection, *, slots: int, worker: str, boot_id: str, lease_sec: float, lanes: Sequence[str] | None,
    now: datetime | None,
) -> Round:
    """Take the heads of up to `slots` ready groups.

    `lanes` are regular expressions of the group keys that this worker serves, None for all.
    """
    rows = conn.exec_driver_sql(
        _CLAIM, (slots, worker, boot_id, lease_sec, list(lanes) if lanes is not None else None, now)
    ).all()
    claims = [Claim(job, attempt, number, group, kind, target)
              for _, job, attempt, number, group, kind, target, _ in rows if job is not None]
    return Round(rows[-1][0], claims, rows[-1][-1])


def settle(
    conn: Connection, job_id: str, attempt: int, group: str, writes: dict[str, Any], *, refresh: bool,
    take: Taker | None, now: datetime | None,
) -> tuple[str | None, Claim | None, Started | None]:
    """End a running attempt with `writes` (see `ledger.writes_of`); returns the new state, None if it is stale.

    With `take` the head of the group that has been ready longest is claimed in the same transaction; it is the second
    value. The third is what its body starts with, if it has begun there as well.
    """
    document = json.dumps(writes, ensure_ascii=False)
    status, job, number, claim_no, key, kind, target, begun = conn.exec_driver_sql(
        _SETTLE, (job_id, attempt, group, document, refresh, *(take or _NOBODY), now)).one()
    if job is None:
        return status, None, None
    claim = Claim(job, number, claim_no, key, kind, target)
    row = None if begun is None else SimpleNamespace(job_id=job, attempt=number, **begun)
    return status, claim, None if row is None else started_of(claim, row)


def refresh(conn: Connection, keys: Sequence[str], now: datetime | None) -> int:
    """Recompute when each of the locked groups may be taken; returns how many changed."""
    return int(conn.exec_driver_sql(_REFRESH, (list(keys), now)).scalar_one())


def lock_groups(conn: Connection, keys: Sequence[str]) -> None:
    """Lock group rows, in key order, until the transaction ends."""
    conn.exec_driver_sql(_LOCK_GROUP, (list(keys),)).all()


def end_frozen(conn: Connection, limit_sec: float, name: str = "ratelane%") -> int:
    """End sessions of ours that have stood idle in a transaction for longer than `limit_sec`; returns how many.

    `name` is a pattern of how they call themselves; without one it is all of ours.
    A process that is frozen inside a transaction must not hold a lane (design, section 3).
    """
    return int(conn.exec_driver_sql(_END_FROZEN, (name, limit_sec)).scalar_one())


def renew(
    conn: Connection, pairs: Sequence[tuple[str, int]], *, lease_sec: float, stall_sec: float, now: datetime | None
) -> list[tuple[str, int, str, float, bool]]:
    """Renew the leases of `pairs`; a row (job, attempt, answer, remaining seconds, started) for each.

    The answer is ``renewed``, ``locked`` (still mine, ask again soon), ``stalled`` (the body has been silent for too
    long) or ``lost``.
    """
    rows = conn.exec_driver_sql(
        _RENEW, ([job for job, _ in pairs], [attempt for _, attempt in pairs], lease_sec, stall_sec, now)
    ).all()
    return [(job, attempt, answer, float(remaining or 0.0), started) for job, attempt, answer, remaining, started in rows]
