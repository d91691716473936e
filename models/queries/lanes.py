"""Lanes as documents: every group that has work or a pause (rule R10), and what a live display needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, or_, select

from config.moments import is_endless
from models.groups import fleet, rate_groups
from models.jobs import IS_ACTIVE, IS_QUEUED, IS_RUNNING, jobs
from models.queries.jobs import counts, progress
from models.queries.line import next_up
from models.queries.reading import db_moment, iso, rows, seconds
from models.sites import IN_FORCE, sites, targets

_IDS_AT_ONCE = 500


class Pause(NamedTuple):
    """The pause of a group that holds longest: `until` is None if it is endless, `kind` if there is none."""

    until: datetime | None = None
    kind: str | None = None
    reason: str | None = None


def pause_of(group: Mapping[str, Any] | None, fleet: Mapping[str, Any] | None, now: datetime) -> Pause:
    """Return which pause is in force at `now`: the latest of the one of all, the group's own and its cooldown (R9)."""
    all_of_them = [
        *([(fleet["operator_pause_until"], "operator", fleet["operator_pause_reason"])] if fleet else []),
        *([(group["operator_pause_until"], "operator", group["operator_pause_reason"]),
           (group["pause_until"], "cooldown", group["pause_reason"])] if group else []),
    ]
    held = [one for one in all_of_them if one[0] is not None and one[0] > now]
    if not held:
        return Pause()
    until, kind, reason = max(held, key=lambda one: one[0])
    return Pause(None if is_endless(until) else until, kind, reason)


def fleet_pause(conn: Connection) -> dict[str, Any] | None:
    """Return ``{"until", "by", "reason", "since"}`` of the pause of all lanes, None if there is none now.

    `until` is None if somebody has to lift it.
    """
    row = _fleet(conn)
    if row is None or row["operator_pause_until"] is None or row["operator_pause_until"] <= db_moment(conn):
        return None
    until = row["operator_pause_until"]
    return {"until": None if is_endless(until) else iso(until), "by": row["operator_pause_by"],
            "reason": row["operator_pause_reason"], "since": iso(row["operator_paused_at"])}


def _fleet(conn: Connection) -> dict[str, Any] | None:
    return next(rows(conn, select(fleet).where(fleet.c.id == 1)), None)


class Lanes(NamedTuple):
    """Everything that lane documents are made of, keyed by group."""

    now: datetime
    groups: dict[str, Mapping[str, Any]]
    running: dict[str, Mapping[str, Any]]
    next_up: dict[str, Mapping[str, Any]]
    queued: dict[str, int]
    fleet: Mapping[str, Any] | None

    def pause_of(self, name: str) -> Pause:
        """The pause of a group that is in force."""
        return pause_of(self.groups.get(name), self.fleet, self.now)


def lanes(conn: Connection, groups: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return a document for each group that has work or a pause of its own, sorted by its key (rule R10).

    Given `groups` it is of these, in their order, whether they have work or not.
    """
    found = read_lanes(conn, groups)
    if groups is not None:
        return documents_of(conn, found, list(groups))
    return documents_of(conn, found, sorted({*found.queued, *found.running, *found.groups}))


def lane(conn: Connection, group: str) -> dict[str, Any]:
    """Return the document of one group, whether it has work or a pause or not."""
    return documents_of(conn, read_lanes(conn, [group]), [group])[0]


def documents_of(conn: Connection, found: Lanes, names: list[str]) -> list[dict[str, Any]]:
    """Return the documents of the lanes called `names`, of which `found` was read."""
    members = _site_codes(conn, names)
    intervals = _intervals(conn, [*found.running.values(), *found.next_up.values()])
    return [_lane_document(name, found, members[name], intervals) for name in names]


def live(conn: Connection) -> dict[str, Any]:
    """Return what a live display needs: the lanes whose job runs, is paused or waits for its time, and counts.

    `paused_for_sec` (None without a pause and for an endless one) and `due_in_sec` (None if the next job is due) are
    counted by the database's clock.
    """
    found = read_lanes(conn)
    busy = [name for name in {*found.running, *found.queued} if name in found.running or _is_held(name, found)]
    return {"lanes": [_live_document(name, found) for name in sorted(busy)], "counts": counts(conn)}


def _is_held(name: str, found: Lanes) -> bool:
    return found.pause_of(name).kind is not None or _not_before(name, found) is not None


def _not_before(name: str, found: Lanes) -> datetime | None:
    """The moment at which the next job of a lane in which nothing runs is due, None if it is."""
    due = None if name in found.running else found.next_up.get(name, {}).get("run_after")
    return due if due is not None and due > found.now else None


def read_lanes(conn: Connection, groups: Sequence[str] | None = None) -> Lanes:
    """Read what there is of every lane with work or a pause, or of the lanes of some groups."""
    now = db_moment(conn)
    only = [] if groups is None else [jobs.c.group_key.in_(groups)]
    queued: dict[str, int] = dict(conn.execute(
        select(jobs.c.group_key, func.count()).where(IS_QUEUED, *only).group_by(jobs.c.group_key)).all())
    paused = or_(rate_groups.c.pause_until > now, rate_groups.c.operator_pause_until > now)
    working = rate_groups.c.key.in_(select(jobs.c.group_key).where(IS_ACTIVE))
    shown = or_(paused, working) if groups is None else rate_groups.c.key.in_(groups)
    return Lanes(
        now=now,
        groups={row["key"]: row for row in rows(conn, select(rate_groups).where(shown))},
        running={row["group_key"]: row for row in rows(conn, select(jobs).where(IS_RUNNING, *only))},
        next_up=_next_up(conn, list(queued), now),
        queued=queued,
        fleet=_fleet(conn),
    )


def _next_up(conn: Connection, groups: Sequence[str], now: datetime) -> dict[str, Mapping[str, Any]]:
    """The rows of the jobs that come next in these lanes."""
    ids = list(next_up(conn, groups, now).values())
    some = (ids[start : start + _IDS_AT_ONCE] for start in range(0, len(ids), _IDS_AT_ONCE))
    # one that was taken meanwhile is nobody's next, where the statements are not one snapshot
    return {row["group_key"]: row for part in some
            for row in rows(conn, select(jobs).where(jobs.c.job_id.in_(part))) if row["status"] == "queued"}


def _site_codes(conn: Connection, names: Sequence[str]) -> dict[str, list[str]]:
    members: dict[str, list[str]] = defaultdict(list)
    # so many names are as good as all
    some = [sites.c.group_key.in_(names)] if len(names) <= _IDS_AT_ONCE else []
    for group, site in conn.execute(select(sites.c.group_key, sites.c.site_code).where(*some)).all():
        members[group].append(site)
    return defaultdict(list, {group: sorted(codes) for group, codes in members.items()})


def _intervals(conn: Connection, shown: list[Mapping[str, Any]]) -> dict[str, float]:
    codes = sorted({row["target_code"] for row in shown} - {None})
    if not codes:
        return {}
    some = [targets.c.target_code.in_(codes)] if len(codes) <= _IDS_AT_ONCE else []
    return dict(conn.execute(select(targets.c.target_code, IN_FORCE).where(*some)).all())


def _lane_document(
    name: str, found: Lanes, site_codes: list[str], intervals: Mapping[str, float]
) -> dict[str, Any]:
    group, running, next_up = found.groups.get(name), found.running.get(name) or {}, found.next_up.get(name) or {}
    pause = found.pause_of(name)
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


def _live_document(name: str, found: Lanes) -> dict[str, Any]:
    running = found.running.get(name)
    job = running or found.next_up.get(name) or {}
    pause = found.pause_of(name)
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


def group_keys(conn: Connection) -> list[str]:
    """Return the keys of all rate groups, sorted."""
    return list(conn.execute(select(rate_groups.c.key).order_by(rate_groups.c.key)).scalars())
