"""`celery -A config inspect lanes`: where waiting jobs are, since the broker's queues look empty by design (rule U2)."""

from __future__ import annotations

from typing import Any

from routing.lanes.desk import current_desk


def lanes(_state: Any) -> dict[str, Any]:
    """Return what this worker holds, from its memory: the control thread asks no database."""
    desk = current_desk()
    if desk is None:
        return {"ok": "this worker serves no lanes"}
    held = [{"job": one.claim.job_id, "attempt": one.claim.attempt, "group": one.claim.group, "started": one.started}
            for one in desk.inflight.all()]
    return {"boot_id": desk.boot_id, "slots": desk.size(), "free": desk.free_slots(), "running": held,
            "waiting jobs": "are rows of the database: see `ratelane lanes`"}
