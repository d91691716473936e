"""The attempt that a thread is running now: its claim, what it has decided about its end, and the write that ends it.

A final write is repeated until the database has answered: applied, recognised as done before, or refused because the
attempt is no longer current (rule J18). It is never given up because the database was away; if the process dies
meanwhile, the row still says running and the reaper takes it over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from config import clock
from config.backoff import delay_sec
from config.errors import StaleClaim
from config.logs import get_logger, log_event
from config.settings import Settings
from models.claim import Begun, Claim, Commit, Started, Taker
from models.db import is_transient, storage_trouble
from models.jobs import attempts
from models.ledger import Ledger
from models.outcome import Ended, Limits, Verdict, judge

log = get_logger("ratelane.attempt")


def limits_of(settings: Settings) -> Limits:
    """Return the settings that a decision about a job's end needs."""
    return Limits(
        max_recoveries=settings.max_recoveries, cooldown_retries_max=settings.cooldown_auto_retry_max,
        cooldown_total_max=settings.cooldown_auto_retry_total_max,
        js_challenges_max=settings.js_challenge_max, backoff_base_sec=settings.backoff_base_sec,
        backoff_cap_sec=settings.backoff_cap_sec, max_deadlines=settings.max_deadlines)


class Attempt:
    """One running attempt in one thread."""

    def __init__(self, ledger: Ledger, started: Started) -> None:
        self.ledger, self.started, self.claim = ledger, started, started.claim
        self.verdict: Verdict | None = None
        self.settled = self.stale = False
        #: stands before each request; the room above makes it
        self.guard: Any = None
        #: who goes on with the lane's next job when this one is done, and what to do with that claim
        self.taker: Callable[[], Taker | None] = lambda: None
        self.go_on: Callable[[Claim, Claim, Begun | None], None] | None = None
        #: when the body's last response ended (monotonic: no step of a clock may make it older) and its target's interval
        self.responded: tuple[float, float] | None = None
        self.last_completed_page = started.last_completed_page
        self._reported = 0.0

    def decide(self, ended: Ended) -> Verdict:
        """Decide what happens to the job, with what it has spent and the page it has reached."""
        tally = replace(self.started.tally, last_completed_page=self.last_completed_page)
        settings = self.ledger.settings
        backoff = delay_sec(tally.failures + 1, settings.backoff_base_sec, settings.backoff_cap_sec)
        self.verdict = judge(ended, tally, limits_of(settings), backoff_sec=backoff)
        return self.verdict

    @property
    def is_last_try(self) -> bool:
        """Whether an ordinary failure of this attempt would be the job's last."""
        return self.started.tally.failures + 1 >= self.started.tally.max_attempts

    def finish(self, result: Any) -> None:
        """Settle a body that returned."""
        if self.verdict is None:
            self.decide(Ended(result=result))
        self.settle()

    def fail(self) -> None:
        """Settle a body that failed for good; what it decided before stands."""
        if self.verdict is not None:
            self.settle()

    def settle(self) -> bool:
        """Write the verdict until it is answered; returns False if the attempt was no longer current."""
        if self.settled or self.verdict is None:
            return self.settled
        tries = 0
        while True:
            age = None if self.responded is None else clock.monotonic() - self.responded[0]
            asked = clock.Stopwatch()
            try:
                done = self.ledger.settle(
                    self.claim, self.verdict, site_code=self.started.site_code, response_age_sec=age,
                    response_interval_sec=None if self.responded is None else self.responded[1], take=self.taker())
                self.settled = True
                if done.following is not None and self.go_on is not None:
                    begun = None if done.begun is None else Begun(done.begun, asked)
                    self.go_on(self.claim, done.following, begun)
            except StaleClaim:
                self.stale = True
                # after a broken connection the write may have arrived although nobody said so
                self.settled = bool(tries) and self._written_before(self.verdict)
            except SQLAlchemyError as error:
                if not is_transient(error):
                    raise
                tries += 1
                log_event(log, "job.settle_waits", job=self.claim.job_id, attempt=self.claim.attempt, tries=tries,
                          error=type(error).__name__, reason=storage_trouble(error))
                clock.pause(min(2.0, 0.1 * 2**min(tries, 5)))
                continue
            return self.settled

    def _written_before(self, verdict: Verdict) -> bool:
        try:
            with self.ledger.db.read() as conn:
                row = conn.execute(select(attempts.c.outcome).where(
                    attempts.c.job_id == self.claim.job_id, attempts.c.attempt == self.claim.attempt)).first()
        except SQLAlchemyError:
            return False
        return row is not None and row.outcome in {verdict.why, "cancelled"}

    def report(self, meta: Any) -> None:
        """Write progress (a dict) that a body hands to `update_state`; more than two a second are dropped (J12)."""
        if not isinstance(meta, dict) or clock.monotonic() - self._reported < 0.5:
            return
        self._reported = clock.monotonic()
        page = meta.get("last_completed_page")
        self.commit(Commit(progress=meta.get("progress", meta), current_page=meta.get("current_page"),
                           last_completed_page=page, checkpoint=meta.get("checkpoint")))

    def commit(self, what: Commit) -> None:
        """Store what the body has done; raises StaleClaim, counted, if the attempt is no longer current (J7)."""
        try:
            self.ledger.commit(self.claim.job_id, self.claim.attempt, self.claim.group, what)
        except StaleClaim:
            if not self.stale:
                self.stale = True
                self.ledger.count("fenced_writes")
                log_event(log, "claim.stale", job=self.claim.job_id, attempt=self.claim.attempt,
                          group=self.claim.group, write="commit")
            raise
        if what.last_completed_page is not None:
            self.last_completed_page = what.last_completed_page


_local = threading.local()


def enter(attempt: Attempt | None) -> None:
    """Make `attempt` the one that this thread runs; None when it is over."""
    _local.attempt = attempt


def current_attempt(job_id: str | None = None) -> Attempt | None:
    """Return the attempt that this thread runs, if there is one and it is of the job named `job_id`."""
    found: Attempt | None = getattr(_local, "attempt", None)
    if found is None or (job_id is not None and found.claim.job_id != job_id):
        return None
    return found

