"""What is so about a job and everything that it may wait for, as of one moment of the database's clock. Pure.

`models.queries.waiting` reads it in one snapshot, `console.explain` turns it into words (rule J16).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class JobFacts:
    """The job itself. `target` is ``enabled``, ``disabled``, ``gone`` or "" for a job without a target.

    `home` is its site's present group if that is another one; `given_back` says that its last claim never started.
    """

    job_id: str
    kind: str
    status: str
    group: str
    site_code: str | None = None
    target_code: str | None = None
    target: str = ""
    home: str | None = None
    attempt: int = 0
    failures: int = 0
    max_attempts: int = 3
    run_after: datetime | None = None
    expires_at: datetime | None = None
    wait_reason: str = ""
    given_back: bool = False
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    worker: str | None = None
    lease_until: datetime | None = None
    stop_requested: bool = False
    error_msg: str = ""
    outcome: str | None = None


@dataclass(frozen=True)
class Hold:
    """Something that closes a lane until a moment; `reason` and `by` as they were written down."""

    until: datetime
    reason: str = ""
    by: str | None = None


@dataclass(frozen=True)
class RunningFacts:
    """A job that runs: in this lane, or of one of its sites in another one."""

    job_id: str
    group: str
    since: datetime
    lease_until: datetime
    site_code: str | None = None
    target_code: str | None = None
    worker: str | None = None
    stop_requested: bool = False
    interval_sec: float = 0.0


@dataclass(frozen=True)
class WorkerFacts:
    """A worker that has not said good-bye. `lanes` are patterns of group keys, None for all.

    `alive` and `consuming` by its heartbeats; `trouble` is why it does not consume, in one word.
    """

    name: str
    concurrency: int
    busy: int = 0
    lanes: tuple[str, ...] | None = None
    alive: bool = True
    consuming: bool = True
    trouble: str = ""
    silent_sec: float = 0.0

    def serves(self, group: str) -> bool:
        """Say whether it takes jobs of `group` (rule R7)."""
        return self.lanes is None or any(re.search(lane, group) for lane in self.lanes)

    @property
    def free(self) -> int:
        """How many more claims it can start."""
        return max(0, self.concurrency - self.busy)


@dataclass(frozen=True)
class Waiting:
    """A job that stands in line before the one asked about."""

    job_id: str
    target_code: str | None = None
    run_after: datetime | None = None
    interval_sec: float = 0.0


@dataclass(frozen=True)
class LineFacts:
    """The line in a lane. `head` is the job that a claim would take now if the lane were free and open.

    `ahead` counts the jobs before the one asked about that are due by the moment at which it may be taken itself, None
    if nobody counted; `first` are the first few of them.
    """

    head: str | None = None
    ahead: int | None = None
    first: tuple[Waiting, ...] = ()


@dataclass(frozen=True)
class Measured:
    """One attempt that has ended: how long it held its lane, and the interval of its target."""

    job_id: str
    target_code: str | None
    seconds: float
    parked: bool = False
    interval_sec: float = 0.0


@dataclass(frozen=True)
class Facts:
    """Everything that `why` knows. `lane_exists` is false for a group that nobody ever made.

    `elsewhere` is a running job, in another lane, of the job's site or of another site of its group; `ready_before`
    are the lanes that could be taken now and have been ready longer; `quiet_until` belongs to the schedule.
    """

    now: datetime
    job: JobFacts
    lane_exists: bool = True
    cooldown: Hold | None = None
    operator: Hold | None = None
    fleet: Hold | None = None
    next_request_at: datetime | None = None
    gap_sec: float = 0.0
    crawl_delay_sec: float = 0.0
    quiet_until: datetime | None = None
    running: RunningFacts | None = None
    elsewhere: RunningFacts | None = None
    workers: tuple[WorkerFacts, ...] = ()
    ready_before: tuple[str, ...] = ()
    line: LineFacts = field(default_factory=LineFacts)
    measured: tuple[Measured, ...] = ()

    @property
    def holds(self) -> Mapping[str, Hold]:
        """The pauses in force by what they are called."""
        named = {"operator": self.operator, "fleet": self.fleet, "cooldown": self.cooldown}
        return {name: hold for name, hold in named.items() if hold is not None}

    @property
    def serving(self) -> Sequence[WorkerFacts]:
        """The live workers that serve the job's lane, whether they consume or not."""
        return [worker for worker in self.workers if worker.alive and worker.serves(self.job.group)]
