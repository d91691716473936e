"""The scout: a thread with its own connection that takes jobs for this worker's free slots.

It claims only while the consumer is connected and running, and only as many as can start at once. It is woken by the
listener, by a job of its own that ended, by the moment at which the next lane becomes ready, or by its poll.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from config import clock
from config.logs import get_logger, log_event
from models.claim import Claim
from models.db import is_transient
from routing.lanes.desk import Desk
from routing.lanes.inflight import Held

log = get_logger("ratelane.scout")
#: folding is for what others submitted; a lane's own next job needs none, so ends in quick succession share one
FOLD_EVERY_SEC = 0.1
ROUNDS_AT_ONCE = 8
#: a ready lane that another scout holds just now is looked at again after this long
BREATH_SEC = 0.01


class Scout(threading.Thread):
    """Takes jobs and offers them to `hand_over`, which must not block."""

    def __init__(self, desk: Desk, hand_over: Callable[[list[Held]], None]) -> None:
        super().__init__(name="ratelane-scout", daemon=True)
        self.desk, self._hand_over = desk, hand_over
        settings = desk.settings
        self._poll = settings.poll_sec
        self._folded = clock.monotonic() - FOLD_EVERY_SEC
        self._wait = 0.0
        self._trouble = 0
        # for the watchdog: looks without a failure, whether it waits after one, and what was wrong with the last
        self.looks = 0
        self.content = False
        self.lacks_database = False

    def run(self) -> None:
        """Look for work until the desk closes."""
        while not self.desk.over.is_set():
            self.content = not self._trouble
            woken = self.desk.wake.wait(self._wait)
            self.content = False
            self.desk.wake.clear()
            if self.desk.over.is_set():
                return
            try:
                self._wait = self._look(polled=not woken)
                self._trouble = 0
                self.looks += 1
                self.lacks_database = False
            except SQLAlchemyError as error:
                self.lacks_database = is_transient(error)
                self._trouble += 1
                self._wait = min(5.0, 0.1 * 2 ** min(self._trouble, 6))
                log_event(log, "scout.database_away" if is_transient(error) else "scout.failed", level=logging.WARNING,
                          error=str(error).splitlines()[0], tries=self._trouble)
            except Exception:
                # the scout must outlive whatever happens in one round: without it the worker is alive and does nothing
                self.lacks_database = False
                self._trouble += 1
                self._wait = min(5.0, 0.1 * 2 ** min(self._trouble, 6))
                log_event(log, "scout.failed", level=logging.ERROR, tries=self._trouble, exc_info=True)

    def _look(self, *, polled: bool) -> float:
        """Do one look; returns for how many seconds there is nothing to do unless somebody wakes the scout."""
        self.desk.run_errands()
        if not self.desk.may_take():
            return self._poll
        slots = self.desk.free_slots()
        if slots <= 0:
            return self._poll
        if polled or self.desk.news.is_set() or clock.monotonic() - self._folded >= FOLD_EVERY_SEC:
            self.desk.news.clear()
            self.desk.ledger.fold()
            self._folded = clock.monotonic()
        for _ in range(ROUNDS_AT_ONCE):
            round_ = self.desk.ledger.claim(slots, self.desk.name, self.desk.boot_id, self.desk.lanes)
            self._take(round_.claims)
            slots = self.desk.free_slots()
            if slots <= 0 or len(round_.claims) == round_.locked:
                break
        # without a free slot only the end of a body matters, and that wakes
        due = round_.due_sec if slots > 0 else None
        return self._poll if due is None else min(self._poll, max(BREATH_SEC, due))

    def _take(self, claims: list[Claim]) -> None:
        for claim in self.desk.inflight.add(claims):
            # an older body of the same job has not ended in this process yet: it must not meet itself
            self.desk.ledger.hand_back(
                claim.job_id, claim.attempt, claim.group, "older_body_lives",
                wait_sec=self.desk.refusal_wait(claim.group))
        held = [found for claim in claims if (found := self.desk.inflight.get(claim.job_id, claim.attempt))]
        if held:
            self._hand_over(held)
