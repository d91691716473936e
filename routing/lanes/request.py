"""Celery's request of a lane job: the parent learns through it that a body has ended.

`acknowledge` and `reject` are the two calls that every ordinary end makes; the broker is not told anything, because a
lane's message was taken without acknowledgement. A message without a claim (another producer's) is an ordinary one.
"""

from __future__ import annotations

from typing import Any

from celery.worker.request import Request

from config.probes import probe
from routing.lanes.desk import current_desk
from routing.lanes.leaving import is_in_process
from routing.router import CLAIM_HEADER


class LaneRequest(Request):
    """A request whose end frees a slot and wakes the scout."""

    acknowledged: bool = False

    def __init__(self, message: Any, **options: Any) -> None:
        super().__init__(message, **options)
        self.lane_claim: dict[str, Any] | None = self._request_dict.get(CLAIM_HEADER)
        if self.lane_claim is not None:
            # the hard limit and the terminate call report an end before the body is dead
            self.time_limits = (None, None)

    def acknowledge(self) -> None:
        """Note that the body has ended and has settled its job."""
        self._end(lost=False) if self.lane_claim is not None else super().acknowledge()

    def reject(self, requeue: bool = False) -> None:
        """Note that the body may have gone without a word."""
        self._end(lost=True) if self.lane_claim is not None else super().reject(requeue=requeue)

    def _end(self, *, lost: bool) -> None:
        if self.acknowledged or self.lane_claim is None:
            return
        self.acknowledged = True
        job, attempt = self.lane_claim["job"], self.lane_claim["attempt"]
        probe("acknowledged", job, attempt)
        desk = current_desk()
        if desk is not None:
            desk.ended(job, attempt, lost=lost)

    def revoked(self) -> bool:
        """Leave lane jobs alone: whether one is cancelled stands in its row, not in a worker's memory."""
        return False if self.lane_claim is not None else bool(super().revoked())

    def cancel(self, pool: Any, signal: Any = None, emit_retry: bool = True) -> None:
        """At a cold stop, let a pool of processes end the body; a thread is left to `Leaving`, for nobody can kill it.

        Without this Celery would raise in its own signal handler: in the middle of the body, if the pool is solo.
        """
        if self.lane_claim is None or not is_in_process(pool):
            super().cancel(pool, signal=signal, emit_retry=emit_retry)

    def terminate(self, pool: Any, signal: Any = None) -> None:
        """Ask a lane job to stop at its next stop point instead of killing the process under it."""
        if self.lane_claim is None:
            super().terminate(pool, signal=signal)
            return
        desk = current_desk()
        held = desk.inflight.get(self.lane_claim["job"], self.lane_claim["attempt"]) if desk is not None else None
        if desk is not None and held is not None:
            desk.errands.put(("cancel", held))
            desk.wake.set()
