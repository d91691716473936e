"""On Redis a hand-over's publish and get are one transaction of the server (design, section 2, "Hand over")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection
from redis.exceptions import ResponseError

from config.broker import broker_line
from routing.lanes.channel import LaneChannel
from tests.support.servers import ValkeyServer

HEADERS = {"content_type": "application/json", "content_encoding": "utf-8", "correlation_id": "a-job"}


@pytest.fixture
def lane(valkey: ValkeyServer) -> Iterator[LaneChannel]:
    """A lane's channel on an empty server."""
    valkey.flush()
    known = broker_line(valkey.url)
    with Connection(known.url, transport_options=known.options) as line:
        yield LaneChannel(line, {"application/json"})


def _put(lane: LaneChannel, number: int, queue: str = "rg.a") -> None:
    lane.put(queue, "{}", headers={"number": number}, **HEADERS)


def _get(lane: LaneChannel, queue: str = "rg.a") -> Any:
    message = lane.get(queue)
    return None if message is None else message.headers["number"]


def test_a_message_comes_back_and_leaves_nothing(lane: LaneChannel, valkey: ValkeyServer) -> None:
    _put(lane, 1)
    with valkey.client() as line:
        assert line.keys() == []
        assert _get(lane) == 1
        assert (line.keys(), _get(lane)) == ([], None)


def test_what_lay_there_before_comes_first(lane: LaneChannel) -> None:
    lane.publish("rg.a", "{}", headers={"number": 1}, **HEADERS)
    _put(lane, 2)
    assert [_get(lane), _get(lane), _get(lane)] == [1, 2, None]


def test_what_came_back_is_for_its_lane_alone(lane: LaneChannel, valkey: ValkeyServer) -> None:
    """A message that is passed on between the two goes out at once, and a get from elsewhere finds what lies there."""
    _put(lane, 1)
    lane.publish("inbox", "{}", headers={"number": 2}, **HEADERS)
    with valkey.client() as line:
        assert (line.llen("inbox"), line.llen("rg.a")) == (1, 0)
    assert _get(lane) == 1
    assert _get(lane, "inbox") == 2


def test_a_message_that_was_sent_reads_like_one_that_was_received(lane: LaneChannel) -> None:
    """What the channel has just sent is not decoded again; it must say the same."""
    lane.put("rg.a", '[["é"], {}, {}]', headers={"number": 1, "none": None, "list": [None, 2]}, **HEADERS)
    known = lane.get("rg.a")
    lane.publish("rg.a", '[["é"], {}, {}]', headers={"number": 1, "none": None, "list": [None, 2]}, **HEADERS)
    read = lane.get("rg.a")
    for name in ("headers", "body", "payload", "content_type", "content_encoding", "accept", "delivery_info"):
        assert getattr(known, name) == getattr(read, name), name
    assert known.properties.keys() >= {"correlation_id", "delivery_mode", "priority", "delivery_tag"}
    assert known.properties["correlation_id"] == read.properties["correlation_id"]


def test_a_refused_publish_takes_nothing_out(lane: LaneChannel, valkey: ValkeyServer) -> None:
    """D5: a broker whose memory is full refuses; what another producer sent stays, and the channel goes on working."""
    lane.publish("rg.a", "{}", headers={"number": 1}, **HEADERS)
    with valkey.client() as line:
        try:
            line.config_set("maxmemory", "1")
            with pytest.raises(ResponseError, match="maxmemory"):
                _put(lane, 2)
            assert line.llen("rg.a") == 1
        finally:
            line.config_set("maxmemory", "0")
    assert [_get(lane), _get(lane)] == [1, None]


def test_a_message_that_cannot_be_published_is_not_kept(lane: LaneChannel) -> None:
    with pytest.raises(TypeError):
        lane.put("rg.a", "{}", headers={"number": object()}, **HEADERS)
    lane.publish("rg.a", "{}", headers={"number": 1}, **HEADERS)
    assert [_get(lane), _get(lane)] == [1, None]


def test_a_queue_of_another_kind_is_told(lane: LaneChannel, valkey: ValkeyServer) -> None:
    with valkey.client() as line:
        line.set("rg.a", "no list")
        with pytest.raises(ResponseError, match=r"WRONGTYPE|wrong kind"):
            _put(lane, 1)
        line.delete("rg.a")
    _put(lane, 2)
    assert [_get(lane), _get(lane)] == [2, None]
