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
from functools import lru_cache
from typing import Any

from kombu import Producer

from config.logs import get_logger, log_event
from config.probes import probe
from routing.lanes.desk import Desk
from routing.lanes.inflight import Held
from routing.lanes.strays import UNREADABLE, drop, is_foreign, pass_on
from routing.queues import lane_queue
from routing.router import CLAIM_HEADER

log = get_logger("ratelane.handover")
PUBLISHES = 3
QUEUES_KEPT = 1_024


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
        "origin": f"{os.getpid()}@{socket.gethostname()}", "replaced_task_nesting": 0, "stamped_headers": None,
        "stamps": {},
        CLAIM_HEADER: {"job": claim.job_id, "attempt": claim.attempt, "claim_no": claim.claim_no, "group": claim.group}}
    body = json.dumps([args, {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
    return body, headers


def reuse_client(channel: Any) -> None:
    """Let a Redis channel use one client for all its commands; kombu makes a new one for each, which costs more."""
    make = getattr(channel, "_create_client", None)
    if make is not None:
        client = make()
        channel._create_client = lambda asynchronous=False: make(asynchronous) if asynchronous else client


class HandOver:
    """Hands claims to one connection's task handler; made anew at each (re)connect."""

    def __init__(
        self, desk: Desk, channel: Any, handler: Callable[[Any], None], task_of: Callable[[str], str], *,
        declare: bool, accept: Any,
    ) -> None:
        self.desk, self.channel, self._handler, self._task_of = desk, channel, handler, task_of
        self._declare, self._accept = declare, accept
        reuse_client(channel)
        self._producer = Producer(channel, auto_declare=False)
        self.waiting: deque[Held] = deque()
        # a lane is busy again and again: binding its queue to the channel anew each time copies it
        self._queue = lru_cache(maxsize=QUEUES_KEPT)(self._bind)

    def drain(self) -> None:
        """Hand over everything that waits. A broken broker connection passes through; nothing else does."""
        while self.waiting:
            held = self.waiting.popleft()
            if held.returning or held.lost or self.desk.over.is_set():
                continue
            try:
                done = self._hand_over(held)
            except self.channel.connection.client.connection_errors:
                self.desk.give_back(held)
                raise
            except Exception as error:
                log_event(log, "handover.failed", level=logging.WARNING, job=held.claim.job_id,
                          attempt=held.claim.attempt, error=repr(error))
                done = False
            if not done:
                self.desk.give_back(held)

    def _hand_over(self, held: Held) -> bool:
        queue = self._queue(held.claim.group)
        body, headers = message_of(held, self._task_of(held.claim.kind))
        for _ in range(PUBLISHES):
            self._publish(queue.name, held, body, headers)
            message = self._get_mine(queue, held)
            if message is not None:
                return self._give(held, message)
        log_event(log, "handover.message_gone", level=logging.WARNING, job=held.claim.job_id, group=held.claim.group)
        return False

    def _bind(self, group: str) -> Any:
        queue = lane_queue(group, declare=self._declare)(self.channel)
        if self._declare:
            queue.declare()
        return queue

    def _publish(self, lane: str, held: Held, body: str, headers: dict[str, Any]) -> None:
        self._producer.publish(
            body, routing_key=lane, exchange="", headers=headers, content_type="application/json",
            content_encoding="utf-8", correlation_id=held.claim.job_id, delivery_mode=1, retry=False)
        probe("published", held.claim.job_id, held.claim.attempt)

    def _get_mine(self, queue: Any, held: Held) -> Any:
        """Get until the message is mine or the queue is empty; drop what a dead worker left."""
        while True:
            message = self._get(queue)
            if message is None:
                return None
            if is_foreign(message.headers):
                pass_on(self._producer, message)
                continue
            claim = message.headers[CLAIM_HEADER]
            if (claim["job"], claim["attempt"]) == (held.claim.job_id, held.claim.attempt):
                return message
            if claim["claim_no"] > held.claim.claim_no:
                # another worker has claimed this lane since: I am stale, and its message must not get lost
                self._producer.publish(
                    message.body, routing_key=queue.name, exchange="", headers=message.headers,
                    content_type=message.content_type, content_encoding=message.content_encoding, delivery_mode=1,
                    retry=False, correlation_id=claim["job"])
                return None
            log_event(log, "handover.stale_message", group=held.claim.group, job=claim["job"])

    def _get(self, queue: Any) -> Any:
        """Get the lane's next message that can be read at all."""
        while True:
            try:
                return queue.get(no_ack=True, accept=self._accept)
            except UNREADABLE as error:
                # taken, and no message at all: it must not cost the lane its claim, nor the worker its connection
                drop(queue.name, getattr(error, "doc", ""), error)

    def _give(self, held: Held, message: Any) -> bool:
        message.ack_log_error = message.reject_log_error = _nothing
        held.handed = True
        probe("handed", held.claim.job_id, held.claim.attempt)
        self._handler(message)
        return True
