"""What every lane task is: a Celery task whose every end settles its job (design, "How each outcome ends in Celery").

What it owns: the decision, in the process of the body, about what an end means; the write is the ledger's.

Invariants: that a body has begun is written before it runs, with its claim or by itself; a body never publishes a
retry; no end is silent (what no hook of Celery reports is recovered here).

When it dies in the middle: the row says running; the parent or the reaper recovers it.
"""

from __future__ import annotations

import traceback
from typing import Any

from celery import Task
from celery.exceptions import Ignore, Reject, Retry
from celery.result import AsyncResult

from config import clock
from config.errors import BodyEnd, Cancelled, StaleClaim
from config.logs import get_logger, log_event
from config.probes import probe
from config.settings import get_settings
from models.attempt import Attempt, current_attempt, enter, limits_of
from models.claim import Started
from models.db import get_database, patiently
from models.ledger import Ledger
from models.lifecycle import State
from models.outcome import Ended
from models.reaper import Reaper
from routing.calls import call_of, warn_of_no_effect
from routing.lanes.desk import current_desk
from routing.lanes.guard import Guard
from routing.router import CLAIM_HEADER

log = get_logger("ratelane.task")
#: what would end a body under its lease, or keep it from its slot
LIMITS = ("time_limit", "soft_time_limit", "rate_limit")


class LaneTask(Task):
    """Base of tasks that run in lanes, one job at a time in a rate group."""

    abstract = True
    Request = "routing.lanes.request:LaneRequest"
    # a message without a claim becomes a submit before it can take a slot or wait in a worker's memory
    Strategy = "routing.lanes.intake:strategy"
    # for the timing of `acknowledge` only: the broker is told nothing
    acks_late = True
    acks_on_failure_or_timeout = True
    reject_on_worker_lost = True
    default_retry_delay = 0
    ignore_result = False
    max_retries = None
    rate_limit = None
    soft_time_limit = None
    time_limit = None
    track_started = False

    @property
    def attempt(self) -> Attempt:
        """The attempt that this thread runs; raises RuntimeError outside a claim."""
        found = current_attempt()
        if found is None:
            raise RuntimeError(self._needs_a_claim())
        return found

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        """Write that the body begins, unless its claim did; one that is over, or was started before, is ignored."""
        claim = getattr(self.request, CLAIM_HEADER, None)
        enter(None)
        if claim is None:
            return
        ledger = Ledger(get_database(), get_settings())
        desk = current_desk()
        begun = None if desk is None else desk.inflight.begin(claim["job"], claim["attempt"])
        asked = clock.Stopwatch() if begun is None else begun.asked
        try:
            attempt = Attempt(ledger, _begin(ledger, claim["job"], claim["attempt"]) if begun is None else begun.started)
        except StaleClaim as stale:
            log_event(log, "claim.stale", job=claim["job"], attempt=claim["attempt"], group=claim["group"],
                      write="start")
            raise Ignore(str(stale)) from stale
        attempt.guard = Guard(ledger, attempt.started, asked)
        if desk is not None:
            # the parent itself runs this body (threads, solo): it can go on with the lane without asking again
            attempt.taker, attempt.go_on = desk.taker, desk.go_on
        enter(attempt)
        probe("started", task_id, attempt.claim.attempt)
        log_event(log, "job.start", job=task_id, attempt=attempt.claim.attempt, group=attempt.claim.group,
                  target=attempt.claim.target_code)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body under its claim; raises RuntimeError if it is called without one."""
        attempt = current_attempt(self.request.id)
        if attempt is None:
            raise RuntimeError(self._needs_a_claim())
        try:
            return self.run(*args, **kwargs)
        except (Retry, Ignore, Reject):
            raise
        except StaleClaim as stale:
            log_event(log, "claim.stale", job=attempt.claim.job_id, attempt=attempt.claim.attempt,
                      group=attempt.claim.group, write="body")
            raise Ignore(str(stale)) from stale
        except Cancelled as error:
            self._cancel(attempt, error)
        except MemoryError:
            self._gone(attempt)
        except Exception as error:
            return self._end(attempt, error)
        except BaseException:
            # SystemExit and its like: in the threads pool no hook of Celery would report it
            self._gone(attempt)

    def _end(self, attempt: Attempt, error: Exception) -> Any:
        ended = Ended(error=error, traceback="" if isinstance(error, BodyEnd) else traceback.format_exc())
        verdict = attempt.decide(ended)
        if verdict.state is State.QUEUED:
            raise Retry(exc=error)
        if verdict.state is State.DONE:
            return verdict.result
        raise error

    def _cancel(self, attempt: Attempt, error: Cancelled) -> None:
        attempt.decide(Ended(error=error))
        attempt.settle()
        self.send_event("task-revoked", terminated=True, signum=None, expired=False)
        raise Ignore("cancelled")

    def _gone(self, attempt: Attempt) -> None:
        """The body broke off without an end of its own: recover it like one whose process died."""
        reaper = Reaper(attempt.ledger, limits_of(attempt.ledger.settings))
        claim = attempt.claim
        patiently(lambda: reaper.recover(claim.job_id, claim.attempt, claim.group))
        raise Ignore("the body broke off")

    def retry(self, args: Any = None, kwargs: Any = None, exc: Any = None, throw: bool = True, **_: Any) -> Any:
        """End the attempt so that its job goes on later; publishes nothing, because waits are columns of the row.

        `exc` says why (HostCooldown, Parked, PartialCrawl, or an ordinary exception); an end for good is raised.
        """
        attempt = self.attempt
        error = exc if exc is not None else RuntimeError("retry without a reason")
        verdict = attempt.decide(Ended(error=error))
        if verdict.state is not State.QUEUED:
            raise error
        signal = Retry(exc=error)
        if throw:
            raise signal
        return signal

    @classmethod
    def on_bound(cls, app: Any) -> None:  # noqa: ARG003
        """Undo what the application's limits and annotations would do to a lane task (see `routing.calls`)."""
        limits = {name: value for name in LIMITS if (value := getattr(cls, name, None)) is not None}
        warn_of_no_effect(str(cls.name), limits)
        for name in LIMITS:
            setattr(cls, name, None)

    def apply_async(
        self, args: Any = None, kwargs: Any = None, task_id: str | None = None, **options: Any
    ) -> AsyncResult:
        """Store a job instead of publishing a message (rule J2); returns the AsyncResult of its id.

        Of Celery's options `priority` (the job's: smaller first), `countdown`, `eta`, `expires`, `link`, `link_error`
        and `chain` count. Raises BadInput, and stores nothing, for what no lane job can do.
        """
        call = call_of(self.app, self.name, args, kwargs, task_id=task_id, **options)
        return AsyncResult(call.submit(get_database(), get_settings()).job_id, app=self.app)

    def apply(self, *_args: Any, **_options: Any) -> Any:
        """Refuse to run a body here and now: it needs a claim."""
        raise RuntimeError(self._needs_a_claim())

    def _needs_a_claim(self) -> str:
        return f"{self.name} runs only under a claim: submit it with .delay() or `ratelane submit`"


def _begin(ledger: Ledger, job_id: str, number: int) -> Started:
    """Start an attempt; while the database is away try again, as long as the claim would not be handed back."""
    waited = clock.Stopwatch()
    return patiently(lambda: ledger.start(job_id, number),
                     give_up=lambda: waited.elapsed() > ledger.settings.handover_timeout_sec)
