"""The receivers that put ends of attempts into effect, and that keep pool children honest.

Celery swallows what a receiver raises, so a receiver can act but never veto. If this one cannot settle, the row stays
`running`, the lane stays closed, and the reaper takes over with what the body noted before it retried (rule C2).
"""

from __future__ import annotations

import logging
from typing import Any

from celery.signals import task_postrun, task_retry, worker_process_init

from config.devstack import die_with_parent
from config.logs import get_logger, log_event
from config.probes import probe
from models import db
from models.attempt import current_attempt, enter
from routing.lanes.desk import set_desk

log = get_logger("ratelane.signals")


@task_retry.connect(weak=False, dispatch_uid="ratelane.settle_retry")
def settle_retry(request: Any = None, reason: Any = None, **_: Any) -> None:
    """Settle an attempt whose body asked for a retry; the pause and the growth of a cooldown happen with it.

    Celery also sends this signal without a reason, when it cancels a task, and for lost workers: those are not ours.
    """
    attempt = current_attempt(getattr(request, "id", None))
    if attempt is None or reason is None or attempt.verdict is None:
        return
    probe("retry_received", attempt.claim.job_id, attempt.claim.attempt)
    try:
        attempt.settle()
    except Exception:
        log_event(log, "job.settle_failed", level=logging.ERROR, job=attempt.claim.job_id,
                  attempt=attempt.claim.attempt, exc_info=True)
        raise


@task_postrun.connect(weak=False, dispatch_uid="ratelane.leave")
def leave(task_id: str = "", state: Any = None, **_: Any) -> None:
    """Forget the thread's attempt when its task is over."""
    attempt = current_attempt(task_id)
    if attempt is not None:
        log_event(log, "job.end", job=task_id, attempt=attempt.claim.attempt, group=attempt.claim.group,
                  outcome=attempt.verdict.why if attempt.verdict else state)
    enter(None)


@worker_process_init.connect(weak=False, dispatch_uid="ratelane.after_fork")
def after_fork(**_: Any) -> None:
    """Start a pool child clean: no connection of its parent, and no life without it."""
    die_with_parent()
    db.after_fork()
    # the desk is the parent's: a child neither holds claims nor takes any
    set_desk(None)
