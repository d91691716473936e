"""Politeness and exclusion proved from the request log and the attempts (rule P5).

`audit` is pure: rows in, report out. `read_audit` feeds the same check from the database, group by group, so that a
long log never has to fit into memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, distinct, func, select

from models.base import UtcDateTime
from models.groups import cooldowns as cooldown_table
from models.jobs import attempts as attempt_table
from models.requests import requests as request_table

#: how far the clocks of two machines may differ in what they hand to the database
CLOCK_ERROR_SEC = 0.05
#: outcomes of attempts whose body was not there to say when its last response ended
LOST = frozenset({"lost", "abandoned"})
#: violations that a report names one by one, per group; all are counted
NAMED = 20
NUMBERS = ("requests", "overlaps", "gaps_too_short", "during_pause", "within_clock_error")
_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Request:
    """One request that was put on the wire; `interval_sec` is the gap that was required before it."""

    group: str
    host: str
    job_id: str
    attempt: int
    started_at: datetime
    ended_at: datetime
    interval_sec: float = 0.0


@dataclass(frozen=True)
class Attempt:
    """One attempt; it occupies its lane from `claimed_at` to `finished_at` (None: to this day)."""

    group: str
    job_id: str
    attempt: int
    claimed_at: datetime
    finished_at: datetime | None
    outcome: str | None = None


@dataclass(frozen=True)
class Cooldown:
    """A pause of a group after its firewall objected."""

    group: str
    at: datetime
    until: datetime


Row = TypeVar("Row", Request, Attempt, Cooldown)


@dataclass
class Tally:
    """What was found in one group, or in all; `named` are the first violations, one by one."""

    requests: int = 0
    overlaps: int = 0
    gaps_too_short: int = 0
    during_pause: int = 0
    within_clock_error: int = 0
    named: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the numbers of `other`."""
        for name in NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def name(self, what: str, seconds: float | None, culprit: Request | Attempt, other: str) -> None:
        """Keep one violation: `what` happened, by how many seconds (None: to this day), who did it, against whom."""
        if len(self.named) < NAMED:
            at = culprit.started_at if isinstance(culprit, Request) else culprit.claimed_at
            self.named.append(
                {"what": what, "seconds": None if seconds is None else round(seconds, 3), "at": at.isoformat(),
                 "job_id": culprit.job_id, "attempt": culprit.attempt, "against": other}
            )

    def document(self) -> dict[str, Any]:
        """Return the numbers as a part of the report."""
        return {name: getattr(self, name) for name in NUMBERS}


def audit(
    requests: Iterable[Request],
    attempts: Iterable[Attempt],
    cooldowns: Iterable[Cooldown] = (),
    clock_error_sec: float = CLOCK_ERROR_SEC,
) -> dict[str, Any]:
    """Return the report on `requests` and `attempts`, in any order (rule P5).

    ``{"requests", "overlaps", "gaps_too_short", "during_pause", "within_clock_error", "groups": {key: the same and
    "violations": […]}}``. An overlap is a request or an attempt that began before the one before it in its group (a
    request: or on its host) had ended, or a request that outlived its attempt. A lost attempt counts as occupied until
    its recorded end, and the gap is counted from there. Differences up to `clock_error_sec` are counted apart.
    """
    wire, tried, paused = _by_group(requests), _by_group(attempts), _by_group(cooldowns)
    tallies: dict[str, Tally] = defaultdict(Tally)
    for group in sorted({*wire, *tried}):
        in_order = sorted(wire[group], key=lambda one: one.started_at)
        check_lane(tallies[group], in_order, tried[group], paused[group], clock_error_sec)
    everything = sorted((one for rows in wire.values() for one in rows), key=lambda one: one.started_at)
    check_hosts(tallies, everything, clock_error_sec)
    return report(tallies)


def report(tallies: dict[str, Tally]) -> dict[str, Any]:
    """Return the document of all groups together."""
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    groups = {key: tally.document() | {"violations": tally.named} for key, tally in sorted(tallies.items())}
    return total.document() | {"groups": groups}


def is_clean(found: dict[str, Any]) -> bool:
    """Say whether a report holds no violation."""
    return not any(found[name] for name in ("overlaps", "gaps_too_short", "during_pause"))


def check_lane(
    tally: Tally,
    requests: Iterable[Request],
    attempts: Sequence[Attempt],
    cooldowns: Sequence[Cooldown],
    clock_error_sec: float,
) -> None:
    """Count the violations of one group into `tally`; `requests` must come in the order of their start."""
    _check_attempts(tally, attempts, clock_error_sec)
    ends = {(one.job_id, one.attempt): one.finished_at for one in attempts}
    lost = sorted((one for one in attempts if one.outcome in LOST and one.finished_at), key=lambda one: one.claimed_at)
    pauses = sorted(cooldowns, key=lambda one: one.at)
    before: tuple[datetime, str] | None = None
    for one in requests:
        tally.requests += 1
        busy = [(end, f"lost attempt {a.attempt} of {a.job_id}") for a in lost
                if (end := a.finished_at) and a.claimed_at < one.started_at
                and (a.job_id, a.attempt) != (one.job_id, one.attempt)]
        previous = max([*busy, *([before] if before else [])], default=None)
        if previous is not None:
            _check_gap(tally, one, previous, clock_error_sec)
        _check_end(tally, one, ends.get((one.job_id, one.attempt)), clock_error_sec)
        _check_pause(tally, one, pauses, clock_error_sec)
        mine = (one.ended_at, f"a request of attempt {one.attempt} of {one.job_id}")
        before = mine if before is None else max(before, mine)


def check_hosts(tallies: dict[str, Tally], requests: Iterable[Request], clock_error_sec: float) -> None:
    """Count violations between requests of different groups to one host; within a group `check_lane` counts them."""
    last: dict[str, dict[str, datetime]] = defaultdict(dict)
    for one in requests:
        ends = last[one.host]
        others = [(end, f"a request of group {group}") for group, end in ends.items() if group != one.group]
        if others:
            _check_gap(tallies[one.group], one, max(others), clock_error_sec)
        ends[one.group] = max(one.ended_at, ends.get(one.group, one.ended_at))


def _check_attempts(tally: Tally, attempts: Sequence[Attempt], clock_error_sec: float) -> None:
    before: Attempt | None = None
    for one in sorted(attempts, key=lambda one: (one.claimed_at, one.attempt)):
        if before is not None:
            early = None if before.finished_at is None else _seconds(one.claimed_at, before.finished_at)
            if early is None or early > clock_error_sec:
                tally.overlaps += 1
                tally.name("overlap", early, one, f"attempt {before.attempt} of {before.job_id}")
            elif early > 0:
                tally.within_clock_error += 1
        if before is None or _later_end(one, before):
            before = one


def _later_end(one: Attempt, before: Attempt) -> bool:
    if before.finished_at is None:
        return False
    return one.finished_at is None or one.finished_at > before.finished_at


def _check_gap(tally: Tally, one: Request, previous: tuple[datetime, str], clock_error_sec: float) -> None:
    gap = _seconds(previous[0], one.started_at)
    if -gap > clock_error_sec:
        tally.overlaps += 1
        tally.name("overlap", -gap, one, previous[1])
    elif one.interval_sec - gap > clock_error_sec:
        tally.gaps_too_short += 1
        tally.name("gap_too_short", one.interval_sec - gap, one, previous[1])
    elif gap < one.interval_sec:
        tally.within_clock_error += 1


def _check_end(tally: Tally, one: Request, end: datetime | None, clock_error_sec: float) -> None:
    late = 0.0 if end is None else _seconds(end, one.ended_at)
    if late > clock_error_sec:
        tally.overlaps += 1
        tally.name("outlived_its_attempt", late, one, "the recorded end of its own attempt")
    elif late > 0:
        tally.within_clock_error += 1


def _check_pause(tally: Tally, one: Request, pauses: Sequence[Cooldown], clock_error_sec: float) -> None:
    inside = [min(_seconds(pause.at, one.started_at), _seconds(one.started_at, pause.until)) for pause in pauses]
    deepest = max(inside, default=0.0)
    if deepest > clock_error_sec:
        tally.during_pause += 1
        tally.name("during_pause", deepest, one, "a cooldown")
    elif deepest > 0:
        tally.within_clock_error += 1


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()


def _by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.group].append(row)
    return found


def read_audit(
    conn: Connection, *, group: str | None = None, host: str | None = None, since: datetime | None = None,
    clock_error_sec: float = CLOCK_ERROR_SEC,
) -> dict[str, Any]:
    """Return the report of `audit` on what the database holds: all, or one group, one host, from a moment on.

    The request log is kept for fewer days than the attempts (rule J17): exclusion is checked as far back as attempts
    go, gaps and pauses as far back as requests. ``covers`` says since when there are any of each.
    """
    wire = request_table.c
    wanted = [wire[name] == value for name, value in (("group_key", group), ("host", host)) if value is not None]
    wanted += [wire.started_at >= since] if since is not None else []
    tallies: dict[str, Tally] = defaultdict(Tally)
    keys = set(conn.scalars(select(wire.group_key).where(*wanted).distinct()))
    column = attempt_table.c.group_key
    tried = [column.in_(keys)] if host is not None else [column == group] if group is not None else []
    keys |= set(conn.scalars(select(column).where(*tried).distinct()))
    for key in sorted(keys):
        check_lane(
            tallies[key], _requests(conn, *wanted, wire.group_key == key), _attempts(conn, key, since),
            _cooldowns(conn, key, since), clock_error_sec,
        )
    shared = select(wire.host).where(*wanted).group_by(wire.host).having(func.count(distinct(wire.group_key)) > 1)
    for name in conn.execute(shared).scalars().all():
        check_hosts(tallies, _requests(conn, *wanted, wire.host == name), clock_error_sec)
    return report(tallies) | {"covers": _covers(conn, wanted, *tried)}


def _covers(conn: Connection, wanted: list[ColumnElement[bool]], *tried: ColumnElement[bool]) -> dict[str, str | None]:
    """Return since when there are requests, and attempts, among what was looked at."""
    first = {"requests": select(func.min(request_table.c.started_at, type_=UtcDateTime())).where(*wanted),
             "attempts": select(func.min(attempt_table.c.claimed_at, type_=UtcDateTime())).where(*tried)}
    found = {name: conn.execute(statement).scalar() for name, statement in first.items()}
    return {f"{name}_since": None if at is None else at.isoformat() for name, at in found.items()}


def _requests(conn: Connection, *wanted: ColumnElement[bool]) -> Iterator[Request]:
    columns = request_table.c
    rows = conn.execute(
        select(columns.group_key, columns.host, columns.job_id, columns.attempt, columns.started_at,
               columns.ended_at, columns.interval_sec)
        .where(*wanted).order_by(columns.started_at, columns.id).execution_options(yield_per=_ROWS_AT_ONCE)
    )
    for row in rows:
        yield Request(*row)


def _attempts(conn: Connection, group: str, since: datetime | None) -> list[Attempt]:
    columns = attempt_table.c
    wanted = select(columns.group_key, columns.job_id, columns.attempt, columns.claimed_at, columns.finished_at,
                    columns.outcome).where(columns.group_key == group)
    if since is not None:
        wanted = wanted.where(func.coalesce(columns.finished_at, since) >= since)
    return [Attempt(*row) for row in conn.execute(wanted)]


def _cooldowns(conn: Connection, group: str, since: datetime | None) -> list[Cooldown]:
    columns = cooldown_table.c
    wanted = select(columns.group_key, columns.at, columns.until).where(columns.group_key == group)
    if since is not None:
        wanted = wanted.where(columns.until >= since)
    return [Cooldown(*row) for row in conn.execute(wanted)]
