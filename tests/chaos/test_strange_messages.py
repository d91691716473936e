"""What a broker delivers twice, late, or from somebody else: the lane goes on, and nothing runs twice (W29)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kombu import Connection, Producer

from models.claim import Claim
from routing.keys import lane_name
from routing.kinds import task_of
from routing.lanes.handover import message_of
from routing.lanes.inflight import Held
from tests.support.figures import figure
from tests.support.fleet import GROUP, fleet
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(60)]


def test_a_message_that_is_delivered_twice_runs_once(store: Store, workers: Workers) -> None:
    """W29: copies of a claim's message, while it runs and after, in its lane and in the inbox."""
    (worker,) = workers.start("one")
    with fleet(store, articles=8) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 4)
        body, headers = message_of(Held(_claim(store, job_id)), task_of("crawl"))
        for _ in range(3):
            publish(store, lane_name(GROUP), body, headers)
        assert store.wait_for(job_id, "done")["attempt"] == 1
        publish(store, lane_name(GROUP), body, headers)
        following = store.wait_for(store.submit("gd-one_news"), "done")
        assert following["attempt"] == 1
        assert len(worker.probes.seen("started", job_id)) == 1
        assert [one["outcome"] for one in store.job(job_id)["attempts_log"]] == ["done"]
        assert worker.log.count("event=handover.stale_message") == 4
        assert left(store, lane_name(GROUP)) == 0
        figure(f"W29 {store.db.dialect}: 4 copies dropped, each job ran once")
        site.assert_polite()


def test_w29_a_copy_that_is_delivered_as_an_ordinary_message_neither_runs_nor_ends_anything(
    store: Store, workers: Workers
) -> None:
    """W29, J7: the inbox delivers a copy of the claim that runs just now."""
    (worker,) = workers.start("one")
    with fleet(store, articles=16) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 4)
        body, headers = message_of(Held(_claim(store, job_id)), task_of("crawl"))
        publish(store, "inbox", body, headers)
        wait_until(lambda: "event=claim.stale" in worker.log, "the refusal of the copy")
        job = store.wait_for(job_id, "done")
        assert (job["attempt"], job["recoveries"]) == (1, 0)
        assert len(worker.probes.seen("started", job_id)) == 1
        assert left(store, "inbox") == left(store, "unacked") == 0
        site.assert_whole(store, most=0)
        site.assert_polite()


def test_foreign_messages_in_a_lane_do_not_hold_it_up(store: Store, workers: Workers) -> None:
    """W29, J2: junk that is no message, a message of a task that nobody knows, and one without any header."""
    (worker,) = workers.start("one")
    with fleet(store, articles=3) as site:
        lane = lane_name(GROUP)
        publish(store, lane, json.dumps([[], {}, {}]), {"lang": "py", "task": "other.task", "id": "x" * 12})
        publish(store, lane, "no message at all", {})
        _push_raw(store, lane, b"\x00junk")
        job = store.wait_for(store.submit("gd-one_news"), "done")
        assert (job["failures"], job["recoveries"]) == (0, 0)
        assert len(worker.probes.seen("started", job["job_id"])) == 1
        assert left(store, lane) == 0
        site.assert_whole(store, most=0)
        site.assert_polite()
    assert worker.lives


def _claim(store: Store, job_id: str) -> Claim:
    row = store.row(job_id)
    return Claim(job_id, row.attempt, row.claim_no, row.group_key, row.kind, row.target_code)


def publish(store: Store, queue: str, body: str, headers: dict[str, Any]) -> None:
    """Publish a message as another producer, or a broker that repeats itself, would."""
    with Connection(store.broker_url, transport_options={"priority_steps": [0]}) as line, line.channel() as channel:
        Producer(channel, auto_declare=False).publish(
            body, routing_key=queue, exchange="", headers=headers, content_type="application/json",
            content_encoding="utf-8", correlation_id=headers.get("id"))


def _push_raw(store: Store, queue: str, raw: bytes) -> None:
    with Connection(store.broker_url) as line, line.channel() as channel:
        channel.client.lpush(queue, raw)


def left(store: Store, queue: str) -> int:
    """Return how many messages wait in a queue."""
    with Connection(store.broker_url) as line, line.channel() as channel:
        client = channel.client
        return int(client.hlen(queue) if queue == "unacked" else client.llen(queue))
