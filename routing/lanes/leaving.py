"""The end of a worker that was told to stop: how long its bodies may still take (rule D5).

A soft stop waits for them, but no longer than `soft_stop_sec`. A cold one gives them a moment: threads cannot be killed,
so the process leaves without them, as if it had been killed, and whoever starts next takes their jobs over. Pools of
processes end their bodies themselves.
"""

from __future__ import annotations

import logging
import os
import threading

from celery.worker import state

from config.clock import Stopwatch
from config.logs import get_logger, log_event
from routing.lanes.desk import Desk
from routing.lanes.inflight import is_stopping

log = get_logger("ratelane.leaving")
LOOK_EVERY_SEC = 0.1
#: a body between two requests reaches its next stop point in this time; one in the middle of a request does not
COLD_SEC = 1.5


class Leaving(threading.Thread):
    """Watches the bodies of a stopping worker, and ends the process if they take too long."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(name="ratelane-leaving", daemon=True)
        self._desk = desk
        self._soft: Stopwatch | None = None
        self._cold: Stopwatch | None = None

    def run(self) -> None:
        """Look until the desk closes."""
        while not self._desk.over.wait(LOOK_EVERY_SEC):
            why = self.overdue()
            if why:
                log_event(log, "worker.leaves_without_its_jobs", level=logging.WARNING, why=why,
                          jobs=",".join(held.claim.job_id for held in self._desk.inflight.all()))
                logging.shutdown()
                os._exit(1)

    def overdue(self) -> str:
        """Return why this process may not wait for its bodies any longer, "" if it may."""
        if not is_stopping():
            return ""
        self._soft = self._soft or Stopwatch()
        if state.should_terminate is not None and is_in_process(self._desk.pool):
            self._cold = self._cold or Stopwatch()
        if not len(self._desk.inflight):
            return ""
        if self._cold is not None and self._cold.elapsed() > COLD_SEC:
            return "cold stop"
        return "soft stop is over" if self._soft.elapsed() > self._desk.settings.soft_stop_sec else ""


def is_in_process(pool: object) -> bool:
    """Tell whether a pool runs its bodies in the worker's own process (threads, solo), where none can be killed."""
    return not type(pool).__module__.endswith("prefork")
