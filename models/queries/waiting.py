"""What a job may wait for, read in one snapshot: the facts behind `why` (rule J16).

`facts` reads about one job, counts its line and samples what it takes; `many` reads what is cheap about many jobs in a
few statements. Both read no more of a line than its first few jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, func, select

from models.base import FAR
from models.facts import Facts, Hold, JobFacts, LineFacts, RunningFacts, WorkerFacts
from models.groups import cooldowns, fleet, rate_groups
from models.jobs import INTERVAL, IS_RUNNING, attempts, jobs
from models.queries import line
from models.queries.reading import db_moment
from models.queries.workers import is_fresh
from models.sites import sites, targets
from models.workers import workers

_AT_ONCE = 500
#: ends of an attempt that never started (`models.ledger`, `models.reaper`)
_GIVEN_BACK = frozenset({"handed_back", "older_body_lives", "worker_lost"})
_HOLDS = {
    "operator": ("operator_pause_until", "operator_pause_reason", "operator_pause_by"),
    "fleet": ("fleet_pause_until", "fleet_pause_reason", "fleet_pause_by"),
}
_JOB = (
    "job_id", "kind", "status", "site_code", "target_code", "attempt", "failures", "max_attempts", "run_after",
    "expires_at", "claimed_at", "started_at", "finished_at", "worker", "lease_until", "error_msg", "outcome",
)


def facts(conn: Connection, job_id: str, now: datetime | None = None) -> Facts | None:
    """Return everything that `why` needs to know of a job, None if the id is unknown; `now` is for tests."""
    moment = db_moment(conn, now)
    found = _scene(conn, [job_id], moment)
    if not found:
        return None
    one = found[0]
    if one.job.status != "queued":
        return one
    measured = line.measured(conn, one.job.group)
    opens = _opens(one)
    place = line.place(conn, one.job.job_id, one.job.group, by=opens, now=moment)
    if opens <= moment and one.line.head == one.job.job_id:
        # whatever stands before it cannot be taken: its site has moved away
        place = LineFacts(ahead=0)
    place = replace(place, head=one.line.head)
    before = line.ready_before(conn, one.job.group, moment, most=sum(worker.free for worker in one.workers))
    return replace(one, line=place, measured=measured, ready_before=before, cooldown=_who_caused(conn, one))


def many(conn: Connection, job_ids: Sequence[str], now: datetime | None = None) -> list[Facts]:
    """Return the cheap facts of jobs, in no order: nothing is counted or measured; unknown ids are left out."""
    moment = db_moment(conn, now)
    return [one for start in range(0, len(job_ids), _AT_ONCE)
            for one in _scene(conn, job_ids[start : start + _AT_ONCE], moment)]


def _opens(one: Facts) -> datetime:
    gates = (one.now, one.job.run_after, one.next_request_at, one.quiet_until, *(hold.until for hold in one.holds.values()))
    return max(gate for gate in gates if gate is not None)


def _who_caused(conn: Connection, one: Facts) -> Hold | None:
    """Name the job whose attempt caused the cooldown."""
    if one.cooldown is None:
        return None
    job_id = conn.execute(select(cooldowns.c.job_id).where(cooldowns.c.group_key == one.job.group).order_by(
        cooldowns.c.at.desc(), cooldowns.c.id.desc()).limit(1)).scalar()
    return replace(one.cooldown, by=job_id)


def _scene(conn: Connection, job_ids: Sequence[str], now: datetime) -> list[Facts]:
    rows = [dict(row) for row in conn.execute(_jobs(job_ids)).mappings()]
    keys = sorted({row["group_key"] for row in rows})
    groups = {row["key"]: dict(row) for row in conn.execute(_groups(keys)).mappings()}
    homes = dict(conn.execute(select(sites.c.site_code, sites.c.group_key).where(sites.c.group_key.in_(keys))).all())
    own = {row["site_code"] for row in rows if row["site_code"] is not None}
    running = _running(conn, keys, sorted(own.union(homes)))
    crew = _workers(conn, now) if any(row["status"] != "done" for row in rows) else ()
    heads = line.heads(conn, keys, now)
    return [
        Facts(
            now=now, job=_job(row), workers=crew, line=LineFacts(heads.get(row["group_key"])),
            running=next((one for one in running if one.group == row["group_key"]), None),
            elsewhere=_elsewhere(row, homes, running), quiet_until=_quiet(row, now), **_gates(groups.get(row["group_key"]), now))
        for row in rows
    ]


def _jobs(job_ids: Sequence[str]) -> Select[Any]:
    last = (select(attempts.c.outcome).where(attempts.c.job_id == jobs.c.job_id, attempts.c.attempt == jobs.c.attempt)
            .scalar_subquery().label("last_outcome"))
    return (
        select(*(jobs.c[name] for name in _JOB), jobs.c.group_key, jobs.c.hold_from, jobs.c.hold_until,
               jobs.c.wait_reason, jobs.c.stop_requested, last,
               sites.c.group_key.label("home"), targets.c.enabled)
        .join_from(jobs, sites, sites.c.site_code == jobs.c.site_code, isouter=True)
        .outerjoin(targets, targets.c.target_code == jobs.c.target_code)
        .where(jobs.c.job_id.in_(job_ids))
    )


def _quiet(row: Mapping[str, Any], now: datetime) -> datetime | None:
    """Return the end of the quiet window that keeps a queued job (rule S6)."""
    until: datetime | None = row["hold_until"]
    inside = row["status"] == "queued" and until is not None and row["hold_from"] <= now < until
    return until if inside else None


def _job(row: Mapping[str, Any]) -> JobFacts:
    home = row["home"]
    if row["target_code"] is None:
        target = ""
    else:
        target = "gone" if row["enabled"] is None else "enabled" if row["enabled"] else "disabled"
    return JobFacts(
        **{name: row[name] for name in _JOB}, group=row["group_key"], wait_reason=row["wait_reason"], target=target,
        home=home if home not in (None, row["group_key"]) else None, stop_requested=bool(row["stop_requested"]),
        given_back=row["status"] == "queued" and row["last_outcome"] in _GIVEN_BACK)


def _groups(keys: Sequence[str]) -> Select[Any]:
    return (
        select(rate_groups, fleet.c.operator_pause_until.label("fleet_pause_until"),
               fleet.c.operator_pause_reason.label("fleet_pause_reason"), fleet.c.operator_pause_by.label("fleet_pause_by"))
        .join_from(rate_groups, fleet, fleet.c.id == 1, isouter=True).where(rate_groups.c.key.in_(keys))
    )


def _gates(group: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    if group is None:
        return {"lane_exists": False}
    gates: dict[str, Any] = {
        name: _hold(group[ends], group[why], group[by], now) for name, (ends, why, by) in _HOLDS.items()}
    waits = group["next_request_at"]
    return gates | {
        "cooldown": _hold(group["pause_until"], group["pause_reason"], None, now),
        "next_request_at": waits if waits is not None and waits > now else None,
        "gap_sec": group["last_interval_sec"] or 0.0, "crawl_delay_sec": group["crawl_delay_sec"],
    }


def _hold(until: datetime | None, reason: str | None, by: str | None, now: datetime) -> Hold | None:
    return Hold(min(until, FAR), reason or "", by) if until is not None and until > now else None


def _running(conn: Connection, keys: Sequence[str], codes: Iterable[str]) -> list[RunningFacts]:
    """The running jobs of these lanes and of these sites, wherever they run."""
    found: dict[str, RunningFacts] = {}
    wanted = (
        select(jobs.c.job_id, jobs.c.group_key, jobs.c.site_code, jobs.c.target_code, jobs.c.worker, jobs.c.lease_until,
               jobs.c.stop_requested, func.coalesce(jobs.c.started_at, jobs.c.claimed_at).label("since"),
               INTERVAL.label("interval_sec"))
        .where(IS_RUNNING)
    )
    codes = list(codes)
    some = [wanted.where(jobs.c.group_key.in_(keys))]
    some += [wanted.where(jobs.c.site_code.in_(codes[start : start + _AT_ONCE]))
             for start in range(0, len(codes), _AT_ONCE)]
    for part in some:
        for row in conn.execute(part):
            found[row.job_id] = RunningFacts(
                row.job_id, row.group_key, row.since, row.lease_until, row.site_code, row.target_code, row.worker,
                bool(row.stop_requested), float(row.interval_sec))
    return list(found.values())


def _elsewhere(
    row: Mapping[str, Any], homes: Mapping[str, str], running: Iterable[RunningFacts]
) -> RunningFacts | None:
    """What runs in another lane and closes this one: the job's own site, or a site that moved here (rule R2)."""
    key = row["group_key"]
    others = [one for one in running if one.group != key and one.site_code is not None
              and (one.site_code == row["site_code"] or homes.get(one.site_code) == key)]
    return min(others, key=lambda one: (one.site_code != row["site_code"], one.since), default=None)


def _workers(conn: Connection, now: datetime) -> tuple[WorkerFacts, ...]:
    busy = (select(jobs.c.boot_id, func.count().label("busy")).where(IS_RUNNING)
            .group_by(jobs.c.boot_id).subquery())
    wanted = (
        select(workers, busy.c.busy).join_from(workers, busy, busy.c.boot_id == workers.c.boot_id, isouter=True)
        .where(workers.c.stopped_at.is_(None), workers.c.heartbeat_at > now - timedelta(days=1))
        .order_by(workers.c.name, workers.c.started_at)
    )
    return tuple(
        WorkerFacts(
            name=row.name, concurrency=row.concurrency, busy=row.busy or 0,
            lanes=None if row.lanes is None else tuple(row.lanes),
            alive=is_fresh(row.heartbeat_at, now, row.heartbeat_sec), trouble=row.trouble,
            consuming=not row.trouble and is_fresh(row.consuming_at, now, row.heartbeat_sec),
            silent_sec=max(0.0, (now - row.heartbeat_at).total_seconds()))
        for row in conn.execute(wanted)
    )
