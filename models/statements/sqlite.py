"""The hot transactions on SQLite: the same steps as in `functions.sql`, statement by statement.

The caller's transaction has begun IMMEDIATE, so this process is alone with the file until it commits; there is nothing
to lock and nothing that moves in between. Times are microseconds, `:now` is one of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from models.base import from_micros, to_micros
from models.claim import Claim, Round, Started, Taker, started_of
from models.statements import running
from models.statements.sqlite_lanes import SECOND, moment, refresh_lanes, served, take_head, take_oldest


def fold(conn: Connection, limit: int, now: datetime | None) -> int:
    """Fold up to `limit` wake rows into their groups; returns how many groups changed. A ready group keeps its moment."""
    present = moment(conn, now)
    rows = conn.exec_driver_sql("SELECT id, group_key, at FROM lane_wake ORDER BY id LIMIT ?", (limit,)).all()
    if not rows:
        return 0
    first: dict[str, int] = {}
    for _, group, at in rows:
        first[group] = min(at, first.get(group, at))
    for group, at in first.items():
        conn.exec_driver_sql(
            "UPDATE rate_groups SET ready_at = CASE WHEN ready_at <= ? THEN ready_at "
            "ELSE min(coalesce(ready_at, ?), ?) END WHERE key = ?", (present, at, at, group))
    conn.exec_driver_sql(
        "DELETE FROM lane_wake WHERE id <= ? AND group_key IN (SELECT key FROM rate_groups)", (rows[-1][0],))
    return len(first)


def claim(
    conn: Connection, *, slots: int, worker: str, boot_id: str, lease_sec: float, lanes: Sequence[str] | None,
    now: datetime | None,
) -> Round:
    """Take the heads of up to `slots` ready groups. `lanes` as on PostgreSQL."""
    at = moment(conn, now)
    filtered = served(lanes)
    keys = [row[0] for row in conn.exec_driver_sql(
        f"SELECT key FROM rate_groups WHERE ready_at <= ?{filtered} ORDER BY ready_at LIMIT ?",
        (at, *(lanes or ()), slots))]
    taken: list[Claim] = []
    for key in keys:
        found = take_head(conn, key, at, worker, boot_id, lease_sec)
        if found is not None:
            taken.append(found)
    refresh_lanes(conn, keys, at)
    first = conn.exec_driver_sql(
        f"SELECT min(ready_at) FROM rate_groups WHERE ready_at IS NOT NULL{filtered}", tuple(lanes or ())).scalar()
    return Round(len(keys), taken, None if first is None else (first - at) / SECOND)

def refresh(conn: Connection, keys: Sequence[str], now: datetime | None) -> int:
    """Recompute when each group may be taken; returns how many changed."""
    return refresh_lanes(conn, keys, moment(conn, now))


def end_frozen(_conn: Connection, _limit_sec: float) -> int:
    """Return 0: a process that is frozen inside a transaction holds up its home (rule D3)."""
    return 0


def lock_groups(_conn: Connection, _keys: Sequence[str]) -> None:
    """Do nothing: the transaction holds the whole file."""


_SETTLE = """
    UPDATE jobs SET status = :status, finished_at = :finished, lease_until = NULL, busy_until = NULL,
        stop_requested = 0, park_requested = 0, updated_at = :now,
        started_at = CASE WHEN :status = 'queued' THEN NULL ELSE started_at END,
        run_after = CASE WHEN :status = 'queued' THEN :run_after ELSE run_after END,
        queue_at = CASE WHEN :to_back THEN :now ELSE queue_at END,
        failures = :failures, recoveries = :recoveries, recoveries_row = :recoveries_row,
        cooldown_retries = :cooldown_retries, cooldown_row = :cooldown_row, deadlines = :deadlines,
        deadlines_row = :deadlines_row, js_challenges = :js_challenges, row_page = :row_page, error_msg = :error,
        result = CASE WHEN :has_result THEN :result ELSE result END,
        outcome = CASE WHEN :status = 'done' THEN :outcome END,
        wait_reason = CASE WHEN :status = 'queued' THEN :wait_reason ELSE '' END,
        last_completed_page = CASE WHEN :restart THEN resume_from_page ELSE last_completed_page END,
        checkpoint = CASE WHEN :restart THEN NULL ELSE checkpoint END, cooldown_seen = NULL,
        last_response_at = coalesce(:responded, last_response_at),
        last_interval_sec = coalesce(:response_interval, last_interval_sec)
    WHERE job_id = :job AND attempt = :attempt AND status = 'running'"""
_SETTLE_ATTEMPT = """
    UPDATE attempts SET finished_at = :now, started_at = :started, outcome = :why, error = :error,
        traceback = :traceback, evidence = :evidence, last_completed_page = :page
    WHERE job_id = :job AND attempt = :attempt"""
_SETTLE_GROUP = """
    UPDATE rate_groups SET last_response_at = nullif(max(
            coalesce(last_response_at, 0), coalesce(:responded, 0), coalesce(:ended, 0)), 0),
        last_interval_sec = coalesce(:gap, last_interval_sec), next_request_at = max(
            coalesce(next_request_at, 0), coalesce(:not_before, 0),
            coalesce(:responded + CAST(max(coalesce(:gap, 0), crawl_delay_sec) * 1000000 AS INTEGER), 0))
    WHERE key IN (:group, :home)"""
_HOME = """
    SELECT group_key FROM sites WHERE site_code = ? AND group_key <> ? AND substr(?, 1, 1) <> '_'"""


def settle(
    conn: Connection, job_id: str, attempt: int, _group: str, writes: dict[str, Any], *, refresh: bool,
    take: Taker | None, now: datetime | None,
) -> tuple[str | None, Claim | None, Started | None]:
    """End a running attempt with `writes`; returns the new state and the lane's next claim, as on PostgreSQL."""
    at = moment(conn, now)
    before = conn.exec_driver_sql(
        "SELECT stop_requested, started_at FROM jobs WHERE job_id = ? AND attempt = ? AND status = 'running' "
        "AND (? IS NULL OR lease_until <= ?)", (job_id, attempt, *[_given(writes, "lease_was")] * 2)).first()
    if before is None:
        return None, None, None
    conn.exec_driver_sql(_SETTLE, _settling(job_id, attempt, writes, at, bool(before.stop_requested)))
    row = conn.exec_driver_sql(
        "SELECT status, group_key, site_code, run_after, last_completed_page, last_response_at, last_interval_sec "
        "FROM jobs WHERE job_id = ?", (job_id,)).one()
    evidence = writes.get("evidence")
    conn.exec_driver_sql(_SETTLE_ATTEMPT, {
        "now": _given(writes, "ended_at") or at, "started": before.started_at,
        "why": "cancelled" if row.status == "cancelled" else writes["why"],
        "error": writes["error"], "traceback": writes["traceback"], "page": row.last_completed_page,
        "evidence": None if evidence is None else json.dumps(evidence, ensure_ascii=False), "job": job_id,
        "attempt": attempt})
    _settle_group(conn, job_id, row, writes, at)
    if refresh:
        refresh_lanes(conn, [row.group_key], at)
    following = None if take is None else take_oldest(conn, at, take)
    return str(row.status), following, None if take is None or following is None else _begin(conn, following, take, at)


def _begin(conn: Connection, claim: Claim, take: Taker, at: int) -> Started | None:
    """Write that the body of a job that was taken just now begins, at the same moment, if the taker wants it to."""
    if take.busy_sec is None:
        return None
    row = conn.execute(running.FOLLOW, {
        "b_job": claim.job_id, "b_attempt": claim.attempt, "b_busy": take.busy_sec, "p_now": from_micros(at)}).one()
    return started_of(claim, row)


def _settle_group(conn: Connection, job_id: str, row: Any, writes: dict[str, Any], at: int) -> None:
    # a site that moved meanwhile takes its job, and the pace of its hosts, along into its present group (rule R2)
    home = conn.exec_driver_sql(_HOME, (row.site_code, row.group_key, row.group_key)).scalar()
    if home is not None and row.status == "queued":
        conn.exec_driver_sql("UPDATE jobs SET group_key = ? WHERE job_id = ?", (home, job_id))
        conn.exec_driver_sql("INSERT INTO lane_wake (group_key, at) VALUES (?, ?)", (home, row.run_after or at))
    # the lane was occupied until now: what was folded meanwhile makes it no older than the others (rule R5)
    conn.exec_driver_sql("UPDATE rate_groups SET ready_at = NULL WHERE key = ? AND ready_at IS NOT NULL",
                         (row.group_key,))
    not_before = _given(writes, "not_before")
    # a lost attempt may have had a response until its recorded end: the next target's own interval counts from there
    ended = None if not_before is None else _given(writes, "ended_at")
    if row.last_response_at is not None or not_before is not None:
        conn.exec_driver_sql(_SETTLE_GROUP, {
            "responded": row.last_response_at, "gap": row.last_interval_sec, "not_before": not_before, "ended": ended,
            "group": row.group_key, "home": home})


def _given(writes: dict[str, Any], name: str) -> int | None:
    text = writes.get(name)
    return None if text is None else to_micros(datetime.fromisoformat(text))


def _settling(job_id: str, attempt: int, writes: dict[str, Any], at: int, stop: bool) -> dict[str, Any]:
    # a stop request wins over going on (rule C6); a body that returned first is done (rule J10)
    cancelled = stop and writes["status"] == "queued"
    status = "cancelled" if cancelled else writes["status"]
    age, result, delay = writes.get("response_age"), writes.get("result"), writes.get("delay")
    return {
        **{name: writes[name] for name in (
            "failures", "recoveries", "recoveries_row", "cooldown_retries", "cooldown_row", "deadlines",
            "deadlines_row", "js_challenges", "row_page", "wait_reason", "restart", "to_back")},
        "status": status, "finished": None if status == "queued" else at, "now": at,
        "run_after": None if delay is None else at + int(delay * SECOND),
        "error": "cancelled" if cancelled else writes["error"], "has_result": "result" in writes,
        "result": None if result is None else json.dumps(result, ensure_ascii=False), "outcome": writes.get("outcome"),
        "responded": None if age is None else at - int(age * SECOND),
        "response_interval": writes.get("response_interval"), "job": job_id, "attempt": attempt}


def renew(
    conn: Connection, pairs: Sequence[tuple[str, int]], *, lease_sec: float, stall_sec: float, now: datetime | None
) -> list[tuple[str, int, str, float, bool]]:
    """Renew the leases of `pairs`; rows as on PostgreSQL (nothing is ever ``locked`` here)."""
    at = moment(conn, now)
    answers: list[tuple[str, int, str, float, bool]] = []
    for job, attempt in pairs:
        row = conn.exec_driver_sql(
            "SELECT busy_until, started_at, lease_until FROM jobs WHERE job_id = ? AND attempt = ? "
            "AND status = 'running'", (job, attempt)).first()
        if row is None:
            answers.append((job, attempt, "lost", 0.0, False))
        elif row.busy_until is not None and row.busy_until + int(stall_sec * SECOND) <= at:
            answers.append((job, attempt, "stalled", (row.lease_until - at) / SECOND, True))
        else:
            conn.exec_driver_sql("UPDATE jobs SET lease_until = ? WHERE job_id = ?", (at + int(lease_sec * SECOND), job))
            answers.append((job, attempt, "renewed", lease_sec, row.started_at is not None))
    return answers
