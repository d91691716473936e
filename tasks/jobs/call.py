"""The call of a Celery task that the file of sites names, as a job in an internal lane."""

from __future__ import annotations

import threading
from typing import Any

from celery.exceptions import Retry

from config.celery import app
from config.errors import PermanentJobError, StaleClaim
from config.logs import get_logger, log_event
from models.attempt import Attempt
from models.db import patiently
from tasks.base import LaneTask
from tasks.named import find_task

log = get_logger("ratelane.call")
#: what a task may say about the end of its occurrence
_WORDS = ("success", "skipped", "deferred", "failed")


@app.task(base=LaneTask, bind=True, name="ratelane.call")
def call_task(self: LaneTask) -> dict[str, Any]:
    """Call the task that the job's options name; its dict is the job's result, and its `outcome` that of the run.

    Raises PermanentJobError for a task that this worker does not know. A task that asks for a retry of its own fails, and
    is tried again like any other failure: the job decides when.
    """
    attempt, options = self.attempt, dict(self.attempt.started.options or {})
    try:
        task = find_task(str(options.get("call")))
    except LookupError as error:
        raise PermanentJobError(str(error)) from error
    with _Busy(attempt):
        try:
            answer = task(*options.get("args", ()))
        except Retry as wanted:
            raise RuntimeError(f"{task.name} asked to be tried again: {wanted}") from wanted
    if isinstance(answer, dict):
        return answer if answer.get("outcome") in _WORDS else {**answer, "outcome": "success"}
    return {"outcome": "success"}


class _Busy:
    """Says again and again that the body lives, because the task that it calls knows nothing of leases (rule J6).

    A call cannot be stopped from outside: a stop request is heeded when it has returned.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt, self._over = attempt, threading.Event()
        self._thread = threading.Thread(target=self._say, name="ratelane-call-busy", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=5)

    def _say(self) -> None:
        ledger, claim = self._attempt.ledger, self._attempt.claim
        rest = ledger.settings.heartbeat_sec
        try:
            patiently(lambda: ledger.busy(claim.job_id, claim.attempt, 2 * rest))
            while not self._over.wait(rest):
                patiently(lambda: ledger.busy(claim.job_id, claim.attempt, 2 * rest))
        except StaleClaim:
            log_event(log, "claim.stale", job=claim.job_id, attempt=claim.attempt, group=claim.group, write="busy")
