"""Workers that were given lanes with ``-Q`` serve just those, and what is not a lane's goes to the inbox (R7, J2)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kombu import Connection, Producer

from config.broker import broker_line
from console.demo import Site
from models import queries
from models.catalogue import Catalogue
from routing import resolver
from tests.support.fleet import fleet
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(60), pytest.mark.parametrize("database", ["sqlite"], indirect=True)]
BROKERS = [pytest.param("valkey", marks=pytest.mark.slow), pytest.param("rabbit", marks=pytest.mark.acceptance)]


@pytest.fixture(params=BROKERS)
def on_broker(request: pytest.FixtureRequest, store: Store) -> Iterator[Store]:
    """The store with each of the brokers, empty."""
    server = request.getfixturevalue(request.param)
    server.flush()
    store.broker_url = server.url
    return store


def _send(store: Store, queue: str, job_id: str, target_code: str) -> None:
    """Send a crawl message as another producer would, to a queue that exists."""
    known = broker_line(store.broker_url)
    headers = {"lang": "py", "task": "ratelane.crawl", "id": job_id, "root_id": job_id, "parent_id": None, "group": None}
    with Connection(known.url, transport_options=known.options) as line:
        Producer(line.channel(), auto_declare=False).publish(
            json.dumps([[target_code], {}, {}]), exchange="", routing_key=queue, headers=headers, correlation_id=job_id,
            content_type="application/json", content_encoding="utf-8")


def test_maintenance_serves_the_inbox_and_internal_lanes_alone(on_broker: Store, workers: Workers) -> None:
    """R7, D2: `-Q inbox,rg._*`, as compose.yaml has it: a foreign message becomes a job, which another worker runs."""
    (maintenance,) = workers.start("maintenance", queues="inbox,rg._*")
    assert "lanes=^_.*$" in maintenance.log
    with fleet(on_broker, [Site("inner", columns={"news": 1})], grouped=False) as inner, fleet(
            on_broker, [Site("outer", columns={"news": 1})], grouped=False) as outer:
        # no file may put a site into an internal lane
        Catalogue(on_broker.db).assign("inner", "_export", resolver.chooser())
        _send(on_broker, "inbox", "sent-by-others", "outer_news")
        wait_until(lambda: _exists(on_broker, "sent-by-others"), "the job")
        assert on_broker.wait_for(on_broker.submit("inner_news"), "done")["attempt"] == 1
        assert on_broker.wait_for("sent-by-others", "queued")["attempt"] == 0
        workers.start("crawler", queues="rg.127.*")
        job = on_broker.wait_for("sent-by-others", "done")
        assert job["outcome"] == "complete"
        assert {entry.user_agent for entry in inner.log} == {maintenance.user_agent}
        assert {entry.user_agent for entry in outer.log} == {workers.named(job["attempts_log"][0]["worker"]).user_agent}
        assert job["attempts_log"][0]["worker"].startswith("crawler@")


def test_a_worker_of_a_glob_leaves_the_other_lanes_alone(on_broker: Store, workers: Workers) -> None:
    """R7: `-Q rg.north*` and a lane by its name; what nobody serves stays queued."""
    workers.start("globs", queues="rg.north*,rg.west")
    sites = {group: Site(f"site-{group}", columns={"news": 1}) for group in ("north-1", "north-2", "west", "west-2")}
    jobs = {}
    for group, site in sites.items():
        with fleet(on_broker, [site], group=group):
            jobs[group] = on_broker.submit(f"site-{group}_news", max_attempts=1)
            if group != "west-2":
                assert on_broker.wait_for(jobs[group], "done")["outcome"] == "complete"
    assert on_broker.job(jobs["west-2"])["attempt"] == 0


def test_what_another_producer_put_into_a_lane_becomes_a_job(on_broker: Store, workers: Workers) -> None:
    """J2: whoever is handed over next finds it there and passes it on to the inbox."""
    workers.start("one")
    with fleet(on_broker, [Site("mixed", columns={"news": 1, "more": 1})], grouped=False) as site:
        on_broker.wait_for(on_broker.submit("mixed_news"), "done")
        _send(on_broker, f"rg.{site.server.sites[0].netloc}", "put-there", "mixed_more")
        on_broker.wait_for(on_broker.submit("mixed_news", force=True), "done")
        wait_until(lambda: _exists(on_broker, "put-there"), "the job")
        assert on_broker.wait_for("put-there", "done")["outcome"] == "complete"


def test_the_copy_that_a_dead_worker_left_in_a_lane_runs_nothing(on_broker: Store, workers: Workers) -> None:
    """J6, J8: killed between publish and get; its successor drops what is left, and nothing was spent.

    On RabbitMQ that is a copy of the message; on Redis the two are one transaction, which was not sent yet.
    """
    copies = 1 if on_broker.broker_url.startswith("amqp") else 0
    dead, alive = workers.start("dead", "alive")
    with fleet(on_broker, [Site("copied", columns={"news": 2})], grouped=False) as site:
        alive.freeze(on_broker)
        dead.probes.order("published", "kill")
        job_id = on_broker.submit("copied_news")
        dead.wait_end(10)
        alive.thaw()
        job = on_broker.wait_for(job_id, "done")
        wait_until(lambda: alive.log.count("event=job.end") == 1, "the end")
        assert alive.log.count("event=handover.stale_message") == copies
        assert (job["failures"], job["attempt"], job["outcome"]) == (0, 2, "complete")
        site.assert_whole(on_broker, most=0)
        site.assert_polite()


def _exists(store: Store, job_id: str) -> bool:
    with store.db.look() as conn:
        return bool(queries.documents(conn, [job_id]))
