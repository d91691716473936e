"""The jobs of a run: stored set-based with it, taken over from another one, kept out of quiet windows (rules S6 to S8).

Every function takes part in the caller's transaction. Moments of jobs are the database's clock: they come as seconds
from now.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select

from config.probes import probe
from models.agenda.fan import FanOut
from models.statements import fanout, queueing, schedules

#: how often a job that ended between two statements is submitted again within one fan-out
_ROUNDS = 5


class Hold(NamedTuple):
    """The next quiet window of a job: its start and end in seconds from now."""

    from_sec: float
    until_sec: float


@dataclass(frozen=True)
class Launch:
    """A run that has its row, and the jobs that it is to have. `closes` is the run that it takes over from."""

    run_id: int
    fan: FanOut
    priority: int
    force: bool
    max_attempts: int
    hold: Hold | None = None
    closes: int | None = None
    #: running jobs of the closed run answer for nothing here, because that worked for another stat date or this one
    #: begins everything anew: they end for its date, such as ``2026-05-01``
    apart: str | None = None


def launch(conn: Connection, launches: Sequence[Launch], now: datetime | None = None) -> dict[int, int]:
    """Store the jobs of runs and which jobs they count; returns the number of targets by run (rule S8).

    Set-based, and no group is locked. A job whose dedupe key is active answers instead of a new one, but never for another
    stat date: then the new one has a key of its own and waits for its turn in the lane. `now` is for tests: None leaves the
    time to the database.
    """
    at = {} if now is None else {"p_now": now}
    rows: list[dict[str, Any]] = []
    totals: dict[int, int] = {}
    for each in launches:
        mine = _rows(conn, each)
        totals[each.run_id] = len(mine)
        if each.closes is not None:
            _take_over(conn, each, each.closes, at)
        rows += mine
    _store(conn, rows, now)
    if totals:
        conn.execute(schedules.SET_TOTAL, [{"b_run": run_id, "b_total": total} for run_id, total in totals.items()])
    return totals


def _store(conn: Connection, rows: list[dict[str, Any]], now: datetime | None) -> None:
    tried: list[dict[str, Any]] = []
    new, left = 0, rows
    for number in range(1, _ROUNDS + 1):
        if not left:
            break
        tried += left
        new += fanout.insert_jobs(conn, left, now)
        probe("jobs_stored")
        if fanout.count_jobs(conn, left) == len(left):
            break
        # counted before (re-pointed); or the job that had the key has ended since, then there is room for a new one; or it
        # does not answer, then the new one stands behind it in the lane
        missing = fanout.unanswered(conn, left)
        left = [_another(row, last=number + 1 == _ROUNDS) for row in left if row["dedupe_key"] in missing]
    if new:
        fanout.wake_lanes(conn, tried, now)
        queueing.notify(conn)


def _another(row: dict[str, Any], *, last: bool) -> dict[str, Any]:
    """Return a job with another id, and a key of its own: its stat date's, and at the `last` round one that nobody has."""
    job_id, key, options = secrets.token_hex(6), str(row["dedupe_key"]), row["options"] or {}
    day = options.get("snapshot")
    own = f":{day}:force" if options.get("refetch") else f":{day}"
    if last:
        key += f":{job_id}"
    elif day is not None and not key.endswith(own):
        key += own
    return {**row, "job_id": job_id, "dedupe_key": key}


def _rows(conn: Connection, launch: Launch) -> list[dict[str, Any]]:
    """Return the jobs of a run as rows, one a dedupe key."""
    fan, found = launch.fan, {}
    hold = launch.hold if fan.holds else None
    for one in _chosen(conn, fan):
        key = fan.key.format(target=one.target_code, site=one.site_code)
        found[key] = {
            "job_id": secrets.token_hex(6), "run_id": launch.run_id, "kind": fan.kind, "site_code": one.site_code,
            "target_code": one.target_code, "group_key": one.group_key, "dedupe_key": key,
            "priority": launch.priority if fan.priority is None else fan.priority,
            "force": launch.force if fan.force is None else fan.force,
            "options": None if fan.options is None else dict(fan.options),
            "max_attempts": fan.max_attempts or launch.max_attempts, "deadline_sec": fan.deadline_sec,
            "expires_sec": fan.expires_sec,
            "hold_from": hold and hold.from_sec, "hold_until": hold and hold.until_sec}
    return list(found.values())


def _chosen(conn: Connection, fan: FanOut) -> Sequence[Any]:
    if isinstance(fan.among, Select):
        return conn.execute(fan.among).all()
    return fan.among


def _take_over(conn: Connection, launch: Launch, old: int, at: dict[str, Any]) -> None:
    """Make the queued jobs of the closed run those of the new one; where both are apart, running jobs end for the old one.

    Queued ones then begin anew. Otherwise what they were to do stays: a walk that was to read everything still does.
    """
    fan = launch.fan
    values = {"options": None if fan.options is None else dict(fan.options),
              "priority": launch.priority if fan.priority is None else fan.priority,
              "force": launch.force if fan.force is None else fan.force}
    moved = schedules.repoint(old, launch.run_id, values, restart=launch.apart is not None)
    ids = list(conn.execute(moved, at).scalars())
    schedules.count_in(conn, launch.run_id, old, ids)
    if launch.apart is not None:
        conn.execute(schedules.leave_key(old, f":{launch.apart}"), at)


def held_past(conn: Connection, limit: int) -> dict[str, list[str]]:
    """Return the jobs whose quiet window is over, by the entry of their run."""
    found: dict[str, list[str]] = {}
    for job_id, entry in schedules.held_past(conn, limit):
        found.setdefault(entry, []).append(job_id)
    return found


def move_hold(conn: Connection, job_ids: Sequence[str], hold: Hold | None) -> int:
    """Give jobs whose quiet window is over their next one (None: they have none any more); returns how many."""
    return conn.execute(schedules.move_hold(job_ids, *(hold or (None, None)))).rowcount
