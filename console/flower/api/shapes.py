"""The documents that the API answers, described for the OpenAPI document; they are the CLI's ``--json``, field by field."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Status = Literal["queued", "running", "done", "failed", "cancelled"]
Moment = str


class Document(BaseModel):
    """What is answered: fields may be added, none is left out."""

    model_config = ConfigDict(extra="allow")


class Problem(Document):
    """Problem details (RFC 9457): what is wrong, in `detail` for people; `errors` names the fields of bad input."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] = Field(default_factory=list)


class Step(Document):
    """A step of a job."""

    name: str
    status: Literal["pending", "running", "done", "failed", "skipped"]
    reason: str | None = None


class Progress(Document):
    """How far a job is (rule J12)."""

    page: int
    pages_total: int | None
    items_new: int
    items_known: int
    items_failed: int
    items_external: int
    bytes: int
    rate: float | None
    eta: Any
    steps: list[Step]


class Attempt(Document):
    """One run of a job by one worker."""

    attempt: int
    worker: str
    source: str
    started_at: Moment | None
    finished_at: Moment | None
    outcome: str | None
    error: str
    from_page: int
    last_completed_page: int
    evidence: dict[str, Any] | None


class JobInList(Document):
    """A job as lists have it: without its attempts."""

    job_id: str
    kind: str
    site_code: str | None
    target_code: str | None
    group: str
    source: str
    status: Status
    priority: int
    dedupe_key: str | None
    force: bool
    attempt: int
    failures: int
    max_attempts: int
    recoveries: int
    cooldown_retries: int
    deadlines: int
    resume_from_page: int
    current_page: int
    last_completed_page: int
    enqueued_at: Moment
    queue_at: Moment
    run_after: Moment | None
    expires_at: Moment | None
    started_at: Moment | None
    finished_at: Moment | None
    updated_at: Moment
    queued_for_sec: float | None
    running_for_sec: float | None
    stop_requested: bool
    error_msg: str
    result: Any
    progress: Progress
    outcome: str | None
    run_id: int | None


class Job(JobInList):
    """A job with every attempt."""

    attempts_log: list[Attempt]


class Found(Document):
    """A job that a dedupe key finds again (rule J3)."""

    job_id: str
    status: Status


class Submitted(Document):
    """The answer to a submit; `created` is false if an active job of the same key answers instead."""

    job_id: str
    created: bool
    group: str
    warnings: list[str]


class Refused(Document):
    """A job that was not changed, and why."""

    job_id: str
    reason: str


class Cancelled(Document):
    """How many jobs were cancelled at once, and how many run and were asked to stop."""

    cancelled: int
    flagged: int
    refused: list[Refused]


class Requeued(Document):
    """How many jobs were brought back."""

    requeued: int
    refused: list[Refused]


class Reason(Document):
    """A reason that holds now (rule J16)."""

    code: str
    text: str
    until: Moment | None
    by: str | None


class Why(Document):
    """Why a job is not running, its place in line, and when it will probably start."""

    job_id: str
    status: Status
    reasons: list[Reason]
    position: int | None
    expected_start: Moment | None


class Target(Document):
    """A target with its interval, last crawl and frontier."""

    target_code: str
    site_code: str
    name: str
    group: str | None
    enabled: bool
    track_checkpoint: bool
    interval_sec: float
    baseline_sec: float
    last_crawl_at: Moment | None
    last_outcome: str | None
    last_job_id: str | None
    frontier_at: Moment | None
    active_job_id: str | None
    given_up: int


class Lane(Document):
    """A lane (rule R10)."""

    group: str
    site_codes: list[str]
    site_code: str | None
    running_job_id: str | None
    running_target: str | None
    running_site: str | None
    running_for_sec: float | None
    queued_count: int
    next_queued_target: str | None
    next_queued_site: str | None
    paused_until: Moment | None
    pause_kind: Literal["operator", "cooldown"] | None
    pause_reason: str | None
    cooldown_level: int
    interval_sec: float | None
    worker: str | None
    lease_until: Moment | None


class Ops(Document):
    """How the whole installation stands (rule J15)."""

    pending: int
    running: int
    done: int
    dead: int
    cancelled: int
    oldest_pending_sec: float
    dead_1h: int
    deadline_1h: int
    stuck_running: int
    groups_paused: int
    workers: int
    broker_ok: bool
    database_ok: bool


class Counts(Document):
    """How many jobs there are in each status."""

    queued: int
    running: int
    done: int
    failed: int
    cancelled: int


class Worker(Document):
    """A worker that lives, and whether it consumes."""

    name: str
    host: str
    pid: int
    boot_id: str
    pool: str
    concurrency: int
    lanes: list[str] | None
    started_at: Moment
    heartbeat_at: Moment
    consuming_at: Moment | None
    up_for_sec: float
    alive: bool
    consuming: bool
    trouble: str
