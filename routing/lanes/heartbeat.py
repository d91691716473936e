"""The heartbeat: a thread that renews this worker's leases and reaps; what may wait is the chores' (`chores.py`).

It lives through broker outages, solo tasks and the pool's drain, because the hub stands still in all of them. Its
answer also corrects what this process believes it holds.
"""

from __future__ import annotations

import logging
import threading

from celery.worker import state
from sqlalchemy.exc import SQLAlchemyError

from config.clock import Stopwatch
from config.devstack import LifeLock
from config.logs import get_logger, log_event
from models.db import is_transient, storage_trouble
from routing.lanes.consumption import STOPPING
from routing.lanes.desk import Desk
from routing.lanes.inflight import is_stopping

log = get_logger("ratelane.heartbeat")
LOOK_EVERY_SEC = 0.25


class Heartbeat(threading.Thread):
    """Renews, hands back, reaps and says that this worker lives."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(name="ratelane-heartbeat", daemon=True)
        self.desk = desk
        self._period = desk.settings.heartbeat_sec
        self._since_gap: Stopwatch | None = None
        self._last = Stopwatch()
        self._parked = False
        self._told = ""

    def run(self) -> None:
        """Beat until the desk closes."""
        wait = 0.0
        while not self._rest(wait):
            try:
                wait = self.beat()
            except SQLAlchemyError as error:
                log_event(log, "heartbeat.database_away" if is_transient(error) else "heartbeat.failed",
                          level=logging.WARNING, error=str(error).splitlines()[0], reason=storage_trouble(error))
                wait = min(1.0, self._period / 2)
            except Exception:
                # without renewals every lease of this worker is lost: the thread outlives whatever one round brings
                log_event(log, "heartbeat.failed", level=logging.ERROR, exc_info=True)
                wait = min(1.0, self._period / 2)

    def _rest(self, seconds: float) -> bool:
        """Wait for the next beat, or until there is something new to say; tells whether the desk has closed.

        It looks instead of being told: that the worker stops comes in a signal handler, which may take no lock.
        """
        rest = Stopwatch()
        while (left := seconds - rest.elapsed()) > 0 and not self._has_news():
            if self.desk.over.wait(min(left, LOOK_EVERY_SEC)):
                return True
        return self.desk.over.is_set()

    def _has_news(self) -> bool:
        return not self._parked if is_stopping() else self.desk.trouble != self._told

    def beat(self) -> float:
        """Do one round; returns the seconds until the next."""
        stopping = is_stopping()
        asked = Stopwatch()
        answers = self.desk.ledger.renew(self.desk.inflight.pairs())
        # told once, even if the database does not take it: the next round comes soon enough
        self._told = STOPPING if stopping else self.desk.trouble
        self.desk.ledger.seen(self.desk.boot_id, trouble=self._told)
        self.desk.beats += 1
        self._note_renewal(asked)
        locked = self._correct(answers)
        if stopping:
            self._park()
        self._hand_back_late()
        self._look_for_leftovers()
        self._leave_if_crippled()
        if self._may_reap() and not stopping and self.desk.reaper.reap():
            self.desk.wake.set()
        if locked or stopping:
            return min(0.5, self._period)
        return max(0.0, self._period - asked.elapsed())

    def _leave_if_crippled(self) -> None:
        """Stop the worker for its supervisor when bodies that do not end hold a quarter of its slots."""
        if not self.desk.open.is_set():
            # the hub stands still without a broker, and nobody can be told that a pool child's body has ended
            for held in self.desk.inflight.all():
                held.lost_for = Stopwatch() if held.lost_for is not None else None
            return
        hanging = [held for held in self.desk.inflight.all()
                   if held.lost_for is not None and held.lost_for.elapsed() > self.desk.settings.lease_sec]
        if hanging and len(hanging) * 4 >= self.desk.size() and not is_stopping():
            log_event(log, "worker.crippled", level=logging.ERROR, hanging=len(hanging), slots=self.desk.size())
            state.should_stop = 1

    def _note_renewal(self, asked: Stopwatch) -> None:
        """A gap in renewing (an outage, a frozen process) takes the right to reap away for one lease (rule J8)."""
        if self._since_gap is None or self._last.elapsed() > self._period * 2 + 1.0:
            self._since_gap = asked
        self._last = asked

    def _may_reap(self) -> bool:
        return self._since_gap is not None and self._since_gap.elapsed() >= self.desk.settings.lease_sec

    def _correct(self, answers: list[tuple[str, int, str, float, bool]]) -> bool:
        locked = False
        for job, attempt, answer, _, started in answers:
            held = self.desk.inflight.get(job, attempt)
            if held is None:
                continue
            # what began with its claim says so before its body runs here
            held.started = held.started or (started and held.begun is None)
            locked = locked or answer == "locked"
            if answer == "lost" and held.started:
                # its body may still live: the slot stays occupied until the request ends, the lease is another's
                held.lost, held.lost_for = True, Stopwatch()
                log_event(log, "lease.lost", level=logging.WARNING, job=job, attempt=attempt, group=held.claim.group)
            elif answer == "stalled":
                log_event(log, "lease.stalled", level=logging.WARNING, job=job, attempt=attempt, group=held.claim.group)
        return locked

    def _park(self) -> None:
        if not self._parked:
            log_event(log, "worker.stopping", jobs=len(self.desk.inflight))
            self._parked = True
        self.desk.ledger.park([held.claim.job_id for held in self.desk.inflight.all()], self.desk.boot_id)

    def _hand_back_late(self) -> None:
        """Give back what the pool did not start in time; nothing is spent."""
        for held in self.desk.inflight.all():
            late = held.since.elapsed() > self.desk.settings.handover_timeout_sec
            if late and not held.started and not held.lost:
                claim = held.claim
                begun = self.desk.inflight.withdraw(held)
                if self.desk.ledger.hand_back(claim.job_id, claim.attempt, claim.group, begun=begun):
                    held.lost = True
                    if held.handed:
                        # the pool has it and does not start it: the slot is as good as lost until the request ends
                        held.lost_for = Stopwatch()
                    else:
                        self.desk.inflight.end(claim.job_id, claim.attempt)

    def _look_for_leftovers(self) -> None:
        """Rows of this boot that it does not hold: a claim whose answer got lost, or an end that settled nothing."""
        entered = self.desk.inflight.entered()
        rows = self.desk.ledger.running_of(self.desk.boot_id)
        self.desk.inflight.settled(entered - {(row.job_id, row.attempt) for row in rows})
        for row in rows:
            if self.desk.inflight.get(row.job_id, row.attempt) is not None:
                continue
            # what began with its claim and was never entered here: the answer got lost, or is still under way
            unseen = row.followed and (row.job_id, row.attempt) not in self.desk.inflight.entered()
            not_started = unseen or not row.started
            if not_started and row.age_sec < self.desk.settings.handover_timeout_sec:
                continue
            if not_started:
                self.desk.ledger.hand_back(row.job_id, row.attempt, row.group_key, begun=unseen)
            elif self.desk.inflight.get(row.job_id, row.attempt) is None:
                self.desk.reaper.recover(row.job_id, row.attempt, row.group_key)

    def take_over_the_dead(self) -> None:
        """At the start: recover what workers of this home left that are certainly dead (their lock files are free)."""
        home = self.desk.settings.home
        dead = LifeLock.dead(home)
        for reaped in self.desk.reaper.recover_dead(dead):
            log_event(log, "worker.took_over", job=reaped.job_id, group=reaped.group, verdict=reaped.verdict)
        for boot_id in dead:
            self.desk.ledger.seen(boot_id, stopped=True)
            LifeLock.forget(home, boot_id)
