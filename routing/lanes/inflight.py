"""What this process holds: one entry for each claim from the moment it is taken until its request has ended."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from celery.worker import state

from config.clock import Stopwatch
from models.claim import Begun, Claim


def is_stopping() -> bool:
    """Tell whether Celery has begun to stop this worker: nothing new is taken from then on."""
    return state.should_stop is not None or state.should_terminate is not None


@dataclass
class Held:
    """One claim in this process: not handed over yet, handed over, started, or lost (its lease went to another)."""

    claim: Claim
    since: Stopwatch = field(default_factory=Stopwatch)
    handed: bool = False
    #: its message has become a request; another one with the same claim is a copy
    received: bool = False
    started: bool = False
    lost: bool = False
    #: since the lease went to another while the body still lived here
    lost_for: Stopwatch | None = None
    returning: bool = False
    #: its lane has gone on with its next job in the transaction that ended it: nothing is left for the scout to see
    followed: bool = False
    #: what its body starts with, until it does, if the row says already that it has begun
    begun: Begun | None = None
    #: its body will not start here, and so does not take the above
    withdrawn: bool = False

    @property
    def is_sure_of_its_lease(self) -> bool:
        """Whether what has begun is certainly this process's still, by no more than what its taking told (rule J6)."""
        return self.begun is not None and self.begun.asked.elapsed() < self.begun.started.lease_sec


class InFlight:
    """The claims of this process, keyed by (job, attempt). Safe to use from every thread."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], Held] = {}
        #: the bodies that took up what had begun, of which nobody has seen yet that they are settled
        self._entered: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, claims: Iterable[Claim], begun: Begun | None = None) -> list[Claim]:
        """Hold new claims; returns those of which an older body still lives in this process (they must not start).

        `begun` is what the body of a single claim starts with, if that has begun.
        """
        twice = []
        with self._lock:
            living = {job for job, _ in self._held}
            for claim in claims:
                if claim.job_id in living:
                    twice.append(claim)
                else:
                    self._held[claim.job_id, claim.attempt] = Held(claim, begun=begun)
        return twice

    def get(self, job_id: str, attempt: int) -> Held | None:
        """Return what is held of this attempt."""
        return self._held.get((job_id, attempt))

    def end(self, job_id: str, attempt: int) -> Held | None:
        """Forget an attempt whose request has ended; returns what was held of it."""
        with self._lock:
            return self._held.pop((job_id, attempt), None)

    def begin(self, job_id: str, attempt: int) -> Begun | None:
        """Let a body start with what has begun, once; None if it has to ask the ledger whether it may start."""
        with self._lock:
            held = self._held.get((job_id, attempt))
            if held is None or held.withdrawn or held.lost or not held.is_sure_of_its_lease:
                return None
            begun, held.begun = held.begun, None
            held.started = True
            self._entered.add((job_id, attempt))
            return begun

    def withdraw(self, held: Held) -> bool:
        """Keep the body of what has begun from starting here; tells whether it had begun, and has not and will not start."""
        with self._lock:
            held.withdrawn = held.begun is not None
            return held.withdrawn

    def entered(self) -> set[tuple[str, int]]:
        """Return the bodies that took up what had begun and are not known to be settled."""
        with self._lock:
            return set(self._entered)

    def settled(self, pairs: set[tuple[str, int]]) -> None:
        """Forget bodies that were entered and are settled."""
        with self._lock:
            self._entered -= pairs

    def all(self) -> list[Held]:
        """Return everything that is held now."""
        with self._lock:
            return list(self._held.values())

    def pairs(self) -> list[tuple[str, int]]:
        """Return the (job, attempt) pairs whose leases this process renews, in key order."""
        with self._lock:
            return sorted(key for key, held in self._held.items() if not held.lost and not held.returning)
