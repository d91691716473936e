"""Remote control of lanes: what a worker holds, and commands of Celery's that mean something else for lane jobs (J10, U2).

All of it runs on the hub's thread, so nothing here asks the database: the clerk does. A revoke of a lane job is a
question to the ledger. It leaves nothing in a worker's memory of revoked ids, where it would haunt a later requeue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from celery.platforms import signals
from celery.utils.functional import maybe_list
from celery.worker import state as worker_state
from celery.worker.control import Panel

from config.logs import get_logger, log_event
from routing.kinds import kind_of
from routing.lanes.clerk import event_sender
from routing.lanes.desk import current_desk

log = get_logger("ratelane.control")
Command = Callable[..., Any]


def lanes(_state: Any) -> dict[str, Any]:
    """Return what this worker holds, from its memory: the control thread asks no database."""
    desk = current_desk()
    if desk is None:
        return {"ok": "this worker serves no lanes"}
    held = [{"job": one.claim.job_id, "attempt": one.claim.attempt, "group": one.claim.group, "started": one.started}
            for one in desk.inflight.all()]
    return {"boot_id": desk.boot_id, "slots": desk.size(), "free": desk.free_slots(), "running": held,
            "waiting jobs": "are rows of the database: see `ratelane lanes`"}


def register() -> None:
    """Put the commands below in the place of Celery's own, in this process; doing it twice changes nothing."""
    if Panel.data["revoke"] is revoke:
        return
    Panel.data |= {
        "revoke": revoke, "terminate": terminate,
        "rate_limit": _without_effect(Panel.data["rate_limit"], "a rate limit", "the interval of its target paces it"),
        "time_limit": _without_effect(Panel.data["time_limit"], "a time limit", "a job has deadline_sec")}


def revoke(state: Any, task_id: Any, terminate: bool = False, signal: Any = None, **_: Any) -> dict[str, Any]:
    """Cancel lane jobs, here or anywhere; ordinary tasks are revoked as Celery does it.

    Terminating a lane job asks it to stop at its next stop point: a killed body would lose its lane's lease for nothing.
    """
    ids = {str(one) for one in maybe_list(task_id) or []}
    desk = current_desk()
    # what is here and has no claim needs no look into the database
    ordinary = {one for one in ids if desk is None or _is_ordinary(worker_state.requests.get(one))}
    _revoke_ordinary(state, ordinary, terminate, signal)
    if desk is not None:
        for one in sorted(ids - ordinary):
            unknown = partial(_revoke_ordinary, state, {one}, terminate, signal)
            desk.clerk.cancel(one, partial(state.consumer.hub.call_soon, unknown), event_sender(state.consumer))
    word = "terminate" if terminate else "revoke"
    return {"ok": f"{word}: {', '.join(sorted(ids))} (a lane job is cancelled in the database: see `ratelane job`)"}


def terminate(state: Any, signal: Any, task_id: Any, **_: Any) -> dict[str, Any]:
    """Do as `revoke` with terminate."""
    return revoke(state, task_id, terminate=True, signal=signal)


def _is_ordinary(request: Any) -> bool:
    return request is not None and getattr(request, "lane_claim", None) is None


def _revoke_ordinary(state: Any, ids: Iterable[str], terminate: bool, signal: Any) -> None:
    """What Celery does for tasks that are no jobs, without asking the result backend: it knows nothing of them."""
    worker_state.revoked.update(ids)
    for one in ids:
        request = worker_state.requests.get(one)
        if terminate and request is not None:
            request.terminate(state.consumer.pool, signal=signals.signum(signal or "TERM"))
        log_event(log, "task.revoked", job=one, terminated=terminate and request is not None)


def _without_effect(stock: Command, what: str, instead: str) -> Command:
    def command(state: Any, task_name: Any = None, **options: Any) -> Any:
        if task_name is not None and kind_of(task_name) is not None:
            sentence = f"{what} has no effect on the lane task {task_name}: {instead}"
            log_event(log, "control.no_effect", level=logging.WARNING, reason=sentence)
            return {"error": sentence}
        return stock(state, task_name=task_name, **options)

    return command
