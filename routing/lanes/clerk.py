"""The clerk: a thread that does what the hub's thread was asked for and may not do itself, because it takes SQL.

What it owns: nothing. It stores the crawl messages of other producers, and carries revokes to the ledger. It sleeps
until it is asked.

When it dies: a message that it had not stored was not acknowledged, and the broker delivers it again; a revoke is lost
as any broadcast is, and can be repeated.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from config.errors import BadInput
from config.logs import get_logger, log_event
from models.db import Database, is_transient, patiently
from models.ledger import Answer
from models.operations import Operator
from routing.calls import Call
from routing.lanes.desk import Desk

log = get_logger("ratelane.clerk")


@dataclass(frozen=True)
class Post:
    """How the broker is told that a message was dealt with, and those who watch events what became of it."""

    acknowledge: Callable[[], None]
    send_event: Callable[..., None]


@dataclass(frozen=True)
class Letter:
    """A crawl message of another producer."""

    task: str
    job_id: str
    post: Post

    def refuse(self, error: Exception) -> None:
        """Say in the log and as an event why it cannot be a job, and let the broker forget it."""
        reason = (str(error).splitlines() or [""])[0]
        log_event(log, "inbox.refused", level=logging.WARNING, job=self.job_id, task=self.task, error=reason)
        self.post.send_event(
            "task-failed", uuid=self.job_id, exception=f"{type(error).__name__}({reason!r})", traceback="")
        self.post.acknowledge()


class Clerk(threading.Thread):
    """Does one thing after the other; while the database is away it waits with it."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(name="ratelane-clerk", daemon=True)
        self.desk = desk
        self.db: Database = desk.db
        self._asked: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run(self) -> None:
        """Do what is asked until the desk closes."""
        while not self.desk.over.is_set():
            work = self._asked.get()
            try:
                patiently(work, give_up=self.desk.over.is_set)
            except Exception:
                # what it was about stays where it was: a message unacknowledged, a job as it is
                log_event(log, "clerk.failed", level=logging.ERROR, exc_info=True)

    def close(self) -> None:
        """Wake the thread so that it sees that the desk has closed."""
        self._asked.put(lambda: None)

    def store(self, letter: Letter, call: Call) -> None:
        """Have a message stored as a job and acknowledged; one that cannot be a job is refused."""
        self._asked.put(lambda: self._store(letter, call))

    def cancel(self, job_id: str, otherwise: Callable[[], None], send_event: Callable[..., None]) -> None:
        """Have a job cancelled; `otherwise` is called if there is no job of this id."""
        self._asked.put(lambda: self._cancel(job_id, otherwise, send_event))

    def _store(self, letter: Letter, call: Call) -> None:
        try:
            made = call.submit(self.db, self.desk.settings)
        except BadInput as error:
            letter.refuse(error)
        except Exception as error:
            if is_transient(error):
                raise
            # delivered again it would fail again, and the broker would keep it for ever
            log_event(log, "inbox.failed", level=logging.ERROR, job=letter.job_id, exc_info=True)
            letter.refuse(error)
        else:
            log_event(log, "inbox.stored", job=made.job_id, group=made.group, created=made.created)
            letter.post.acknowledge()

    def _cancel(self, job_id: str, otherwise: Callable[[], None], send_event: Callable[..., None]) -> None:
        # who has sent the broadcast is not in it
        answer: Answer = self.desk.ledger.cancel(job_id, Operator(self.desk.name, "celery"))
        if answer.reason == "not_found":
            otherwise()
        elif answer.verdict == "cancelled":
            # one worker of those that were asked has cancelled it, so one of them says so
            send_event("task-revoked", uuid=job_id, terminated=False, signum=None, expired=False)
        elif answer.verdict == "refused":
            log_event(log, "revoke.refused", job=job_id, reason=answer.reason)


def event_sender(consumer: Any) -> Callable[..., None]:
    """Return what sends an event in the name of a consumer, whatever connection it has by then."""

    def send(kind: str, /, **fields: Any) -> None:
        dispatcher = consumer.event_dispatcher
        if dispatcher is not None and dispatcher.enabled:
            dispatcher.send(kind, **fields)

    return send
