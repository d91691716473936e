"""What the threads of a lane consumer share: who this worker is, what it holds, and whether it may take more."""

from __future__ import annotations

import logging
import os
import queue
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from celery.worker import state
from sqlalchemy.exc import SQLAlchemyError

from config.clock import Stopwatch
from config.logs import get_logger, log_event
from config.settings import Settings
from models.attempt import limits_of
from models.claim import Begun, Claim, Taker
from models.db import Database
from models.ledger import Ledger
from models.reaper import Reaper
from routing.lanes.inflight import Held, InFlight, is_stopping

log = get_logger("ratelane.lanes")
LONGEST_REFUSAL_SEC = 60.0


@dataclass
class Desk:
    """One worker's lane consumer. Threads talk through it; nothing in it outlives the process or needs to."""

    settings: Settings
    name: str
    pool: Any
    lanes: list[str] | None = None
    boot_id: str = field(default_factory=lambda: secrets.token_hex(8))
    inflight: InFlight = field(default_factory=InFlight)
    #: set when the scout should look at once
    wake: threading.Event = field(default_factory=threading.Event)
    #: set when others may have stored work that no fold has seen
    news: threading.Event = field(default_factory=threading.Event)
    #: set when the threads must end
    over: threading.Event = field(default_factory=threading.Event)
    #: whether the consumer has a live broker connection and runs
    open: threading.Event = field(default_factory=threading.Event)
    #: claims that must go back, and attempts that ended without a word: work for a thread, never for the hub
    errands: queue.SimpleQueue[tuple[str, Held]] = field(default_factory=queue.SimpleQueue)

    #: claims in a row that could not be handed over, by group
    refused: dict[str, int] = field(default_factory=dict)
    #: since the consumer's thread came round last; it stands still while the broker is away, silent or full
    came_round: Stopwatch = field(default_factory=Stopwatch)
    #: why this worker does not consume, in one word; the watchdog's
    trouble: str = ""
    #: how often the heartbeat has written that the worker lives
    beats: int = 0
    #: takes claims to the consumer's thread; set by the step
    offer: Callable[[list[Held]], None] = lambda _held: None
    #: does for the hub's thread what takes SQL; set by the step
    clerk: Any = None

    def __post_init__(self) -> None:
        self.db = Database(self.settings.database_url, connections=5)
        self.ledger = Ledger(self.db, self.settings)
        self.reaper = Reaper(self.ledger, limits_of(self.settings))

    def size(self) -> int:
        """Return how many bodies can run at once."""
        return int(getattr(self.pool, "num_processes", None) or 1)

    def free_slots(self) -> int:
        """Return how many more claims this worker can start at once (rule R6)."""
        return max(0, self.size() - len(self.inflight) - self._ordinary())

    def _ordinary(self) -> int:
        # ordinary tasks (not from lanes) take slots too; claims that are not handed over yet make them look fewer
        return max(0, len(state.reserved_requests) - len(self.inflight))

    def row(self) -> dict[str, Any]:
        """Return this worker's row, without its times."""
        return {
            "boot_id": self.boot_id, "name": self.name, "host": socket.gethostname(), "pid": os.getpid(),
            "pool": type(self.pool).__module__.rpartition(".")[2], "concurrency": self.size(), "lanes": self.lanes,
            "heartbeat_sec": self.settings.heartbeat_sec}

    def ended(self, job_id: str, attempt: int, *, lost: bool) -> None:
        """Take note that a request has ended; `lost` if its body may have gone without a word."""
        held = self.inflight.end(job_id, attempt)
        if held is not None:
            self.refused.pop(held.claim.group, None)
            if lost:
                self.errands.put(("recover", held))
        if held is None or lost or not held.followed:
            self.wake.set()

    def may_take(self) -> bool:
        """Tell whether what is taken now would be handed over soon: connected, running, not standing still."""
        stands_still = self.came_round.elapsed() > self.settings.handover_timeout_sec
        return self.open.is_set() and not is_stopping() and not stands_still

    def runs_on_hub(self) -> bool:
        """Tell whether a body runs just now on the event loop's own thread, which answers nobody meanwhile."""
        alone = type(self.pool).__module__.endswith(".solo")
        return alone and (bool(state.active_requests) or any(held.handed for held in self.inflight.all()))

    def hear(self) -> None:
        """Have the scout fold what others stored and look for work, at once."""
        self.news.set()
        self.wake.set()

    def taker(self) -> Taker | None:
        """Return who may go on with a next job at the end of one, None while nothing new may be taken.

        The body of that job begins in the slot that has become free, unless an ordinary task might be in it first.
        """
        if not self.may_take():
            return None
        settings = self.settings
        busy = settings.park_after_sec + settings.request_timeout_sec if not self._ordinary() else None
        return Taker(self.name, self.boot_id, settings.lease_sec, self.lanes, busy)

    def go_on(self, ended: Claim, claim: Claim, begun: Begun | None = None) -> None:
        """Hold and hand over a claim that was taken, and perhaps begun, together with the end of the job `ended`."""
        # its row says so by now: kept until the next look, ten thousand of them would be megabytes
        self.inflight.settled({(ended.job_id, ended.attempt)})
        if begun is not None and begun.asked.elapsed() > self.settings.handover_timeout_sec / 2:
            # the answer was so long under way that the heartbeat may be about to hand the job back
            self.give_back(Held(claim, begun=begun))
            return
        for twice in self.inflight.add([claim], begun):
            # an older body of the same job has not ended in this process yet: it must not meet itself
            self.give_back(Held(twice, begun=begun))
            return
        held = self.inflight.get(claim.job_id, claim.attempt)
        before = self.inflight.get(ended.job_id, ended.attempt)
        if before is not None:
            # of the same lane: no slot and no lane has become free, and no other lane was ready
            before.followed = claim.group == ended.group
        if held is not None:
            self.offer([held])

    def give_back(self, held: Held) -> None:
        """Send a claim back that could not be handed over; from any thread, without touching the database here."""
        held.returning = True
        self.errands.put(("hand_back", held))
        self.wake.set()

    def refusal_wait(self, group: str) -> float:
        """Return how long a job of `group` waits after one more claim that could not be handed over, in seconds.

        Whatever keeps a lane from being handed over (a broker without memory, a body that hangs) lasts; claiming and
        handing back without a pause would only write attempts.
        """
        tries = self.refused[group] = self.refused.get(group, -1) + 1
        return min(LONGEST_REFUSAL_SEC, 2.0 ** min(tries, 10))

    def run_errands(self) -> None:
        """Do what the hub's thread left behind: give claims back, recover attempts that ended without a word."""
        for _ in range(self.errands.qsize()):
            what, held = self.errands.get()
            try:
                self._run(what, held)
            except SQLAlchemyError as error:
                # tried again with the scout's own patience; the lease ends it if that takes too long
                self.errands.put((what, held))
                log_event(log, "lanes.errand_failed", level=logging.WARNING, job=held.claim.job_id, what=what,
                          error=str(error).splitlines()[0])
                raise

    def _run(self, what: str, held: Held) -> None:
        claim = held.claim
        if what == "hand_back":
            self.ledger.hand_back(claim.job_id, claim.attempt, claim.group, wait_sec=self.refusal_wait(claim.group),
                                  begun=self.inflight.withdraw(held))
            self.inflight.end(claim.job_id, claim.attempt)
        elif what == "cancel":
            self.ledger.cancel(claim.job_id)
        elif self.inflight.withdraw(held):
            # its end came before its body: nothing has run
            self.ledger.hand_back(claim.job_id, claim.attempt, claim.group, begun=True)
        else:
            self.reaper.recover(claim.job_id, claim.attempt, claim.group)


_desk: Desk | None = None


def set_desk(desk: Desk | None) -> None:
    """Make `desk` the one of this process."""
    global _desk
    _desk = desk


def current_desk() -> Desk | None:
    """Return the lane consumer's desk of this process, None outside a worker's parent."""
    return _desk
