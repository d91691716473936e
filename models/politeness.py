"""How polite a group was, as its site's owner may read it: requests by hour, gaps, refusals and what was done about them.

`audit` proves that nothing was wrong; this tells what was done. It is read from the same log, one group at a time.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from sqlalchemy import Connection, func, select

from models.articles import failed_items
from models.groups import cooldowns
from models.jobs import attempts
from models.queries.reading import iso
from models.requests import requests, robots_copies
from models.sites import sites, targets

_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Seen:
    """One request: when it started and ended, the gap that was required before it, its status and error."""

    started_at: datetime
    ended_at: datetime
    interval_sec: float
    status: int | None
    error: str


@dataclass(frozen=True)
class Refusal:
    """One pause of the group: since when, until when, why, and what the server had asked for (its words)."""

    at: datetime
    until: datetime
    kind: str
    reason: str
    retry_after: str | None


def summary(seen: Iterable[Seen], refusals: Sequence[Refusal]) -> dict[str, Any]:
    """Return what `seen` (in the order of their start) and `refusals` come to.

    ``{"requests", "hours": [{"hour", "requests", "errors"}], "gaps": {"smallest_sec", "median_sec", "required_sec"},
    "statuses": {…}, "failures": {…}, "refusals": [{…, "next_request_at", "waited_sec", "obeyed"}]}``. A gap is the time
    from the end of one response to the start of the next request; the required one is the smallest that was required.
    """
    hours, wrong, statuses, failures = Counter[datetime](), Counter[datetime](), Counter[str](), Counter[str]()
    gaps, required, before = array("d"), array("d"), None
    following: list[datetime | None] = [None] * len(refusals)
    for one in seen:
        hour = one.started_at.replace(minute=0, second=0, microsecond=0)
        hours[hour] += 1
        if one.status is None or one.status >= 400:
            wrong[hour] += 1
        statuses["none" if one.status is None else str(one.status)] += 1
        if one.error:
            failures[one.error.partition(":")[0]] += 1
        if before is not None:
            gaps.append((one.started_at - before).total_seconds())
            required.append(one.interval_sec)
        before = one.ended_at if before is None else max(before, one.ended_at)
        for number, refusal in enumerate(refusals):
            if following[number] is None and one.started_at > refusal.at:
                following[number] = one.started_at
    return {
        "requests": hours.total(),
        "hours": [{"hour": iso(hour), "requests": hours[hour], "errors": wrong[hour]} for hour in sorted(hours)],
        "gaps": {"smallest_sec": _rounded(min(gaps, default=None)), "median_sec": _rounded(median(gaps) if gaps else None),
                 "required_sec": _rounded(min(required, default=None))},
        "statuses": dict(sorted(statuses.items())), "failures": dict(sorted(failures.items())),
        "refusals": [_refusal(one, after) for one, after in zip(refusals, following, strict=True)]}


def _refusal(one: Refusal, after: datetime | None) -> dict[str, Any]:
    return {"at": iso(one.at), "until": iso(one.until), "kind": one.kind, "reason": one.reason,
            "retry_after": one.retry_after, "next_request_at": iso(after),
            "waited_sec": None if after is None else _rounded((after - one.at).total_seconds()),
            "obeyed": after is None or after >= one.until}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def read_politeness(conn: Connection, group: str, *, since: datetime | None = None) -> dict[str, Any]:
    """Return `summary` of what the database holds of a group, with what robots.txt of its hosts said and kept out.

    ``robots``: host, status, decision and since when, of each host that was asked; ``disallowed``: articles that were
    not asked for because robots.txt forbids them.
    """
    table = requests.c
    wanted = [table.group_key == group, *([table.started_at >= since] if since is not None else [])]
    rows = conn.execute(
        select(table.started_at, table.ended_at, table.interval_sec, table.status, table.error)
        .where(*wanted).order_by(table.started_at, table.id).execution_options(yield_per=_ROWS_AT_ONCE))
    refusals = _refusals(conn, group, since)
    found = summary((Seen(*row) for row in rows), refusals)
    hosts = select(table.host).where(*wanted).distinct()
    copies = conn.execute(select(robots_copies).where(robots_copies.c.host.in_(hosts)).order_by(robots_copies.c.host))
    disallowed = (
        select(func.count()).select_from(failed_items)
        .join(targets, targets.c.target_code == failed_items.c.target_code)
        .join(sites, sites.c.site_code == targets.c.site_code)
        .where(sites.c.group_key == group, failed_items.c.error.startswith("robots")))
    return found | {
        "robots": [{"host": row.host, "status": row.status, "decision": row.decision, "fetched_at": iso(row.fetched_at)}
                   for row in copies],
        "disallowed": conn.execute(disallowed).scalar_one()}


def _refusals(conn: Connection, group: str, since: datetime | None) -> list[Refusal]:
    table = cooldowns.c
    wanted = [table.group_key == group, *([table.until >= since] if since is not None else [])]
    rows = conn.execute(
        select(table.at, table.until, table.kind, table.reason, attempts.c.evidence)
        .select_from(cooldowns)
        .join(attempts, (attempts.c.job_id == table.job_id) & (attempts.c.attempt == table.attempt), isouter=True)
        .where(*wanted).order_by(table.at, table.id))
    return [Refusal(row.at, row.until, row.kind, row.reason, (row.evidence or {}).get("retry_after_raw")) for row in rows]
