"""Lanes as documents: every group that has work or a pause (rule R10), and what a live display needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, case, func, or_, select

from config.moments import is_endless
from models.groups import rate_groups
from models.jobs import jobs
from models.queries.catalogue import in_force
from models.queries.jobs import counts, lane_order, progress
from models.queries.reading import db_moment, iso, rows, seconds
from models.sites import sites, targets


class Pause(NamedTuple):
    """The pause of a group that holds longest: `until` is None if it is endless, `kind` if there is none."""

    until: datetime | None = None
    kind: str | None = None
    reason: str | None = None


def pause_of(group: Mapping[str, Any] | None, now: datetime) -> Pause:
    """Return which pause of a group's row is in force at `now`: the later of operator's and cooldown's (rule R9)."""
    if group is None:
        return Pause()
    both = [
        (group["operator_pause_until"], "operator", group["operator_pause_reason"]),
        (group["pause_until"], "cooldown", group["pause_reason"]),
    ]
    held = [one for one in both if one[0] is not None and one[0] > now]
    if not held:
        return Pause()
    until, kind, reason = max(held, key=lambda one: one[0])
    return Pause(None if is_endless(until) else until, kind, reason)


class _Lanes(NamedTuple):
    """Everything that lane documents are made of, keyed by group."""

    now: datetime
    groups: dict[str, Mapping[str, Any]]
    running: dict[str, Mapping[str, Any]]
    next_up: dict[str, Mapping[str, Any]]
    queued: dict[str, int]


def lanes(conn: Connection) -> list[dict[str, Any]]:
    """Return a document for each group that has work or a pause, sorted by its key (rule R10)."""
    found = _read(conn)
    names = sorted({*found.queued, *found.running, *found.groups})
    members = _site_codes(conn)
    intervals = _intervals(conn, [*found.running.values(), *found.next_up.values()])
    return [_lane_document(name, found, members[name], intervals) for name in names]


def live(conn: Connection) -> dict[str, Any]:
    """Return what a live display needs: the lanes whose job runs, is paused or waits for its time, and counts.

    `paused_for_sec` (None without a pause and for an endless one) and `due_in_sec` (None if the next job is due) are
    counted by the database's clock.
    """
    found = _read(conn)
    busy = [name for name in {*found.running, *found.queued} if name in found.running or _is_held(name, found)]
    return {"lanes": [_live_document(name, found) for name in sorted(busy)], "counts": counts(conn)}


def _is_held(name: str, found: _Lanes) -> bool:
    return pause_of(found.groups.get(name), found.now).kind is not None or _not_before(name, found) is not None


def _not_before(name: str, found: _Lanes) -> datetime | None:
    """The moment at which the next job of a lane in which nothing runs is due, None if it is."""
    due = None if name in found.running else found.next_up.get(name, {}).get("run_after")
    return due if due is not None and due > found.now else None


def _read(conn: Connection) -> _Lanes:
    now = db_moment(conn)
    queued = conn.execute(
        select(jobs.c.group_key, func.count()).where(jobs.c.status == "queued").group_by(jobs.c.group_key)
    )
    paused = or_(rate_groups.c.pause_until > now, rate_groups.c.operator_pause_until > now)
    working = rate_groups.c.key.in_(select(jobs.c.group_key).where(jobs.c.status.in_(("queued", "running"))))
    return _Lanes(
        now=now,
        groups={row["key"]: row for row in rows(conn, select(rate_groups).where(or_(paused, working)))},
        running={row["group_key"]: row for row in rows(conn, select(jobs).where(jobs.c.status == "running"))},
        next_up={row["group_key"]: row for row in rows(conn, _heads(now))},
        queued=dict(queued.all()),
    )


def _heads(now: datetime) -> Select[Any]:
    """The first queued job of each group in lane order; one that is not due does not stand before one that is (R4)."""
    later = case((jobs.c.run_after > now, jobs.c.run_after), else_=None)
    place = func.row_number().over(
        partition_by=jobs.c.group_key, order_by=(later.is_not(None), later, *lane_order())
    )
    ranked = select(jobs.c.seq, place.label("place")).where(jobs.c.status == "queued").subquery()
    return select(jobs).join(ranked, ranked.c.seq == jobs.c.seq).where(ranked.c.place == 1)


def _site_codes(conn: Connection) -> dict[str, list[str]]:
    members: dict[str, list[str]] = defaultdict(list)
    for group, site in conn.execute(select(sites.c.group_key, sites.c.site_code)).all():
        members[group].append(site)
    return defaultdict(list, {group: sorted(codes) for group, codes in members.items()})


def _intervals(conn: Connection, shown: list[Mapping[str, Any]]) -> dict[str, float]:
    if not any(row["target_code"] for row in shown):
        return {}
    wanted = select(targets.c.target_code, targets.c.interval_sec, targets.c.grown_interval_sec)
    return {row["target_code"]: in_force(row) for row in rows(conn, wanted)}


def _lane_document(
    name: str, found: _Lanes, site_codes: list[str], intervals: Mapping[str, float]
) -> dict[str, Any]:
    group, running, next_up = found.groups.get(name), found.running.get(name) or {}, found.next_up.get(name) or {}
    pause = pause_of(group, found.now)
    return {
        "group": name,
        "site_codes": site_codes,
        "site_code": running.get("site_code") or (site_codes[0] if site_codes else None),
        "running_job_id": running.get("job_id"),
        "running_target": running.get("target_code"),
        "running_site": running.get("site_code"),
        "running_for_sec": seconds(running.get("started_at") or running.get("claimed_at"), found.now),
        "queued_count": found.queued.get(name, 0),
        "next_queued_target": next_up.get("target_code"),
        "next_queued_site": next_up.get("site_code"),
        "paused_until": iso(pause.until),
        "pause_kind": pause.kind,
        "pause_reason": pause.reason,
        "cooldown_level": group["cooldown_level"] if group else 0,
        "interval_sec": _interval_of(group, running or next_up, intervals),
        "worker": running.get("worker"),
        "lease_until": iso(running.get("lease_until")),
    }


def _interval_of(
    group: Mapping[str, Any] | None, job: Mapping[str, Any], intervals: Mapping[str, float]
) -> float | None:
    """The gap of the job that runs or comes next, never below the host's crawl-delay (rule R8)."""
    of_target = intervals.get(job.get("target_code") or "")
    asked = of_target if of_target is not None else (group["last_interval_sec"] if group else None)
    delay = group["crawl_delay_sec"] if group else 0.0
    return max(asked, delay) if asked is not None else (delay or None)


def _live_document(name: str, found: _Lanes) -> dict[str, Any]:
    running = found.running.get(name)
    job = running or found.next_up.get(name) or {}
    pause = pause_of(found.groups.get(name), found.now)
    done = progress(job.get("progress"))
    return {
        "group": name,
        "job_id": job.get("job_id"),
        "target": job.get("target_code") or job.get("kind"),
        "site": job.get("site_code"),
        "running": running is not None,
        "running_for_sec": seconds(running["started_at"] or running["claimed_at"], found.now) if running else None,
        "page": max(done["page"] or 0, job.get("current_page") or 0),
        **{key: done[key] for key in ("pages_total", "items_new", "items_known", "items_failed", "rate")},
        "queued_count": found.queued.get(name, 0),
        "due_in_sec": seconds(found.now, _not_before(name, found)),
        "wait_reason": "" if running else job.get("wait_reason") or "",
        "paused_for_sec": seconds(found.now, pause.until),
        "pause_kind": pause.kind,
        "pause_reason": pause.reason,
    }
