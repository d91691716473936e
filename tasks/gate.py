"""The gate of one crawl: the group's gap, the lease, and everybody who may ask the crawl to stop (rules R8, J6, J10).

It implements `tasks.pipeline.ports.Gate`. Between two requests of a group the gap is the largest of the interval of the
target that made the last one, of this target's, and of the hosts' crawl-delays, counted from the end of the last
response; before the first request of an attempt the group's row knows that end.
"""

from __future__ import annotations

from config import clock
from config.errors import Cancelled, JobDeadlineExceeded, Parked
from config.probes import probe
from config.settings import Settings
from models.attempt import Attempt
from routing.lanes.guard import Guard
from tasks.pipeline.ports import RequestRecord

#: a request to stop is noticed within this time, half of what rule J10 allows
LOOK_EVERY_SEC = 1.0


class CrawlGate:
    """Paces and stops one attempt; `records` are the requests that no commit has carried yet."""

    def __init__(self, attempt: Attempt, guard: Guard, settings: Settings, interval_sec: float) -> None:
        started = attempt.started
        self._attempt, self._guard, self._settings = attempt, guard, settings
        self._interval = interval_sec
        self._delay = started.crawl_delay_sec
        self._job, self._number = started.claim.job_id, started.claim.attempt
        self._running = clock.Stopwatch()
        #: numbered within the attempt, so that a repeated commit logs none of them twice
        self.records: list[tuple[int, RequestRecord]] = []
        self._count = 0
        self.new_delay: float | None = None
        since = started.since_response_sec
        own = 0.0 if since is None else max(interval_sec, self._delay) - since
        self._due = clock.monotonic() + max(started.wait_sec, own, 0.0)
        self._first_gap = max(started.last_interval_sec, interval_sec, self._delay)
        self._any = False

    def before_request(self, host: str) -> float:
        """Wait for the group's turn; returns the gap that was required, in seconds."""
        gap = max(self._interval, self._delay) if self._any else self._first_gap
        left = self._due - clock.monotonic()
        if left > self._settings.park_after_sec:
            raise Parked("parked", delay_sec=left, detail=f"{host} is due in {left:.0f} s")
        probe("waiting", self._job, self._number)
        self._watch(at_most_old=LOOK_EVERY_SEC)
        while (left := self._due - clock.monotonic()) > 0:
            clock.pause(min(left, LOOK_EVERY_SEC / 2))
            self._watch(at_most_old=LOOK_EVERY_SEC)
        probe("before_guard", self._job, self._number)
        self._await_lease()
        return gap

    def _await_lease(self) -> None:
        """Wait until the whole time limit of a request fits into the lease: the heartbeat renews it."""
        limit = self._settings.request_timeout_sec
        self._watch(at_most_old=LOOK_EVERY_SEC)
        while not self._guard.fits(limit):
            clock.pause(0.05)
            self._watch(at_most_old=0.05)

    def check(self) -> None:
        """Raise StaleClaim if a request's whole time limit no longer fits; directly before its first byte."""
        self._guard.check(self._settings.request_timeout_sec)
        probe("after_guard", self._job, self._number)

    def after_request(self, record: RequestRecord) -> None:
        """Keep the row for the next commit; the gap counts from here."""
        probe("responded", self._job, self._number)
        self._count += 1
        self.records.append((self._count, record))
        self._any = True
        self._due = record.ended + max(self._interval, self._delay)
        self._attempt.responded = (clock.Stopwatch(), self._interval)

    def require_delay(self, host: str, seconds: float) -> None:
        """Hold a host's crawl-delay as a lower bound of the group's gap from now on (rule P4)."""
        if seconds > self._delay:
            if self._any:
                self._due += seconds - max(self._interval, self._delay) if seconds > self._interval else 0.0
            self._delay = self.new_delay = seconds

    def stop_point(self) -> None:
        """Raise if somebody asked the attempt to stop: between pages and between items."""
        self._watch(at_most_old=LOOK_EVERY_SEC)

    def _watch(self, *, at_most_old: float) -> None:
        pulse = self._guard.look(at_most_old=at_most_old)
        if pulse is None:
            return
        if pulse.stop_requested:
            raise Cancelled()
        if pulse.park_requested:
            raise Parked("soft_stop", detail="the worker stops")
        if pulse.paused_sec > 0:
            raise Parked("paused", delay_sec=pulse.paused_sec, detail=pulse.pause_reason)
        deadline = self._attempt.started.deadline_sec
        if deadline is not None and self._running.elapsed() > deadline:
            raise JobDeadlineExceeded(f"ran longer than {deadline:g} s")
