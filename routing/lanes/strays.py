"""Messages of other producers that lie in a lane's queue, where nobody would read them: they go to the inbox.

A lane's queue holds nothing but the message of a claim, for a moment. Whoever sends a crawl message straight to
`rg.<key>` gets the same durable job as by the inbox: the hand-over passes on what it meets, and one worker at a time
looks through the lanes of known groups now and then, and for what a dead worker had taken. Passing on comes before
taking away: a message may be doubled (its id makes it one job), not lost.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from kombu import Exchange, Queue
from kombu.utils.json import loads

from config import clock
from config.celery import INBOX
from config.clock import Stopwatch
from config.logs import get_logger, log_event
from config.settings import Settings
from models.ledger import Ledger
from models.queries.lanes import group_keys
from routing.keys import lane_name
from routing.kinds import kind_of
from routing.lanes.channel import pass_on
from routing.router import CLAIM_HEADER

log = get_logger("ratelane.strays")
TURN = "foreign_messages"
LANES_AT_ONCE = 500
#: messages of one lane in one sweep; the next one goes on
MESSAGES_AT_ONCE = 1_000
EXCERPT = 200
#: what kombu raises for something in a queue that is no message; none of them says that the connection is broken
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, zlib.error)
_OF_A_CLAIM = frozenset({"job", "attempt", "claim_no", "group"})
#: kombu's spelling of a list for higher priorities, which producers with other transport options use
_PRIORITIES = tuple(f"{INBOX}\x06\x16{step}" for step in (3, 6, 9))


def is_foreign(headers: Any) -> bool:
    """Tell whether these are the headers of a message that no claim was sent with."""
    claim = (headers or {}).get(CLAIM_HEADER)
    return not (isinstance(claim, dict) and claim.keys() >= _OF_A_CLAIM)


def _pass_on(producer: Any, message: Any) -> None:
    """Publish a message to the inbox, as it came."""
    pass_on(producer, message, INBOX)
    log_event(log, "stray.passed_on", task=(message.headers or {}).get("task"), job=(message.headers or {}).get("id"))


def drop(where: str, content: Any, error: BaseException) -> None:
    """Say in the log what was thrown away, and why it could not be read."""
    log_event(log, "stray.unreadable", level=logging.ERROR, queue=where, error=repr(error), excerpt=repr(content)[:EXCERPT])


class Strays:
    """Looks through the lanes of known groups, one worker at a time."""

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        self._ledger, self._every = ledger, settings.stray_sweep_sec
        self._looked: Stopwatch | None = None

    def due(self) -> bool:
        """Tell whether it is this worker's turn to look now."""
        if self._looked is not None and self._looked.elapsed() < self._every:
            return False
        self._looked = Stopwatch()
        return self._ledger.take_turn(TURN, self._every) is not None

    def collect(self, producer: Any) -> int:
        """Pass on every message without a claim that lies in a lane; returns how many."""
        with self._ledger.db.read() as conn:
            keys = group_keys(conn)
        if producer.channel.connection.client.transport.driver_type == "redis":
            return _from_dead(producer, self._every) + _from_lists(producer, [*map(lane_name, keys), *_PRIORITIES])
        return _from_queues(producer, keys)


def _from_lists(producer: Any, names: Sequence[str]) -> int:
    channel, moved = producer.channel, 0
    with channel.conn_or_acquire() as client:
        for start in range(0, len(names), LANES_AT_ONCE):
            some = names[start : start + LANES_AT_ONCE]
            with client.pipeline(transaction=False) as pipe:
                for name in some:
                    pipe.llen(name)
                full = [name for name, length in zip(some, pipe.execute(), strict=True) if length]
            for name in full:
                for raw in client.lrange(name, -MESSAGES_AT_ONCE, -1):
                    moved += _take_out(producer, client, name, raw)
    return moved


def _from_dead(producer: Any, older_than_sec: float) -> int:
    """Pass on crawl messages that a worker took from the inbox and could not store before it died.

    Redis would keep them for as long as no broker may deliver anything again on its own (`config.celery`); of these a
    repeat is harmless, because the id makes it one job.
    """
    channel, moved = producer.channel, 0
    index, taken = channel.unacked_index_key, channel.unacked_key
    with channel.conn_or_acquire() as client:
        for tag in client.zrangebyscore(index, "-inf", clock.wall_ns() / 1e9 - older_than_sec, 0, MESSAGES_AT_ONCE):
            try:
                message = channel.message_to_python(loads(client.hget(taken, tag))[0])
                crawls = kind_of(task_of(message)) is not None
            except UNREADABLE:
                continue
            if crawls and is_foreign(message.headers):
                _pass_on(producer, message)
                client.zrem(index, tag)
                client.hdel(taken, tag)
                moved += 1
    return moved


def task_of(message: Any) -> str:
    """Return the name of the task of a message, protocol 2 or 1; raises one of UNREADABLE if there is none."""
    found = (message.headers or {}).get("task") or message.payload["task"]
    return str(found)


def _take_out(producer: Any, client: Any, name: str, raw: bytes) -> int:
    """Pass one element of a list on and remove exactly that; one with a claim belongs to a hand-over."""
    try:
        message = producer.channel.message_to_python(loads(raw))
        headers = message.headers
    except UNREADABLE as error:
        drop(name, raw, error)
        client.lrem(name, 1, raw)
        return 0
    if not is_foreign(headers):
        return 0
    _pass_on(producer, message)
    client.lrem(name, 1, raw)
    return 1


def _from_queues(producer: Any, keys: Iterable[str]) -> int:
    """The same on AMQP: what is taken is acknowledged after it was passed on, what has a claim is put back."""
    connection, moved = producer.channel.connection.client, 0
    channel = connection.channel()
    for key in keys:
        try:
            waiting = channel.queue_declare(queue=lane_name(key), passive=True).message_count
        except connection.channel_errors:
            # no such queue: no job of this group was ever handed over, and AMQP closes the channel over the question
            channel = connection.channel()
            continue
        queue = Queue(lane_name(key), Exchange(""), lane_name(key), no_declare=True)(channel)
        for _ in range(min(waiting, MESSAGES_AT_ONCE)):
            message = queue.get(no_ack=False)
            if message is None:
                break
            if not is_foreign(message.headers):
                message.requeue()
                break
            _pass_on(producer, message)
            message.ack()
            moved += 1
    channel.close()
    return moved
