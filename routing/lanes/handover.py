"""The hand-over: a claimed job goes through its lane's Celery queue into Celery's ordinary task handler.

It runs on the consumer's (hub) thread and does no SQL. The message is published to `rg.<group>` and got back from there
at once; it carries the claim, so that a copy that a dead worker left behind is told apart by its claim number. From
the handler on it is a normal Celery request: pool, events, `inspect active`.

What happens when it dies: the claim never started and is handed back, by this process or by its lease.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from config.celery import INBOX
from config.logs import get_logger, log_event
from config.probes import probe
from routing.keys import lane_name
from routing.lanes.channel import LaneChannel
from routing.lanes.desk import Desk
from routing.lanes.inflight import Held
from routing.lanes.strays import UNREADABLE, drop, is_foreign
from routing.router import CLAIM_HEADER

log = get_logger("ratelane.handover")
PUBLISHES = 3
_HOST = socket.gethostname()


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Stand in for the broker's acknowledgement: the message was taken without one."""


def message_of(held: Held, task: str) -> tuple[str, dict[str, Any]]:
    """Return body and headers of the Celery message (protocol 2) of a claim."""
    claim = held.claim
    args = [claim.target_code] if claim.target_code is not None else []
    headers = {
        "lang": "py", "task": task, "id": claim.job_id, "shadow": None, "eta": None, "expires": None, "group": None,
        "group_index": None, "retries": max(0, claim.attempt - 1), "timelimit": [None, None], "root_id": claim.job_id,
        "parent_id": None, "argsrepr": repr(tuple(args)), "kwargsrepr": "{}", "ignore_result": False,
        "origin": f"{os.getpid()}@{_HOST}", "replaced_task_nesting": 0, "stamped_headers": None,
        "stamps": {},
        CLAIM_HEADER: {"job": claim.job_id, "attempt": claim.attempt, "claim_no": claim.claim_no, "group": claim.group}}
    body = json.dumps([args, {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
    return body, headers


class HandOver:
    """Hands claims to one connection's task handler; made anew at each (re)connect."""

    def __init__(
        self, desk: Desk, line: LaneChannel, handler: Callable[[Any], None], task_of: Callable[[str], str]
    ) -> None:
        self.desk, self.line, self._handler, self._task_of = desk, line, handler, task_of
        self.waiting: deque[Held] = deque()

    def drain(self) -> None:
        """Hand over everything that waits. A broken broker connection passes through; nothing else does."""
        while self.waiting:
            held = self.waiting.popleft()
            if held.returning or held.lost or self.desk.over.is_set():
                continue
            try:
                done = self._hand_over(held)
            except self.line.connection_errors:
                self.desk.give_back(held)
                raise
            except Exception as error:
                self.desk.give_back(held)
                log_event(log, "handover.failed", level=logging.WARNING, job=held.claim.job_id,
                          attempt=held.claim.attempt, error=repr(error))
                if not self.line.is_ours(error):
                    raise
                self.line.renew()
                continue
            if not done:
                self.desk.give_back(held)

    def _hand_over(self, held: Held) -> bool:
        lane = lane_name(held.claim.group)
        body, headers = message_of(held, self._task_of(held.claim.kind))
        for _ in range(PUBLISHES):
            self.line.put(lane, body, headers=headers, content_type="application/json", content_encoding="utf-8",
                              correlation_id=held.claim.job_id)
            probe("published", held.claim.job_id, held.claim.attempt)
            message = self._get_mine(lane, held)
            if message is not None:
                return self._give(held, message)
        log_event(log, "handover.message_gone", level=logging.WARNING, job=held.claim.job_id, group=held.claim.group)
        return False

    def _get_mine(self, lane: str, held: Held) -> Any:
        """Get until the message is mine or the queue is empty; drop what a dead worker left."""
        while True:
            message = self._get(lane)
            if message is None:
                return None
            if is_foreign(message.headers):
                # another producer sent it here: in the inbox it becomes a job like any other (rule J2)
                log_event(log, "handover.foreign_message", group=held.claim.group, task=message.headers.get("task"))
                self.line.pass_on(message, INBOX)
                continue
            claim = message.headers[CLAIM_HEADER]
            if (claim["job"], claim["attempt"]) == (held.claim.job_id, held.claim.attempt):
                return message
            if claim["claim_no"] > held.claim.claim_no:
                # another worker has claimed this lane since: I am stale, and its message must not get lost
                self.line.pass_on(message, lane)
                return None
            log_event(log, "handover.stale_message", group=held.claim.group, job=claim["job"])

    def _get(self, lane: str) -> Any:
        """Get the lane's next message that can be read at all."""
        while True:
            try:
                return self.line.get(lane)
            except UNREADABLE as error:
                # taken, and no message at all: it must not cost the lane its claim, nor the worker its connection
                drop(lane, getattr(error, "doc", ""), error)
                self.line.renew()

    def _give(self, held: Held, message: Any) -> bool:
        message.ack_log_error = message.reject_log_error = _nothing
        held.handed = True
        probe("handed", held.claim.job_id, held.claim.attempt)
        self._handler(message)
        return True
