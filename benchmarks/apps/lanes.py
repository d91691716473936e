"""Ratelane's own application with one more kind of job: the measured body."""

from __future__ import annotations

from benchmarks.apps.stamps import run_body
from config.celery import app
from routing import kinds
from tasks.base import LaneTask

kinds.register("bench", "bench.lane")


@app.task(base=LaneTask, bind=True, name="bench.lane")
def lane_body(_task: LaneTask, target_code: str) -> dict[str, bool]:
    """Do one measured body in its lane."""
    run_body(target_code)
    return {"ok": True}
