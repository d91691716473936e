"""RabbitMQ as the broker: what its channels and its silence do to workers, and what commands say (rules D2, J18)."""

from __future__ import annotations

import pytest

from config import clock
from console.demo import Site
from routing.kinds import register
from tests.support.command_line import CommandLine
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.rabbit import RabbitServer
from tests.support.servers import wait_until
from tests.support.site import sites_yaml
from tests.support.store import Store
from tests.support.workers import Workers

# the broker does not know which database there is
pytestmark = [
    pytest.mark.acceptance, pytest.mark.timeout(120), pytest.mark.parametrize("database", ["sqlite"], indirect=True)]
LOST = "Connection to broker lost"


@pytest.fixture
def on_rabbit(store: Store, rabbit: RabbitServer) -> Store:
    """The store with an empty RabbitMQ as its broker."""
    rabbit.flush()
    store.broker_url = rabbit.url
    return store


def test_a_lane_whose_queue_is_gone_is_declared_anew(
    on_rabbit: Store, workers: Workers, rabbit: RabbitServer
) -> None:
    """D2: the server answers a get from it with an error that closes the channel; no claim is lost by that."""
    (worker,) = workers.start("one")
    with fleet(on_rabbit, [Site("gone", columns={"news": 1})], grouped=False) as site:
        on_rabbit.wait_for(on_rabbit.submit("gone_news"), "done")
        with rabbit.connect() as line:
            line.channel().queue_delete(f"rg.{site.server.sites[0].netloc}")
        job = on_rabbit.wait_for(on_rabbit.submit("gone_news", force=True), "done")
        assert (job["attempt"], job["failures"]) == (1, 0)
    assert LOST not in worker.log
    assert "handover.failed" not in worker.log


def test_a_queue_that_somebody_declared_in_another_way_is_used_as_it_stands(
    on_rabbit: Store, workers: Workers, rabbit: RabbitServer
) -> None:
    """D2: other producers declare a lane's queue without our expiry."""
    (worker,) = workers.start("one")
    with fleet(on_rabbit, [Site("other", columns={"news": 1})], grouped=False) as site:
        with rabbit.connect() as line:
            line.channel().queue_declare(f"rg.{site.server.sites[0].netloc}", durable=True, auto_delete=False)
        job = on_rabbit.wait_for(on_rabbit.submit("other_news"), "done")
        assert (job["attempt"], job["failures"]) == (1, 0)
    assert worker.log.count("handover.queue_of_another_kind") == 1
    assert LOST not in worker.log


def test_a_lane_that_cannot_be_had_waits_and_holds_up_nobody(
    on_rabbit: Store, workers: Workers, rabbit: RabbitServer
) -> None:
    """J6, R6: claims are handed back, nothing is spent, other lanes go on, and it starts once it can."""
    (worker,) = workers.start("one")
    sites = [Site("taken", columns={"news": 1}), Site("free", columns={"news": 1})]
    with fleet(on_rabbit, sites, grouped=False) as site:
        with rabbit.connect() as line:
            line.channel().queue_declare(f"rg.{site.server.sites[0].netloc}", exclusive=True)
            taken = on_rabbit.submit("taken_news")
            wait_until(lambda: "handover.failed" in worker.log, "the refusal")
            on_rabbit.wait_for(on_rabbit.submit("free_news"), "done")
            assert on_rabbit.row(taken).status in ("queued", "running")
        job = on_rabbit.wait_for(taken, "done")
        assert (job["failures"], job["recoveries"]) == (0, 0)
        assert {one["outcome"] for one in job["attempts_log"][:-1]} == {"handed_back"}
    assert LOST not in worker.log


def test_connections_that_the_server_closes_cost_a_reconnect(
    on_rabbit: Store, workers: Workers, rabbit: RabbitServer
) -> None:
    """J18: the crawl under way notices nothing, queued jobs have their turn."""
    (worker,) = workers.start("one", concurrency=1)
    with fleet(on_rabbit, [Site("cut", columns={"news": 6, "more": 1})], grouped=False) as site:
        jobs = [on_rabbit.submit("cut_news"), on_rabbit.submit("cut_more")]
        site.server.wait_for(lambda log: len(log) >= 3)
        rabbit.close_all_connections()
        for job_id in jobs:
            job = on_rabbit.wait_for(job_id, "done")
            assert (job["attempt"], job["failures"], job["recoveries"]) == (1, 0, 0)
        site.assert_whole(on_rabbit, most=0)
        site.assert_polite()
    wait_until(lambda: LOST in worker.log, "the news of the lost connection")


def test_a_broker_that_says_nothing_blocks_no_worker_for_ever(
    on_rabbit: Store, workers: Workers, rabbit: RabbitServer
) -> None:
    """J18: its process stands still with all connections open; within ten seconds the worker gives the claim back."""
    (worker,) = workers.start("one")
    with fleet(on_rabbit, [Site("before", columns={"news": 6}), Site("after", columns={"news": 2})],
               grouped=False) as site:
        before = on_rabbit.submit("before_news")
        site.server.wait_for(lambda log: len(log) >= 2)
        rabbit.freeze()
        try:
            frozen, after = clock.monotonic(), on_rabbit.submit("after_news")
            assert on_rabbit.wait_for(before, "done")["attempt"] == 1
            wait_until(lambda: LOST in worker.log, "the end of the patience", 20)
            figure(f"rabbitmq frozen: given up after {clock.monotonic() - frozen:.1f} s")
        finally:
            rabbit.thaw()
        job = on_rabbit.wait_for(after, "done", timeout=40)
        assert (job["failures"], job["recoveries"], job["outcome"]) == (0, 0, "complete")
        site.assert_whole(on_rabbit, most=0)


def test_a_broker_short_of_memory_delays_jobs_and_loses_none(
    on_rabbit: Store, workers: Workers, rabbit: RabbitServer
) -> None:
    """W79: under its alarm RabbitMQ makes publishers wait; a worker that waits takes no jobs, and goes on when it ends."""
    workers.start("one")
    with fleet(on_rabbit, [Site("tight", columns={"news": 2})], grouped=False) as site:
        rabbit.ask("set_vm_memory_high_watermark", "absolute", "1MB")
        try:
            wait_until(lambda: "memory" in rabbit.ask("eval", "rabbit_alarm:get_alarms()."), "the alarm", 20)
            job_id = on_rabbit.submit("tight_news")
            # otherwise it would take the job and give it back every three seconds
            with pytest.raises(TimeoutError):
                on_rabbit.wait_claims(job_id, 3, timeout=11)
            assert not site.log
        finally:
            rabbit.ask("set_vm_memory_high_watermark", "0.4")
        job = on_rabbit.wait_for(job_id, "done", timeout=40)
        assert (job["failures"], job["recoveries"], job["outcome"]) == (0, 0, "complete")


def test_a_solo_body_longer_than_the_heartbeats_costs_a_reconnect(
    on_rabbit: Store, workers: Workers, rabbit: RabbitServer
) -> None:
    """D4: the body holds up the loop that answers heartbeats; the server hangs up; the next job runs all the same."""
    on_rabbit.broker_url = f"{rabbit.url}?heartbeat=1"
    (worker,) = workers.start("one", pool="solo", concurrency=1)
    with fleet(on_rabbit, [Site("long", columns={"news": 18, "more": 1}, per_page=20)], interval_sec=0.3,
               grouped=False) as site:
        jobs = [on_rabbit.submit("long_news"), on_rabbit.submit("long_more")]
        for job_id in jobs:
            job = on_rabbit.wait_for(job_id, "done")
            assert (job["failures"], job["recoveries"], job["outcome"]) == (0, 0, "complete")
        site.assert_whole(on_rabbit, most=0)
        site.assert_polite()
    assert LOST in worker.log


def test_hundreds_of_lanes_leave_no_message_behind(
    on_rabbit: Store, workers: Workers, rabbit: RabbitServer
) -> None:
    """R7: each has its durable queue, which the server deletes when nobody has used it for two days."""
    register("returns", "odd.returns")
    sites = [Site(f"s{number}", host=f"127.1.0.{number % 250}", columns={"news": 1}) for number in range(300)]
    for number, site in enumerate(sites):
        site.port = 10_000 + number
    on_rabbit.load(sites_yaml(sites))
    jobs = [on_rabbit.submit(f"{site.name}_news", kind="returns") for site in sites]
    workers.start("one", app="tests.support.odd_tasks", concurrency=16)
    began = clock.monotonic()
    for job_id in jobs:
        assert on_rabbit.wait_for(job_id, "done", timeout=60)["attempt"] == 1
    figure(f"rabbitmq: 300 jobs in 300 new lanes in {clock.monotonic() - began:.1f} s")
    lanes = {name: number for name, number in rabbit.queues().items() if name.startswith("rg.")}
    assert len(lanes) == 300
    assert set(lanes.values()) == {0}
    assert "x-expires" in rabbit.ask("list_queues", "name", "arguments")


def test_commands_use_it_and_start_no_broker_of_their_own(on_rabbit: Store, rabbit: RabbitServer) -> None:
    """U1, D2: `crawl` from file to summary, `health`, and exit 3 with advice and without the password when it is away."""
    line = CommandLine(on_rabbit.settings().home)
    with fleet(on_rabbit, [Site("whole", columns={"news": 3})], grouped=False) as site:
        found = line.json("crawl", str(on_rabbit.folder / "sites.yaml"), **on_rabbit.environment())
        assert [job["outcome"] for job in found["jobs"]] == ["complete"]
        site.assert_whole(on_rabbit, most=0)
        assert not (line.home / "broker.lock").exists()
        assert line.json("health", code=1, **on_rabbit.environment())["broker_ok"] is True
        line.start("worker", "--concurrency", "2", **on_rabbit.environment())
        try:
            # with Celery's mingle, gossip and events, which the workers of other tests go without
            assert on_rabbit.wait_for(on_rabbit.submit("whole_news", force=True), "done")["attempt"] == 1
            wait_until(lambda: line.run("health", **on_rabbit.environment()).returncode == 0, "a healthy worker", 20)
        finally:
            line.kill()
        rabbit.stop()
        try:
            sentence = line.refuses(3, "crawl", str(on_rabbit.folder / "sites.yaml"), **on_rabbit.environment())
            assert "does not answer: start it" in sentence
            assert "ratelane:***@" in sentence
            assert line.json("health", code=3, **on_rabbit.environment())["broker_ok"] is False
        finally:
            rabbit.start()
