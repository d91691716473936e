"""The watchdog: a thread that sees whether this worker consumes, says why not, and ends it if that will not pass.

It asks the event loop for an answer every round, counts the rounds of the scout and of the heartbeat, and tries the
broker on a connection of its own while consumer or event loop stand still. What follows from all that is decided in
`routing.lanes.consumption`.

When it ends the worker it asks first, as an operator would: bodies go to their next stop point and give their jobs
back. A process that still lives after the soft stop is ended at once; leases do the rest.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from celery.worker import state

from config import clock
from config.logs import get_logger, log_event
from config.settings import Settings
from routing.broker import broker_problem
from routing.lanes.consumption import Facts, Limits, Verdict, judge
from routing.lanes.desk import Desk
from routing.lanes.inflight import is_stopping

log = get_logger("ratelane.watchdog")
ROUND_SEC = 1.0
#: the broker is tried this often in a watchdog's time while consumer or event loop stand still
TRIES = 12


class Looker(Protocol):
    """What the watchdog wants to know of the scout."""

    #: how often it has looked for work without a failure
    looks: int
    #: whether it waits for work after such a look
    content: bool
    #: whether its last look failed because of the database
    lacks_database: bool

    def is_alive(self) -> bool:
        """Tell whether the thread runs."""


def _in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="ratelane-broker-trial", daemon=True).start()


class Silence:
    """For how many seconds of this process's own time something has not moved."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._mark: object = None

    def note(self, passed: float, *, moved: bool = False, mark: object = None) -> float:
        """Add `passed` seconds, or begin anew if it has `moved` or its `mark` is another one; returns the seconds."""
        still = not moved and mark == self._mark
        self.seconds, self._mark = self.seconds + passed if still else 0.0, mark
        return self.seconds


class Watchdog(threading.Thread):
    """Judges this worker once a second; `ask_hub` has the event loop call what it is given, `others` are to live too."""

    def __init__(
        self, desk: Desk, scout: Looker, ask_hub: Callable[[Callable[[], None]], None], *,
        others: Sequence[threading.Thread] = (), try_broker: Callable[[Settings], str | None] = broker_problem,
        apart: Callable[[Callable[[], None]], None] = _in_thread,
        end: Callable[[int], None] = os._exit,
    ) -> None:
        super().__init__(name="ratelane-watchdog", daemon=True)
        self.desk, self.scout, self._others = desk, scout, others
        self._ask_hub, self._try_broker, self._apart, self._end = ask_hub, try_broker, apart, end
        settings = desk.settings
        self.limits = Limits(max(5.0, 2 * settings.heartbeat_sec), settings.watchdog_sec)
        self.round_sec = min(ROUND_SEC, settings.watchdog_sec / 4 or ROUND_SEC)
        self._answers = 0
        self._hub, self._beat, self._look, self._closed, self._dead = (Silence() for _ in range(5))
        self._broker_answers_sec, self._untried_sec, self._broker_away, self._trying = 0.0, 0.0, False, False

    def run(self) -> None:
        """Judge until the desk closes or the worker has to end."""
        since = clock.Stopwatch()
        while not self.desk.over.wait(self.round_sec):
            try:
                # a process that stood still, as a whole, has not watched: that time counts for nothing
                verdict = self.look(min(since.elapsed(), 2 * self.round_sec))
                since = clock.Stopwatch()
            except Exception:
                log_event(log, "watchdog.failed", level=logging.ERROR, exc_info=True)
                continue
            if verdict.leave:
                self.leave(verdict)
                return

    def look(self, passed: float) -> Verdict:
        """Take note of what moved in the last `passed` seconds, judge, and tell the other threads."""
        verdict = judge(self._facts(passed), self.limits)
        if verdict.trouble != self.desk.trouble:
            log_event(log, "worker.consumes_not" if verdict.trouble else "worker.consumes", worker=self.desk.name,
                      level=logging.WARNING if verdict.trouble else logging.INFO, reason=verdict.trouble or None)
            self.desk.trouble = verdict.trouble
            self.desk.wake.set()
        return verdict

    def _facts(self, passed: float) -> Facts:
        scout, is_open = self.scout, self.desk.open.is_set()
        closed_sec = self._closed.note(passed, moved=is_open)
        if is_open and self._hub.seconds <= self.limits.patience_sec / 2:
            self._broker_answers_sec, self._untried_sec, self._broker_away = 0.0, 0.0, False
        elif self.limits.watchdog_sec:
            self._ask_broker(passed)
        excused = self.desk.runs_on_hub()
        facts = Facts(
            stopping=is_stopping(), trouble=self.desk.trouble,
            dead_sec=self._dead.note(passed, moved=all(thread.is_alive() for thread in self._others)),
            beat_silent_sec=self._beat.note(passed, mark=self.desk.beats),
            scout_silent_sec=self._look.note(passed, moved=scout.is_alive() and scout.content, mark=scout.looks),
            scout_lacks_database=scout.lacks_database, closed_sec=closed_sec,
            broker_answers_sec=self._broker_answers_sec, broker_away=self._broker_away,
            # without a connection the event loop waits for one
            hub_silent_sec=self._hub.note(passed, moved=excused or not is_open, mark=self._answers))
        self._ask_hub(self._answered)
        return facts

    def _answered(self) -> None:
        self._answers += 1

    def _ask_broker(self, passed: float) -> None:
        self._untried_sec += passed
        if not self._trying and self._untried_sec >= self.limits.watchdog_sec / TRIES:
            self._trying = True
            # a broker that accepts and says nothing takes seconds to find out; the watch must go on meanwhile
            self._apart(self._try)

    def _try(self) -> None:
        self._broker_away = self._try_broker(self.desk.settings) is not None
        self._broker_answers_sec = 0.0 if self._broker_away else self._broker_answers_sec + self._untried_sec
        self._untried_sec, self._trying = 0.0, False

    def leave(self, verdict: Verdict) -> None:
        """End this process for its supervisor, softly if it still can."""
        log_event(log, "worker.watchdog", level=logging.ERROR, worker=self.desk.name, reason=verdict.trouble,
                  jobs=len(self.desk.inflight), soft_stop_sec=self.desk.settings.soft_stop_sec)
        state.should_stop = 1
        clock.pause(self.desk.settings.soft_stop_sec)
        log_event(log, "worker.ended_by_force", level=logging.ERROR, worker=self.desk.name, reason=verdict.trouble)
        self._end(1)
