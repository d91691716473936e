"""The guard: it stands directly before every request and lets it start only if the lease outlives its whole limit.

A worker counts its lease down from before it asked, by the largest of three clocks, and never longer than the database
said (rule J6). So a process that was frozen, or cut off from the database, stops sending before another can take over.
"""

from __future__ import annotations

from config import clock
from config.errors import Cancelled, JobDeadlineExceeded, Parked, StaleClaim
from models.claim import Pulse, Started
from models.db import patiently
from models.ledger import Ledger

#: how old a copy of the row may be before a request
FRESH_SEC = 1.0


class Guard:
    """One attempt's lease as this process knows it."""

    def __init__(self, ledger: Ledger, started: Started, asked: clock.Stopwatch) -> None:
        self._ledger, self._claim = ledger, started.claim
        self._asked, self._left = asked, started.lease_sec
        self._running, self._deadline = clock.Stopwatch(), started.deadline_sec
        self.pulse: Pulse | None = None

    def left_sec(self) -> float:
        """Return how many seconds of the lease are left at the least."""
        return self._left - self._asked.elapsed()

    def look(self, *, at_most_old: float = FRESH_SEC) -> Pulse | None:
        """Read the row again if the copy is older; raises StaleClaim if the attempt is no longer current."""
        if self._asked.elapsed() >= at_most_old or self.pulse is None:
            asked, self.pulse = patiently(self._ask)
            self._asked, self._left = asked, self.pulse.remaining_sec
        return self.pulse

    def _ask(self) -> tuple[clock.Stopwatch, Pulse]:
        asked = clock.Stopwatch()
        return asked, self._ledger.pulse(self._claim.job_id, self._claim.attempt)

    def heed(self, *, at_most_old: float = FRESH_SEC) -> None:
        """Look, and raise whatever the body is asked for: Cancelled, Parked, or JobDeadlineExceeded (rules J9, J10, R9)."""
        pulse = self.look(at_most_old=at_most_old)
        if pulse is None:
            return
        if pulse.stop_requested:
            raise Cancelled()
        if pulse.park_requested:
            raise Parked("soft_stop", detail="the worker stops")
        if pulse.paused_sec > 0:
            raise Parked("paused", delay_sec=pulse.paused_sec, detail=pulse.pause_reason)
        if pulse.quiet_sec > 0:
            raise Parked("quiet_window", delay_sec=pulse.quiet_sec, detail=f"for {pulse.quiet_sec:.0f} s")
        if self._deadline is not None and self._running.elapsed() > self._deadline:
            raise JobDeadlineExceeded(f"ran longer than {self._deadline:g} s")

    def fits(self, limit_sec: float) -> bool:
        """Tell whether something that takes at most `limit_sec` would end inside the lease."""
        return self.left_sec() > limit_sec

    def check(self, limit_sec: float) -> None:
        """Raise StaleClaim unless a request of at most `limit_sec` fits into the lease now; asks nobody."""
        if not self.fits(limit_sec):
            raise StaleClaim(self._claim.job_id, self._claim.attempt, "its lease is too short for another request")
