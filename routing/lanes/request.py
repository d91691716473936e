"""Celery's request of a lane job: the parent learns through it that a body has ended.

`acknowledge` and `reject` are the two calls that every ordinary end makes; the broker is not told anything, because a
lane's message was taken without acknowledgement. A message without a claim (another producer's) is an ordinary one, and
so is a copy of a claim's message: whoever delivers it, it runs nothing and ends nothing.
"""

from __future__ import annotations

from typing import Any

from celery.worker.request import Request

from config.probes import probe
from routing.lanes.desk import current_desk
from routing.lanes.leaving import is_in_process
from routing.router import CLAIM_HEADER

#: no attempt has this number
NO_ATTEMPT = 0
#: seconds; a pool with limits of its own applies them to what names none
NEVER = 10 * 366 * 86_400


def _no_limits() -> tuple[int | None, int | None]:
    """Return the time limits (hard, soft) with which the pool of this process leaves a body alone."""
    desk = current_desk()
    options = getattr(desk.pool, "options", None) or {} if desk is not None else {}
    return NEVER if options.get("timeout") else None, NEVER if options.get("soft_timeout") else None


def _is_expected(claim: dict[str, Any]) -> bool:
    """Tell whether this worker has just handed this claim over, and take note that its message has come (W29)."""
    desk = current_desk()
    held = desk.inflight.get(claim["job"], claim["attempt"]) if desk is not None else None
    if held is None or not held.handed or held.received:
        return False
    held.received = True
    return True


class LaneRequest(Request):
    """A request whose end frees a slot and wakes the scout."""

    acknowledged: bool = False

    def __init__(self, message: Any, **options: Any) -> None:
        super().__init__(message, **options)
        self.lane_claim: dict[str, Any] | None = self._request_dict.get(CLAIM_HEADER)
        if self.lane_claim is not None and not _is_expected(self.lane_claim):
            # a copy: it is acknowledged like any message, ends nothing here, and its body finds no such attempt
            self._request_dict[CLAIM_HEADER] = {**self.lane_claim, "attempt": NO_ATTEMPT}
            self.lane_claim = None
        if self.lane_claim is not None:
            # the hard limit and the terminate call report an end before the body is dead
            self.time_limits = _no_limits()

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
