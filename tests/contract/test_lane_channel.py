"""What lies in a lane's queue and belongs elsewhere goes on as it came (J2), whoever meets it."""

from __future__ import annotations

import pytest
from kombu import Connection, Producer, Queue

from config.celery import INBOX
from routing.lanes import strays
from routing.lanes.channel import LaneChannel

SENT = {"correlation_id": "c", "reply_to": "r", "message_id": "m", "priority": 7}


@pytest.mark.parametrize("by", ["hand-over", "sweep"])
def test_j2_a_message_that_is_passed_on_keeps_its_priority(by: str) -> None:
    with Connection("memory://") as line:
        channel = line.channel()
        for queue in ("rg.kept", INBOX):
            channel.queue_declare(queue)
            channel.queue_purge(queue)
        Producer(channel, auto_declare=False).publish(
            "{}", routing_key="rg.kept", exchange="", headers={"task": "t", "id": "i"}, content_type="application/json",
            content_encoding="utf-8", **SENT)
        if by == "hand-over":
            lane = LaneChannel(line, {"application/json"})
            lane.pass_on(lane.get("rg.kept"), INBOX)
        else:
            assert strays._from_queues(Producer(channel, auto_declare=False), ["kept"]) == 1
        message = Queue(INBOX, no_declare=True)(channel).get(no_ack=True)
        assert message is not None
        assert {name: message.properties.get(name) for name in SENT} == SENT
        assert (message.headers, message.body) == ({"task": "t", "id": "i"}, b"{}")
