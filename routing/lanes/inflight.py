"""What this process holds: one entry for each claim from the moment it is taken until its request has ended."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from celery.worker import state

from config.clock import Stopwatch
from models.claim import Claim


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


class InFlight:
    """The claims of this process, keyed by (job, attempt). Safe to use from every thread."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], Held] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, claims: Iterable[Claim]) -> list[Claim]:
        """Hold new claims; returns those of which an older body still lives in this process (they must not start)."""
        twice = []
        with self._lock:
            living = {job for job, _ in self._held}
            for claim in claims:
                if claim.job_id in living:
                    twice.append(claim)
                else:
                    self._held[claim.job_id, claim.attempt] = Held(claim)
        return twice

    def get(self, job_id: str, attempt: int) -> Held | None:
        """Return what is held of this attempt."""
        return self._held.get((job_id, attempt))

    def end(self, job_id: str, attempt: int) -> Held | None:
        """Forget an attempt whose request has ended; returns what was held of it."""
        with self._lock:
            return self._held.pop((job_id, attempt), None)

    def all(self) -> list[Held]:
        """Return everything that is held now."""
        with self._lock:
            return list(self._held.values())

    def pairs(self) -> list[tuple[str, int]]:
        """Return the (job, attempt) pairs whose leases this process renews, in key order."""
        with self._lock:
            return sorted(key for key, held in self._held.items() if not held.lost and not held.returning)
