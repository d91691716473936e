"""Every error of Ratelane that crosses a room, with the facts as attributes.

Two families: what a command reports to a person (each carries the exit code of the command line contract), and how
the body of a job ends when it does not simply return (decisions, not failures; the outcome table of `models.outcome`
maps each of them).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class RatelaneError(Exception):
    """Something failed in a way that a person can act on."""

    exit_code = 1


class BadInput(RatelaneError):
    """The request, a file or a setting cannot be accepted as it stands."""

    exit_code = 2


class Unknown(BadInput):
    """Nothing has the name that was given."""


class ServiceAway(RatelaneError):
    """A server that the command needs does not answer."""

    exit_code = 3


class BodyEnd(Exception):
    """The body of a job ends here for a reason that is neither success nor an ordinary failure."""


class StaleClaim(BodyEnd):
    """The attempt is no longer the current one of its job: stop at once, write nothing."""

    def __init__(self, job_id: str = "", attempt: int = 0, found: str = "") -> None:
        super().__init__(f"attempt {attempt} of job {job_id} is no longer current ({found or 'another attempt runs'})")
        self.job_id, self.attempt, self.found = job_id, attempt, found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.job_id, self.attempt, self.found)


class Cancelled(BodyEnd):
    """Somebody asked the running job to stop."""


class Parked(BodyEnd):
    """The job gives its place back and goes on later; nothing is spent.

    `reason` is one of ``paused``, ``parked`` (a wait longer than `park_after`), ``soft_stop``, ``quiet_window``,
    ``storage``, ``robots_unreachable``; `delay_sec` is the earliest moment of going on, counted from now; after ``paused``
    and ``quiet_window`` the rows say when.
    """

    def __init__(self, reason: str = "parked", delay_sec: float = 0.0, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.delay_sec, self.detail = reason, delay_sec, detail

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.delay_sec, self.detail)


@dataclass(frozen=True)
class Evidence:
    """What a site sent when it objected: enough to judge the block afterwards.

    `headers` are the response's, `body` at most the first 2,000 characters, `hops` the URLs that led here,
    `retry_after_raw` the header as it came (None if there was none).
    """

    kind: str
    status: int | None
    url: str
    signs: tuple[str, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    hops: tuple[str, ...] = ()
    retry_after_raw: str | None = None

    def line(self) -> str:
        """The evidence as the one line that rule C1 names: ``host_cooldown: <kind> <status> <url>``."""
        return f"host_cooldown: {self.kind} {self.status if self.status is not None else '-'} {self.url}".rstrip()


class HostCooldown(BodyEnd):
    """The site's firewall objected: the whole rate group pauses and the job goes on from its checkpoint.

    `retry_after_sec` is what the server asked for (None if it did not, or not in a readable way).
    """

    def __init__(self, evidence: Evidence, retry_after_sec: float | None = None) -> None:
        super().__init__(evidence.line())
        self.evidence, self.retry_after_sec = evidence, retry_after_sec

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.evidence, self.retry_after_sec)


class PartialCrawl(BodyEnd):
    """The walk is over but something could not be read: it is repeated with backoff, counted as a failure.

    `result` is the crawl's result document as it stands; it is kept if the tries are used up.
    """

    def __init__(self, reason: str, result: dict[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.reason, self.result = reason, result or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.result)


class PermanentJobError(Exception):
    """The job can never succeed as it stands (target gone, adapter unknown, bad options): it fails at once."""


class JobDeadlineExceeded(BodyEnd):
    """The attempt used up its running time; it goes on behind the others."""


class JobFailed(Exception):
    """What `AsyncResult` answers for a failed job: its error text as the job's row has it."""


class JobWaits(Exception):
    """What `AsyncResult` answers for a job that goes on later: why it waits."""
