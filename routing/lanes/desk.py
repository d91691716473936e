"""What the threads of a lane consumer share: who this worker is, what it holds, and whether it may take more."""

from __future__ import annotations

import os
import queue
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from config.logs import get_logger, log_event
from config.settings import Settings
from models.attempt import limits_of
from models.claim import Claim, Taker
from models.db import Database
from models.ledger import Ledger
from models.reaper import Reaper
from routing.lanes.inflight import Held, InFlight, is_stopping

log = get_logger("ratelane.lanes")


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
    #: set when the threads must end
    over: threading.Event = field(default_factory=threading.Event)
    #: whether the consumer has a live broker connection and runs
    open: threading.Event = field(default_factory=threading.Event)
    #: claims that must go back, and attempts that ended without a word: work for a thread, never for the hub
    errands: queue.SimpleQueue[tuple[str, Held]] = field(default_factory=queue.SimpleQueue)

    #: takes claims to the consumer's thread; set by the step
    offer: Callable[[list[Held]], None] = lambda _held: None

    def __post_init__(self) -> None:
        self.db = Database(self.settings.database_url, connections=6)
        self.ledger = Ledger(self.db, self.settings)
        self.reaper = Reaper(self.ledger, limits_of(self.settings))

    def size(self) -> int:
        """Return how many bodies can run at once."""
        return int(getattr(self.pool, "num_processes", None) or 1)

    def free_slots(self) -> int:
        """Return how many more claims this worker can start at once (rule R6)."""
        return max(0, self.size() - len(self.inflight) - ordinary_requests())

    def row(self) -> dict[str, Any]:
        """Return this worker's row, without its times."""
        return {
            "boot_id": self.boot_id, "name": self.name, "host": socket.gethostname(), "pid": os.getpid(),
            "pool": type(self.pool).__module__.rpartition(".")[2], "concurrency": self.size(), "lanes": self.lanes,
            "heartbeat_sec": self.settings.heartbeat_sec}

    def ended(self, job_id: str, attempt: int, *, lost: bool) -> None:
        """Take note that a request has ended; `lost` if its body may have gone without a word."""
        held = self.inflight.end(job_id, attempt)
        if held is not None and lost:
            self.errands.put(("recover", held))
        self.wake.set()

    def taker(self) -> Taker | None:
        """Return who may go on with a lane's next job at the end of one, None while nothing new may be taken."""
        if not self.open.is_set() or is_stopping():
            return None
        return Taker(self.name, self.boot_id, self.settings.lease_sec)

    def go_on(self, claim: Claim) -> None:
        """Hold and hand over a claim that was taken together with the end of the job before it."""
        for twice in self.inflight.add([claim]):
            # an older body of the same job has not ended in this process yet: it must not meet itself
            self.give_back(Held(twice))
            return
        held = self.inflight.get(claim.job_id, claim.attempt)
        if held is not None:
            self.offer([held])

    def give_back(self, held: Held) -> None:
        """Send a claim back that could not be handed over; from any thread, without touching the database here."""
        held.returning = True
        self.errands.put(("hand_back", held))
        self.wake.set()

    def run_errands(self) -> None:
        """Do what the hub's thread left behind: give claims back, recover attempts that ended without a word."""
        while not self.errands.empty():
            what, held = self.errands.get()
            claim = held.claim
            try:
                if what == "hand_back":
                    self.ledger.hand_back(claim.job_id, claim.attempt, claim.group)
                    self.inflight.end(claim.job_id, claim.attempt)
                elif what == "cancel":
                    self.ledger.cancel(claim.job_id)
                else:
                    self.reaper.recover(claim.job_id, claim.attempt, claim.group)
            except Exception as error:
                self.errands.put((what, held))
                log_event(log, "lanes.errand_failed", job=claim.job_id, what=what, error=repr(error))
                raise


def ordinary_requests() -> int:
    """Return how many requests of ordinary tasks (not from lanes) Celery has reserved in this process."""
    from celery.worker import state

    return sum(1 for request in list(state.reserved_requests) if not getattr(request, "lane_claim", None))


_desk: Desk | None = None


def set_desk(desk: Desk | None) -> None:
    """Make `desk` the one of this process."""
    global _desk
    _desk = desk


def current_desk() -> Desk | None:
    """Return the lane consumer's desk of this process, None outside a worker's parent."""
    return _desk
