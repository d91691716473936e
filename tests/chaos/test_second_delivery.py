"""A message that arrives twice: a crawl that is longer than the broker's patience runs once all the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from kombu import Connection

from config.celery import INBOX
from console.demo import Site
from models.claim import Claim
from routing.keys import lane_name
from routing.lanes.handover import message_of
from routing.lanes.inflight import Held
from tests.support.fault_tasks import IMPATIENT
from tests.support.figures import figure
from tests.support.fleet import GROUP, fleet
from tests.support.owners import owners
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(60)]
APP = "tests.support.fault_tasks"


def test_w29_a_crawl_longer_than_the_visibility_timeout_is_not_delivered_again(
    store: Store, workers: Workers
) -> None:
    """W29, J4: nothing of a lane is left unacknowledged, so that no scan of the broker finds anything to deliver again."""
    started = workers.start("one", "two", app=APP)
    with fleet(store, articles=20, per_page=5) as site, owners(store.db) as seen:
        job_id = store.submit("gd-one_news")
        job = _watched(store, job_id)
        ran = job["running_for_sec"]
        figure(f"W29 {store.db.dialect}: ran {ran:.1f} s with a visibility timeout of {IMPATIENT['visibility_timeout']} s")
        assert ran > 3 * IMPATIENT["visibility_timeout"]
        assert (job["attempt"], job["recoveries"], job["failures"]) == (1, 0, 0)
        assert len(seen.of(job_id)) == 1
        assert sum(worker.log.count(f"[{job_id}] received") for worker in started) == 1
        assert len({one.user_agent for one in site.log}) == 1
        site.assert_whole(store, most=0)
        site.assert_polite()


def _watched(store: Store, job_id: str) -> dict[str, Any]:
    """Return a job's document once it is done; fail if the broker ever held something of it for later."""
    with redis.Redis.from_url(store.broker_url) as line:
        def over() -> bool:
            assert line.hlen("unacked") == 0
            assert line.zcard("unacked_index") == 0
            return bool(store.row(job_id).status == "done")
        wait_until(over, "the end of the crawl", 40)
    return store.job(job_id)


def test_w29_a_copy_of_a_message_whose_body_runs_in_a_pool_child_starts_nothing(store: Store, workers: Workers) -> None:
    """W29, J4, J7: left in the lane, the next hand-over drops it; in the inbox, another child of the pool does."""
    sites = [Site("gd-one", columns={"news": 12, "more": 2}, per_page=4)]
    (worker,) = workers.start("one", app=APP, pool="prefork")
    with fleet(store, sites) as site, owners(store.db) as seen:
        job_id, following = store.submit("gd-one_news"), store.submit("gd-one_more")
        site.server.wait_for(lambda log: len(log) >= 4, 20)
        for queue in (lane_name(GROUP), INBOX, INBOX):
            _send_copy(store, job_id, queue)
        wait_until(lambda: worker.log.count(f"event=claim.stale job={job_id}") == 2, "two refusals", 20)
        found = [store.wait_for(one, "done") for one in (job_id, following)]
        assert [(job["attempt"], job["recoveries"], job["failures"]) for job in found] == [(1, 0, 0), (1, 0, 0)]
        assert f"event=handover.stale_message group={GROUP} job={job_id}" in worker.log
        assert [number for number, _ in seen.of(job_id)] == [1]
        assert "lease.lost" not in worker.log
        site.assert_whole(store, most=0)
        site.assert_polite()


def _send_copy(store: Store, job_id: str, queue: str) -> None:
    """Put a copy of the message with which a running job was handed over into a queue."""
    row = store.row(job_id)
    claim = Claim(row.job_id, row.attempt, row.claim_no, row.group_key, row.kind, row.target_code)
    body, headers = message_of(Held(claim), "ratelane.crawl")
    with _producer(store) as producer:
        producer.publish(body, routing_key=queue, exchange="", headers=headers, content_type="application/json",
                         content_encoding="utf-8", correlation_id=job_id)
    assert json.loads(body)[0] == [row.target_code]


@contextmanager
def _producer(store: Store) -> Iterator[Any]:
    with Connection(store.broker_url, transport_options={"priority_steps": [0]}) as line:
        yield line.Producer(auto_declare=False)
