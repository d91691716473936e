"""The figures of the metrics (rule U5), each with a bound on what it looks at and on how many names it brings along."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, or_, select

from models.base import UtcDateTime
from models.groups import cooldowns, fleet, rate_groups
from models.jobs import IS_QUEUED, in_state, jobs
from models.queries.ops import ops
from models.queries.reading import db_moment, seconds
from models.queries.workers import workers
from models.requests import requests
from models.schedules import entries, runs
from models.workers import counters

#: what the protocol refused or repaired; other counters are nobody's business
EVENTS = ("leases_lost", "workers_lost", "fenced_writes", "handed_back", "repairs")
#: series of groups, and of entries, at most
MOST_GROUPS, MOST_ENTRIES = 50, 200
#: the newest requests that are looked at, and how far back
_REQUESTS, REQUESTS_SEC = 20_000, 300
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
#: a lane may be ready for so long before it counts as left alone
_LOOKS_WITHIN = timedelta(seconds=10)


def figures(conn: Connection, group_backlog: int) -> dict[str, Any]:
    """Return every figure; groups with at least `group_backlog` waiting jobs are named (0: none is)."""
    now = db_moment(conn)
    crew = workers(conn)
    return {
        "ops": ops(conn),
        "finished": _finished(conn, now),
        "due": _number(conn, IS_QUEUED, or_(jobs.c.run_after.is_(None), jobs.c.run_after <= now)),
        "workers": {"alive": sum(one["alive"] for one in crew), "consuming": sum(one["consuming"] for one in crew)},
        "lanes_ready": _number(conn, rate_groups.c.ready_at <= now - _LOOKS_WITHIN),
        "paused": _paused(conn, now),
        "cooldowns": _cooldowns(conn, now),
        "events": dict.fromkeys(EVENTS, 0) | dict(conn.execute(
            select(counters.c.name, counters.c.value).where(counters.c.name.in_(EVENTS))).all()),
        "requests": _requests(conn, now),
        "runs": _runs(conn, now),
        "entries": _entries(conn, now),
        "groups": _groups(conn, group_backlog),
    }


def _number(conn: Connection, *conditions: ColumnElement[bool]) -> int:
    return int(conn.execute(select(func.count()).where(*conditions)).scalar_one())


def _finished(conn: Connection, now: datetime) -> dict[tuple[str, str], int]:
    """What came to its end in the last hour, by status and outcome."""
    found = conn.execute(select(jobs.c.status, jobs.c.outcome, func.count()).where(
        in_state("done", "failed", "cancelled"), jobs.c.finished_at > now - _HOUR).group_by(jobs.c.status, jobs.c.outcome))
    return {(status, outcome or ""): number for status, outcome, number in found}


def _paused(conn: Connection, now: datetime) -> dict[str, int]:
    """Groups that are held, by what holds them; and those that have been for more than an hour."""
    cooling, held = rate_groups.c.pause_until > now, rate_groups.c.operator_pause_until > now
    return {
        "cooldown": _number(conn, cooling), "operator": _number(conn, held),
        "over_an_hour": _number(conn, or_(cooling & (rate_groups.c.paused_at < now - _HOUR),
                                          held & (rate_groups.c.operator_paused_at < now - _HOUR))),
        "all": _number(conn, fleet.c.operator_pause_until > now)}


def _cooldowns(conn: Connection, now: datetime) -> dict[str, int]:
    """Objections of the last hour by kind."""
    recent = select(cooldowns.c.kind, func.count()).where(cooldowns.c.at > now - _HOUR).group_by(cooldowns.c.kind)
    return dict(conn.execute(recent).all())


def _requests(conn: Connection, now: datetime) -> dict[str, int]:
    """The newest requests by the first digit of their status."""
    newest = select(requests.c.status, requests.c.ended_at).order_by(requests.c.id.desc()).limit(_REQUESTS).subquery()
    found = conn.execute(select(newest.c.status, func.count()).where(
        newest.c.ended_at > now - timedelta(seconds=REQUESTS_SEC)).group_by(newest.c.status))
    kinds: Counter[str] = Counter(dict.fromkeys(("2xx", "3xx", "4xx", "5xx", "none"), 0))
    for status, number in found:
        kinds["none" if status is None else f"{status // 100}xx"] += number
    return dict(kinds)


def _runs(conn: Connection, now: datetime) -> dict[str, int]:
    """What the schedule came to in a day, by outcome."""
    recent = select(runs.c.outcome, func.count()).where(
        runs.c.recorded_at > now - _DAY, runs.c.outcome.is_not(None)).group_by(runs.c.outcome)
    return dict(conn.execute(recent).all())


def _entries(conn: Connection, now: datetime) -> list[tuple[str, float | None, bool]]:
    """Name, seconds since the last success (None: never) and whether it is stale, of the entries, the staler first."""
    table = entries.c
    found = conn.execute(
        select(table.name, table.last_success_at, table.stale_at).where(table.enabled)
        .order_by(func.coalesce(table.last_success_at, table.updated_at, type_=UtcDateTime()), table.name)
        .limit(MOST_ENTRIES))
    return [(name, seconds(success, now), stale is not None and stale <= now) for name, success, stale in found]


def _groups(conn: Connection, least: int) -> dict[str, int]:
    if not least:
        return {}
    number = func.count().label("number")
    found = conn.execute(select(jobs.c.group_key, number).where(IS_QUEUED).group_by(jobs.c.group_key).having(
        number >= least).order_by(number.desc(), jobs.c.group_key).limit(MOST_GROUPS))
    return dict(found.all())
