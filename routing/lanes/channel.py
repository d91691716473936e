"""The one channel on which lanes' messages are published and got back, and what breaks on it.

On RabbitMQ an error of the server closes a channel, and an exception in the middle of a get (other channels' frames are
dispatched inside it) would leave an answer behind that the next get would take for its own. So after every exception
the channel is given up and a new one is opened on the same connection.

What happens when it dies: nothing of a job is on it but the message of a claim, which is handed back.
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from functools import lru_cache
from json import dumps
from typing import Any

from amqp import spec
from amqp.exceptions import ChannelError, NotFound, PreconditionFailed, RecoverableConnectionError
from kombu import Producer, Queue
from kombu.serialization import prepare_accept_content
from kombu.utils.json import loads

from config.logs import get_logger, log_event
from routing.lanes.trip import OneTrip
from routing.queues import lane_queue

log = get_logger("ratelane.handover")
QUEUES_KEPT = 1_024
#: what goes on with a message beside its body and headers
_KEPT = ("correlation_id", "reply_to", "priority", "message_id")
_OWN_METHODS = frozenset({spec.Basic.Get, spec.Basic.Publish, spec.Queue.Declare})


class LaneChannel:
    """Publishes to lanes and gets from them, on a channel of its own of one (kombu) connection."""

    def __init__(self, connection: Any, accept: Any) -> None:
        self._connection, self._accept = connection, accept
        self._accepted = prepare_accept_content(accept)
        #: what Redis gave back with the last `put`, until it is asked for: its lane, the content, and what it says if known
        self._got: tuple[str, bytes | None, dict[str, Any] | None] | None = None
        self._declare = connection.transport.driver_type == "amqp"
        #: lanes whose queue somebody else declared in another way: they are used as they stand
        self._as_it_stands: set[str] = set()
        self.channel: Any = None
        self._open()

    @property
    def connection_errors(self) -> tuple[type[BaseException], ...]:
        """What is raised when the connection itself is lost."""
        errors: tuple[type[BaseException], ...] = self._connection.connection_errors
        return errors

    def is_ours(self, error: BaseException) -> bool:
        """Tell whether `error` is about this channel; another channel's ends its consumer and is Celery's to mend."""
        return not isinstance(error, ChannelError) or error.method_sig in _OWN_METHODS

    def publish(self, lane: str, body: str | bytes, **properties: Any) -> None:
        """Publish to the queue of a lane; on RabbitMQ it returns once the server has confirmed."""
        self.queue(lane)
        self._producer.publish(body, routing_key=lane, exchange="", delivery_mode=1, retry=False, **properties)

    def put(
        self, lane: str, body: str, *, headers: dict[str, Any], correlation_id: str, content_type: str,
        content_encoding: str,
    ) -> None:
        """Publish to the queue of a lane what the next get is for; on Redis both are one trip."""
        if self._trip is None:
            self.publish(lane, body, headers=headers, correlation_id=correlation_id, content_type=content_type,
                         content_encoding=content_encoding)
            return
        # what kombu's producer and channel would write, without their looking up for each message how
        payload = {
            "body": b64encode(body.encode()).decode(), "content-encoding": content_encoding, "content-type": content_type,
            "headers": headers, "properties": {
                "correlation_id": correlation_id, "delivery_mode": 1, "priority": 0, "body_encoding": "base64",
                "delivery_tag": correlation_id, "delivery_info": {"exchange": "", "routing_key": lane}}}
        sent = dumps(payload)
        self._got = None
        oldest = self._trip.put_and_get(lane, sent)
        self._got = lane, oldest, payload if oldest == sent.encode() else None

    def pass_on(self, message: Any, queue: str) -> None:
        """Publish a message that was got here to `queue`, as it came."""
        pass_on(self._producer, message, queue)

    def get(self, lane: str) -> Any:
        """Return the next message of a lane's queue, None if there is none."""
        got, self._got = self._got, None
        if got is not None and got[0] == lane:
            return self._read(*got[1:])
        try:
            return self.queue(lane).get(no_ack=True, accept=self._accept)
        except NotFound:
            # the queue has expired, or somebody deleted it, since it was declared here: the same as empty
            self.renew()
            return None

    def _read(self, content: bytes | None, payload: dict[str, Any] | None) -> Any:
        """Return the message that came back from Redis; what was sent by this channel a moment ago is known."""
        if content is None:
            return None
        message = self.channel.Message(payload or loads(content.decode()), channel=self.channel)
        if message.errors:
            message._reraise_error()
        message.accept = self._accepted
        return message

    def renew(self) -> None:
        """Give the channel up after an exception; raises what `connection_errors` names if the connection is gone."""
        if self._declare:
            with suppress(Exception):
                self.channel.close()
            if not self._connection.connected:
                # kombu would connect anew by itself, and nobody would read that connection's consumers
                raise RecoverableConnectionError("the broker connection is lost")
            self._open()

    def _open(self) -> None:
        self.channel = self._connection.channel()
        self._trip = _one_client(self.channel)
        self._producer = Producer(self.channel, auto_declare=False)
        # a lane is busy again and again: binding its queue to the channel anew each time copies it
        self.queue = lru_cache(maxsize=QUEUES_KEPT)(self._bind)

    def _bind(self, lane: str) -> Queue:
        queue = lane_queue(lane, declare=self._declare)(self.channel)
        if self._declare and lane not in self._as_it_stands:
            try:
                queue.declare()
            except PreconditionFailed as error:
                log_event(log, "handover.queue_of_another_kind", lane=lane, error=str(error))
                self._as_it_stands.add(lane)
                self.renew()
                return self.queue(lane)
        return queue


def pass_on(producer: Any, message: Any, queue: str) -> None:
    """Publish a message that was taken from one queue to another, its body, headers and priority unchanged."""
    kept = {name: value for name in _KEPT if (value := (message.properties or {}).get(name)) not in (None, "")}
    producer.publish(
        message.body, routing_key=queue, exchange="", headers=dict(message.headers or {}), retry=False,
        content_type=message.content_type, content_encoding=message.content_encoding, **kept)


def _one_client(channel: Any) -> OneTrip | None:
    """Let a Redis channel use one client for all its commands; kombu makes a new one for each, which costs more."""
    make = getattr(channel, "_create_client", None)
    if make is None:
        return None
    trip = OneTrip(make())
    channel._create_client = lambda asynchronous=False: make(asynchronous) if asynchronous else trip
    return trip
