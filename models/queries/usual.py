"""What runs of an entry usually ask of each target, read from the request log in a bounded number of rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from models.groups import rate_groups
from models.jobs import INTERVAL, attempts, jobs
from models.requests import requests
from models.schedules import run_job, runs

#: of an entry, so many of the last runs are read, and fewer if they have more jobs than this together
MOST_RUNS, MOST_JOBS = 3, 20_000


@dataclass(frozen=True)
class Asked:
    """What one run of `entry` asks of one target (or of one site, by a job without a target): the mean of `runs` runs.

    `gap_sec` is the wait after each response that is in force now, `response_sec` what an answer of the group usually takes.
    """

    entry: str
    group: str
    target_code: str
    requests: float
    gap_sec: float
    response_sec: float
    runs: int


def usual_requests(conn: Connection, names: Iterable[str], since: datetime) -> list[Asked]:
    """Return what the last successful runs of these entries asked, by entry; only runs that started at `since` or later.

    `since` is how far back the request log goes: what is older was pruned, and would count as nothing. The number of
    an attempt's last request stands for all before it, so that each attempt costs one look into an index.
    """
    return [each for name in names for each in _of_entry(conn, name, _last_runs(conn, name, since))]


def _last_runs(conn: Connection, name: str, since: datetime) -> list[int]:
    found = conn.execute(
        select(runs.c.run_id, runs.c.total)
        .where(runs.c.entry == name, runs.c.outcome == "success", runs.c.total > 0, runs.c.started_at >= since)
        .order_by(runs.c.run_id.desc()).limit(MOST_RUNS)).all()
    taken: list[int] = []
    jobs_read = 0
    for row in found:
        jobs_read += row.total
        if taken and jobs_read > MOST_JOBS:
            break
        taken.append(row.run_id)
    return taken


def _of_entry(conn: Connection, name: str, run_ids: list[int]) -> Iterator[Asked]:
    if not run_ids:
        return
    last = select(func.max(requests.c.number)).where(
        requests.c.job_id == attempts.c.job_id, requests.c.attempt == attempts.c.attempt).correlate(attempts)
    found = conn.execute(
        select(run_job.c.run_id, jobs.c.group_key, func.coalesce(run_job.c.target_code, run_job.c.site_code, "").label("code"),
               last.scalar_subquery().label("number"), INTERVAL.label("interval_sec"), rate_groups.c.crawl_delay_sec,
               rate_groups.c.usual_latency_sec)
        .join_from(run_job, jobs, jobs.c.job_id == run_job.c.job_id)
        .join(attempts, attempts.c.job_id == jobs.c.job_id)
        .join(rate_groups, rate_groups.c.key == jobs.c.group_key, isouter=True)
        .where(run_job.c.run_id.in_(run_ids)))
    rows: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in found:
        if row.number:
            rows[row.group_key, row.code].append(row)
    for (group, code), those in sorted(rows.items()):
        counted = len({row.run_id for row in those})
        gap = max(those[-1].interval_sec, those[-1].crawl_delay_sec or 0.0)
        yield Asked(name, group, code, sum(row.number for row in those) / counted, gap,
                    those[-1].usual_latency_sec or 0.0, counted)
