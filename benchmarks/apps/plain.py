"""Plain Celery: the same bodies from an ordinary queue; results nowhere, or in Celery's own SQLAlchemy backend."""

from __future__ import annotations

import os

from celery import Celery

from benchmarks.apps.stamps import run_body

app = Celery("plain", broker=os.environ["BENCH_BROKER"], backend=os.environ.get("BENCH_BACKEND"))
app.conf.update(
    broker_transport_options={"priority_steps": [0]},
    task_acks_late=True,
    task_default_queue="bench",
    task_ignore_result="BENCH_BACKEND" not in os.environ,
    worker_hijack_root_logger=False,
    worker_prefetch_multiplier=int(os.environ.get("BENCH_PREFETCH", "4")),
)


@app.task(name="bench.body")
def body(lane: str) -> dict[str, bool]:
    """Do one measured body."""
    run_body(lane)
    return {"ok": True}
