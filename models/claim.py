"""A claim: one worker's right to run one attempt of one job, and what the attempt needs to know when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from config.clock import Stopwatch
from models.outcome import Tally, tally_of


class Claim(NamedTuple):
    """What a scout takes: (`job_id`, `attempt`) is the fence of every later write; `claim_no` counts the lane's claims."""

    job_id: str
    attempt: int
    claim_no: int
    group: str
    kind: str
    target_code: str | None = None


class Taker(NamedTuple):
    """Who takes a next job together with the end of one: a worker, its boot, its lease, and the lanes it serves.

    With `busy_sec`, for how long its body may be silent, what is taken has also begun: that body writes no start.
    """

    worker: str
    boot_id: str
    lease_sec: float
    lanes: list[str] | None = None
    busy_sec: float | None = None


class Round(NamedTuple):
    """What one look of a scout found: groups locked, claims taken, and in how many seconds the next lane is ready."""

    locked: int
    claims: list[Claim]
    due_sec: float | None


@dataclass(frozen=True)
class Started:
    """The job's row as the started attempt found it.

    `lease_sec` is what is left of the lease, `wait_sec` how long the group still has to wait before its next request,
    `since_response_sec` how long ago its last response ended (None: never), `crawl_delay_sec` the
    lower bound that robots.txt of its hosts asked for.
    """

    claim: Claim
    site_code: str | None
    source: str
    force: bool
    options: dict[str, Any] | None
    tally: Tally
    resume_from_page: int
    last_completed_page: int
    checkpoint: dict[str, Any] | None
    progress: dict[str, Any] | None
    deadline_sec: float | None
    lease_sec: float
    wait_sec: float
    since_response_sec: float | None
    crawl_delay_sec: float
    last_interval_sec: float
    #: how long an answer of the group's hosts usually takes, None as long as nobody knows
    usual_latency_sec: float | None = None


def started_of(claim: Claim, row: Any) -> Started:
    """Return what the body of `claim` starts with; `row` has what `running.START` answers, as attributes."""
    return Started(
        claim=claim, site_code=row.site_code, source=row.source, force=bool(row.force), options=row.options,
        tally=tally_of(row), resume_from_page=row.resume_from_page, last_completed_page=row.last_completed_page,
        checkpoint=row.checkpoint, progress=row.progress, deadline_sec=row.deadline_sec, lease_sec=row.lease_sec,
        wait_sec=max(0.0, row.wait_sec or 0.0),
        since_response_sec=row.since_response_sec, crawl_delay_sec=row.crawl_delay_sec or 0.0,
        last_interval_sec=row.last_interval_sec or 0.0, usual_latency_sec=row.usual_latency_sec)


class Begun(NamedTuple):
    """An attempt that has begun with the end of another: what its body starts with, counted from before that was asked."""

    started: Started
    asked: Stopwatch


@dataclass(frozen=True)
class Pulse:
    """What a running body learns when it looks at its row (rule J6): seconds by the database's clock, and requests."""

    remaining_sec: float
    stop_requested: bool
    park_requested: bool
    paused_sec: float
    pause_reason: str = ""
    #: seconds until the end of the job's quiet window, 0 outside (rule S6)
    quiet_sec: float = 0.0


@dataclass(frozen=True)
class Commit:
    """One fenced commit of a body: absolute totals and upserts, so that repeating it is harmless."""

    progress: dict[str, Any] | None = None
    current_page: int | None = None
    last_completed_page: int | None = None
    checkpoint: dict[str, Any] | None = None
    articles: tuple[dict[str, Any], ...] = ()
    aliases: tuple[dict[str, Any], ...] = ()
    failed_items: tuple[dict[str, Any], ...] = ()
    #: known articles that were asked for again and have not changed
    unchanged: tuple[str, ...] = ()
    #: list pages that have answered anew, and what is kept for asking one again
    answered_lists: tuple[str, ...] = ()
    validators: dict[str, str] | None = None
    requests: tuple[dict[str, Any], ...] = ()
    response_age_sec: float | None = None
    #: when the ages of this commit were taken (monotonic): the wait for a connection or a lock makes them older
    aged_at: float | None = None
    response_interval_sec: float | None = None
    cooldown_seen: dict[str, Any] | None = None
    read_after_all: tuple[str, ...] = ()
    target_code: str | None = None
    #: the generation that lies behind the frontier from now on: set by the last commit of a complete crawl
    frontier: int | None = None
    #: what the crawl came to; noted on its target
    outcome: str | None = None
    weak_403: bool = False
    robots: tuple[dict[str, Any], ...] = ()
    crawl_delay_sec: float | None = None
    usual_latency_sec: float | None = None
    #: the stat date that the crawl takes the snapshot of, and what a page of it lists: (URL, mark) (rule S7)
    stat_date: date | None = None
    listed: tuple[tuple[str, str], ...] = ()
    #: pages of this site that look like lists, and how sites answered (see `statements.snapshots`)
    site_code: str | None = None
    candidates: tuple[dict[str, Any], ...] = ()
    vitals: tuple[dict[str, Any], ...] = ()

    @property
    def is_one_article(self) -> bool:
        """Whether it brings one article with the progress and the request rows, and little else: most commits do."""
        return len(self.articles) == 1 and self.progress is not None and not (
            self.aliases or self.failed_items or self.unchanged or self.read_after_all or self.robots or self.weak_403
            or self.listed or self.candidates or self.vitals
        ) and all(value is None for value in (
            self.last_completed_page, self.checkpoint, self.validators, self.cooldown_seen, self.frontier, self.outcome))
