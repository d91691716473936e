"""The gate of one crawl: the group's gap, the lease, and everybody who may ask the crawl to stop (rules R8, J6, J10).

It implements `tasks.pipeline.ports.Gate`. Between two requests of a group the gap is the largest of the interval of the
target that made the last one, of this target's, and of the hosts' crawl-delays, counted from the end of the last
response; before the first request of an attempt the group's row knows that end. Answers that become slow raise the gap
behind them (see `tasks.pipeline.latency`): to the group it is the interval of its last response.

A long wait gives the slot back only at a stop point (rule R6): whatever the crawl has begun there, with its redirects
and further tries, it ends, so that every attempt gets further.
"""

from __future__ import annotations

from config import clock
from config.errors import Parked
from config.logs import get_logger, log_event
from config.probes import probe
from config.settings import Settings
from models.attempt import Attempt
from models.db import patiently
from routing.lanes.guard import Guard
from tasks.pipeline.latency import Latency, is_good
from tasks.pipeline.ports import RequestRecord

#: a request to stop is noticed within this time, half of what rule J10 allows
LOOK_EVERY_SEC = 1.0
#: the body says for so much longer than it needs that it is busy, and so says it that much more rarely
BUSY_SLACK_SEC = 10.0
#: the usual latency is written when it differs by so much from what the group's row has
_WORTH_A_WRITE = 0.25

log = get_logger("ratelane.gate")


class CrawlGate:
    """Paces and stops one attempt; `records` are the requests that no commit has carried yet."""

    def __init__(self, attempt: Attempt, guard: Guard, settings: Settings, interval_sec: float) -> None:
        started = attempt.started
        self._attempt, self._guard, self._settings = attempt, guard, settings
        self._interval, self._delay = interval_sec, started.crawl_delay_sec
        self._job, self._number = started.claim.job_id, started.claim.attempt
        #: numbered within the attempt, so that a repeated commit logs none of them twice
        self.records: list[tuple[int, RequestRecord]] = []
        self._count = 0
        self.new_delay: float | None = None
        self._latency, self._told_usual = Latency(started.usual_latency_sec), started.usual_latency_sec
        now, since = clock.monotonic(), started.since_response_sec
        #: the group's own word, and the end of its last response as far as it is known
        self._not_before = now + max(started.wait_sec, 0.0)
        self._last_end = None if since is None else now - since
        self._last_interval = started.last_interval_sec
        self._busy_until = 0.0
        self.committed(now - max(0.0, started.lease_sec - guard.left_sec()))

    def committed(self, at: float) -> None:
        """Note that a write of `at` (monotonic) set the row's `busy_until` to what every commit sets it to."""
        self._busy_until = at + self._settings.park_after_sec + self._settings.request_timeout_sec

    def before_request(self, host: str) -> float:
        """Wait for the group's turn, however long it takes; returns the gap that was required, in seconds."""
        probe("waiting", self._job, self._number)
        self._guard.heed(at_most_old=LOOK_EVERY_SEC)
        while (left := self._left()) > 0:
            self._stay_busy(left)
            clock.pause(min(left, LOOK_EVERY_SEC / 2))
            self._guard.heed(at_most_old=LOOK_EVERY_SEC)
        probe("before_guard", self._job, self._number)
        self._await_lease()
        return self._gap()

    def _await_lease(self) -> None:
        """Wait until the whole time limit of a request fits into the lease: the heartbeat renews it."""
        limit = self._settings.request_timeout_sec
        self._stay_busy(0.0)
        self._guard.heed(at_most_old=LOOK_EVERY_SEC)
        while not self._guard.fits(limit):
            clock.pause(0.05)
            self._stay_busy(0.0)
            self._guard.heed(at_most_old=0.05)

    def _stay_busy(self, wait_sec: float) -> None:
        """Write how long the body may be silent if the row does not say so: without it the lease is lost (rule J6)."""
        now, need = clock.monotonic(), wait_sec + self._settings.request_timeout_sec
        if now + need <= self._busy_until:
            return
        ledger, seconds = self._attempt.ledger, need + BUSY_SLACK_SEC
        patiently(lambda: ledger.busy(self._job, self._number, seconds))
        self._busy_until = now + seconds

    def stay_busy(self) -> None:
        """Write that the body still waits for its commit, if its row is about to say otherwise; asks once."""
        if clock.monotonic() + self._settings.request_timeout_sec < self._busy_until:
            return
        asked, seconds = clock.monotonic(), self._settings.park_after_sec + self._settings.request_timeout_sec
        self._attempt.ledger.busy(self._job, self._number, seconds)
        self._busy_until = asked + seconds

    def check(self) -> None:
        """Raise StaleClaim if a request's whole time limit no longer fits; directly before its first byte."""
        self._guard.check(self._settings.request_timeout_sec)
        probe("after_guard", self._job, self._number)

    def after_request(self, record: RequestRecord) -> None:
        """Keep the row for the next commit; the gap counts from here."""
        probe("responded", self._job, self._number)
        self._count += 1
        self.records.append((self._count, record))
        self._hear(record)
        self._last_end, self._last_interval = record.ended, max(self._interval, self._latency.raised_sec)
        self._attempt.responded = (record.ended, self._last_interval)

    def _hear(self, record: RequestRecord) -> None:
        """Take the time of an answer; robots.txt is a small file, whose time says nothing of the pages."""
        if record.url.endswith("/robots.txt"):
            return
        seconds, before = (record.answered or record.ended) - record.started, self._latency
        self._latency = before.after(
            seconds, gap_sec=record.interval_sec, interval_sec=self.gap_sec, is_good=is_good(record.status))
        if self._latency.raised_sec > before.raised_sec:
            log_event(log, "lane.slowed", job=self._job, attempt=self._number, group=self._attempt.claim.group,
                      seconds=seconds, usual_sec=before.usual_sec, gap_sec=self._latency.raised_sec)

    def take_usual(self) -> float | None:
        """Return the usual latency for the next commit if it has changed enough to be worth a write, None if not."""
        usual, told = self._latency.usual_sec, self._told_usual
        if usual is None or (told is not None and abs(usual - told) <= _WORTH_A_WRITE * told):
            return None
        self._told_usual = usual
        return usual

    def require_delay(self, host: str, seconds: float) -> None:
        """Hold a host's crawl-delay as a lower bound of the group's gap from now on (rule P4)."""
        if seconds > self._delay:
            self._delay = self.new_delay = seconds

    def bound_delay(self, seconds: float) -> None:
        """Take the largest crawl-delay of the group's hosts as they ask for it now; it may have become smaller."""
        if seconds != self._delay:
            self._delay = self.new_delay = seconds

    def stop_point(self, *, sends: bool = True) -> None:
        """Raise if somebody asked the attempt to stop, or if a request comes next and is due too late to wait for."""
        self._guard.heed(at_most_old=LOOK_EVERY_SEC)
        left = self._left()
        if sends and left > self._settings.park_after_sec:
            raise Parked("parked", delay_sec=left, detail=f"the next request is due in {left:.0f} s")

    @property
    def gap_sec(self) -> float:
        """What lies between two requests of this target, but for the interval of another one before it."""
        return max(self._interval, self._delay)

    def _gap(self) -> float:
        return max(self._last_interval, self.gap_sec)

    def _left(self) -> float:
        """Return how long the group still has to wait before its next request, in seconds."""
        due = self._not_before if self._last_end is None else max(self._not_before, self._last_end + self._gap())
        return due - clock.monotonic()
