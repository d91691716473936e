"""A Celery application with quick jobs and an impatient broker: ``celery -A tests.support.fault_tasks worker``.

Redis would deliver again, after a second and looked for twice a second, whatever was taken and not acknowledged.
"""

from __future__ import annotations

from typing import Any

from config import clock
from config.celery import app
from routing.kinds import register
from tasks.base import LaneTask

__all__ = ["app"]

NAPS = "fault.naps"
register("naps", NAPS)
IMPATIENT = {"visibility_timeout": 1, "unacked_restore_interval": 0.5, "unacked_restore_throttle": 1}
app.conf.broker_transport_options = {**app.conf.broker_transport_options, **IMPATIENT}


@app.task(base=LaneTask, bind=True, name=NAPS)
def naps(self: LaneTask, target_code: str) -> dict[str, Any]:
    """Take a fifth of a second."""
    clock.pause(0.2)
    return {"attempt": self.attempt.claim.attempt}
