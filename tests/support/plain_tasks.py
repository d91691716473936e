"""The application with ordinary tasks beside the lanes: ``celery -A tests.support.plain_tasks worker``.

They write what they were called with into a list of the broker (or of the server `NOTED_URL`, if the broker has no
lists), where a test reads it.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import redis

from config.celery import app
from config.settings import get_settings

__all__ = ["app"]

NOTED = "noted"
if os.environ.get("PLAIN_TASKS_TIME_LIMIT"):
    app.conf.task_time_limit = app.conf.task_soft_time_limit = float(os.environ["PLAIN_TASKS_TIME_LIMIT"])


@app.task(bind=True, name="plain.note")
def note(self: Any, *args: Any) -> str:
    """Write id and arguments down."""
    with redis.from_url(os.environ.get("NOTED_URL") or get_settings().broker_url) as line:
        line.rpush(NOTED, json.dumps([self.request.id, self.request.parent_id, list(args)]))
    return "noted"


@app.task(bind=True, name="plain.busy")
def busy(self: Any, seconds: float) -> None:
    """Say that it has begun, and stay."""
    note(f"begun {self.request.id}")
    time.sleep(seconds)
    note(f"ended {self.request.id}")


@app.task(name="plain.explain")
def explain(request: Any, exc: Any, traceback: Any) -> None:
    """An error callback of the form that Celery calls inside the failing worker."""
