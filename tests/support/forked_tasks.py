"""A Celery application whose parent process uses the database before its pool forks (public report W77)."""

from __future__ import annotations

import os
from typing import Any

from config import clock
from config.celery import app
from models.db import get_database
from routing.kinds import register
from tasks.base import LaneTask

__all__ = ["app"]

TOUCHES = "forked.touches"
register("touches", TOUCHES)
#: opened here, in the parent, and never closed
_kept = get_database().read()
_kept.__enter__().exec_driver_sql("SELECT 1")
_parent = os.getpid()


@app.task(base=LaneTask, bind=True, name=TOUCHES)
def touches(self: LaneTask, target_code: str) -> dict[str, Any]:
    """Read from the database and commit a little, as every crawl does."""
    with get_database().read() as conn:
        conn.exec_driver_sql("SELECT count(*) FROM jobs").one()
    clock.pause(0.05)
    self.update_state(state="PROGRESS", meta={"page": 1})
    return {"pid": os.getpid(), "before_fork": _parent != os.getpid()}
