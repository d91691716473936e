"""How a worker takes a lane task's message: with a claim it runs, without one it becomes a submit (rule J2).

This is the task's Celery strategy, so it stands before Celery would hold a message back for its ETA, drop it for its
id, or give it a slot. The message of another producer is acknowledged once its job is stored, and no earlier.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery.exceptions import InvalidTaskError
from celery.worker.strategy import default, hybrid_to_proto2, proto1_to_proto2
from kombu.exceptions import ContentDisallowed, DecodeError

from config.errors import BadInput
from config.logs import get_logger, log_event
from routing.calls import call_of
from routing.lanes.clerk import Letter, Post, event_sender
from routing.lanes.desk import current_desk
from routing.lanes.strays import is_foreign

log = get_logger("ratelane.intake")


def strategy(task: Any, app: Any, consumer: Any) -> Callable[..., Any]:
    """Return the handler of this task's messages; it runs on the hub's thread."""
    claimed = default(task, app, consumer)
    send_event = event_sender(consumer)

    def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> Any:
        if not is_foreign(message.headers):
            return claimed(message, body, ack, reject, callbacks)
        try:
            return _submit(app, task.name, message, body, Post(lambda: ack(log, consumer.connection_errors), send_event))
        except (InvalidTaskError, ContentDisallowed, DecodeError):
            raise
        except Exception as error:
            # an exception of ours on this thread would end the worker, and the next one that takes the message
            log_event(log, "inbox.failed", level=logging.ERROR, exc_info=True)
            raise InvalidTaskError(f"this message cannot be a job: {error!r}") from error

    return handle


def _submit(app: Any, task: str, message: Any, body: Any, post: Post) -> None:
    desk = current_desk()
    if desk is None or desk.clerk is None:
        raise InvalidTaskError("this worker serves no lanes")
    args, kwargs, headers, options = parts_of(task, message, body)
    letter = Letter(task, headers["id"], post)
    post.send_event(
        "task-received", uuid=letter.job_id, name=task, args=repr(tuple(args)), kwargs=repr(kwargs),
        root_id=letter.job_id, parent_id=None, retries=0, eta=headers.get("eta"), expires=headers.get("expires"))
    try:
        call = call_of(app, task, args, kwargs, task_id=letter.job_id, **options)
    except BadInput as error:
        letter.refuse(error)
    else:
        desk.clerk.store(letter, call)


def parts_of(task: str, message: Any, body: Any) -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
    """Return args, kwargs, headers and options of a message (protocol 1 or 2); raises InvalidTaskError if it is none.

    A priority of 0 is what Celery sends when nobody named one.
    """
    if body is None:
        payload = message.payload
        decoded, headers, _, _ = (
            hybrid_to_proto2(message, payload) if isinstance(payload, dict) else (payload, message.headers, True, True))
    else:
        decoded, headers, _, _ = proto1_to_proto2(message, body)
    try:
        args, kwargs, embed = decoded
        embed, kwargs = dict(embed or {}), dict(kwargs or {})
        hard, soft = (*(headers.get("timelimit") or ()), None, None)[:2]
        if not isinstance(headers.get("id"), str) or not isinstance(args, list | tuple):
            raise ValueError("no id, or no list of arguments")
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidTaskError(f"this is no message of {task}: {error}") from error
    return args, kwargs, headers, {
        "link": embed.get("callbacks"), "link_error": embed.get("errbacks"), "chain": embed.get("chain"),
        "chord": embed.get("chord"), "eta": headers.get("eta"), "expires": headers.get("expires"),
        "priority": (message.properties or {}).get("priority") or None, "time_limit": hard, "soft_time_limit": soft,
        "retries": headers.get("retries")}
