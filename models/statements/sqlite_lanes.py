"""Lanes on SQLite: when each may be taken, and taking the head of one; inside the transactions of `sqlite`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from models.base import to_micros
from models.claim import Claim, Taker

SECOND = 1_000_000

_BUSY_SITE = "EXISTS (SELECT 1 FROM jobs r WHERE r.site_code = j.site_code AND r.status = 'running')"
# inside its quiet window a job is not taken (rule S6)
_OPEN = "(j.hold_from IS NULL OR :now < j.hold_from OR :now >= j.hold_until)"
_DUE = f"""
    FROM jobs j {{}} WHERE j.group_key = :key AND j.status = 'queued' AND (j.run_after IS NULL OR j.run_after <= :now)
      AND (j.expires_at IS NULL OR j.expires_at > :now) AND {_OPEN}"""
_TAKEABLE = f"""
    SELECT j.job_id, j.attempt, j.site_code, j.kind, j.target_code, j.source, j.wait_reason, j.last_completed_page
    {_DUE.format("LEFT JOIN sites s ON s.site_code = j.site_code")}
      AND (s.group_key IS NULL OR s.group_key = j.group_key) AND NOT {_BUSY_SITE}
    ORDER BY j.priority, j.queue_at, j.seq LIMIT 1"""
_ANY_DUE = f"SELECT 1 {_DUE.format('')} LIMIT 1"
# what is due is inside its quiet window: the lane opens with its end, or when another job comes due
_OPENS = """
    SELECT min(CASE WHEN j.hold_from <= :now AND j.hold_until > :now THEN max(coalesce(j.run_after, 0), j.hold_until)
                    ELSE j.run_after END)
    FROM jobs j WHERE j.group_key = :key AND j.status = 'queued' AND (j.expires_at IS NULL OR j.expires_at > :now)"""
_ELSEWHERE = """
    SELECT 1 FROM sites s JOIN jobs r ON r.site_code = s.site_code AND r.status = 'running' WHERE s.group_key = ?"""
_RUNNING = "SELECT 1 FROM jobs WHERE group_key = ? AND status = 'running'"
_GROUP = """
    SELECT ready_at, next_request_at, pause_until, operator_pause_until,
        (SELECT operator_pause_until FROM fleet WHERE id = 1) AS fleet_pause_until
    FROM rate_groups WHERE key = ?"""
# without the name of the index SQLite reads the queued jobs of all groups
_FIRST = """
    SELECT CASE WHEN EXISTS (SELECT 1 FROM jobs INDEXED BY ix_jobs_due
        WHERE group_key = :key AND status = 'queued' AND run_after IS NULL)
    THEN 0 ELSE (SELECT run_after FROM jobs WHERE group_key = :key AND status = 'queued' ORDER BY run_after LIMIT 1) END"""
_TAKE = """
    UPDATE jobs SET status = 'running', attempt = attempt + 1, claim_no = :claim_no, worker = :worker, boot_id = :boot,
        claimed_at = :now, started_at = NULL, updated_at = :now, busy_until = NULL, park_requested = 0,
        lease_until = :now + :lease, last_response_at = NULL
    WHERE job_id = :job AND status = 'queued'"""
_LOG = """
    INSERT INTO attempts (job_id, attempt, group_key, site_code, worker, boot_id, source, claimed_at, from_page,
                          last_completed_page)
    VALUES (:job, :attempt, :group, :site, :worker, :boot, :source, :now, :page, :page)"""

def moment(conn: Connection, now: datetime | None) -> int:
    """Return `now` (or the clock's time) in microseconds."""
    return to_micros(now) if now is not None else int(conn.exec_driver_sql("SELECT rl_now()").scalar_one())


def take_oldest(conn: Connection, at: int, take: Taker) -> Claim | None:
    """Take the head of the group that has been ready longest, unless a fold has to come first (rule R5)."""
    if conn.exec_driver_sql("SELECT 1 FROM lane_wake WHERE at <= ? LIMIT 1", (at,)).first():
        return None
    key = conn.exec_driver_sql(
        f"SELECT key FROM rate_groups WHERE ready_at <= ?{served(take.lanes)} ORDER BY ready_at LIMIT 1",
        (at, *(take.lanes or ()))).scalar()
    if key is None:
        return None
    found = take_head(conn, key, at, take.worker, take.boot_id, take.lease_sec)
    if found is None:
        refresh_lanes(conn, [key], at)
    return found


def served(lanes: Sequence[str] | None) -> str:
    """Return the condition on `key` for the lanes that a worker serves; each pattern is one parameter."""
    return "" if lanes is None else f" AND ({' OR '.join(['rl_match(?, key)'] * len(lanes)) or '0'})"


def take_head(conn: Connection, key: str, at: int, worker: str, boot_id: str, lease_sec: float) -> Claim | None:
    """Take what comes first in a lane; None if it is closed, occupied or nothing in it may be taken."""
    gates = conn.exec_driver_sql(_GROUP, (key,)).one()
    if any(gate is not None and gate > at for gate in gates[1:]) or conn.exec_driver_sql(_RUNNING, (key,)).first():
        return None
    head = _head(conn, key, at)
    if head is None:
        return None
    number = conn.exec_driver_sql(
        "UPDATE rate_groups SET claim_no = claim_no + 1, ready_at = NULL WHERE key = ? RETURNING claim_no", (key,)
    ).scalar_one()
    facts = {"claim_no": number, "worker": worker, "boot": boot_id, "now": at, "lease": int(lease_sec * SECOND),
             "job": head.job_id}
    conn.exec_driver_sql(_TAKE, facts)
    source = "retry" if head.wait_reason == "cooldown" else head.source
    conn.exec_driver_sql(_LOG, facts | {"attempt": head.attempt + 1, "group": key, "site": head.site_code,
                                        "source": source, "page": head.last_completed_page})
    return Claim(head.job_id, head.attempt + 1, number, key, head.kind, head.target_code)


def _head(conn: Connection, key: str, at: int) -> Any:
    # asked only of groups without a running job: one of their sites that runs does so where it came from (rule R2)
    if conn.exec_driver_sql(_ELSEWHERE, (key,)).first() is not None:
        return None
    return conn.exec_driver_sql(_TAKEABLE, {"key": key, "now": at}).first()

def refresh_lanes(conn: Connection, keys: Sequence[str], at: int) -> int:
    """Recompute when each of these lanes may be taken; returns how many changed."""
    changed = 0
    for key in keys:
        row = conn.exec_driver_sql(_GROUP, (key,)).first()
        if row is None:
            continue
        ready = _ready(conn, key, row, at)
        if ready != row.ready_at:
            conn.exec_driver_sql("UPDATE rate_groups SET ready_at = ? WHERE key = ?", (ready, key))
            changed += 1
    return changed


def _ready(conn: Connection, key: str, row: Any, at: int) -> int | None:
    if conn.exec_driver_sql(_RUNNING, (key,)).first():
        return None
    first = conn.exec_driver_sql(_FIRST, {"key": key}).scalar()
    if first is None:
        return None
    earliest = max(gate for gate in (first, *row[1:]) if gate is not None)
    if earliest > at:
        return int(earliest)
    if _head(conn, key, at) is None:
        return _opens(conn, key, at)
    return int(row.ready_at) if row.ready_at is not None and row.ready_at <= at else at


def _opens(conn: Connection, key: str, at: int) -> int:
    facts = {"key": key, "now": at}
    if conn.exec_driver_sql(_ANY_DUE, facts).first() is None:
        opens = conn.exec_driver_sql(_OPENS, facts).scalar()
        if opens is not None and opens > at:
            return int(opens)
    # a busy site, or what has expired, tells nobody when it is over
    return at + SECOND
