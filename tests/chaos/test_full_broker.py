"""A broker whose memory is full refuses messages, and one that would evict them is warned about (W79)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis.exceptions import OutOfMemoryError

from console.demo import Site
from tests.support.command_line import CommandLine
from tests.support.fleet import fleet
from tests.support.servers import ValkeyServer, wait_until
from tests.support.store import Store
from tests.support.workers import Workers

# the broker does not know which database there is
pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.timeout(60), pytest.mark.parametrize("database", ["sqlite"], indirect=True)]


@pytest.fixture
def small(request: pytest.FixtureRequest, store: Store) -> Iterator[ValkeyServer]:
    """A Valkey server of 3 MB with the policy of `request.param`, which is the store's broker."""
    server = ValkeyServer(maxmemory="3mb", maxmemory_policy=request.param)
    try:
        store.broker_url = server.start().url
        yield server
    finally:
        server.remove()


def _fill(server: ValkeyServer) -> None:
    """Write until the server has no room; a quarter of a megabyte less, because clients' buffers come and go."""
    with server.client() as line:
        for size in (65_536, 4_096):
            with pytest.raises(OutOfMemoryError):
                for number in range(100_000):
                    line.set(f"fill-{size}-{number}", b"x" * size)
        line.config_set("maxmemory", int(line.info("memory")["used_memory"]) - 262_144)


@pytest.mark.parametrize("small", ["noeviction"], indirect=True)
def test_jobs_are_accepted_while_the_broker_is_full_and_start_when_there_is_space(
    store: Store, workers: Workers, small: ValkeyServer
) -> None:
    """W79, J1: nothing is spent meanwhile, and nobody warns about a broker that refuses instead of forgetting."""
    (worker,) = workers.start("one")
    with fleet(store, [Site("late", columns={"news": 3})], grouped=False) as site:
        _fill(small)
        job_id = store.submit("late_news")
        wait_until(lambda: "event=handover.failed" in worker.log, "the refusal of the broker")
        waiting = store.wait_for(job_id, "queued")
        assert (waiting["failures"], waiting["recoveries"]) == (0, 0)
        assert not site.log
        with small.client() as line:
            line.flushall()
        job = store.wait_for(job_id, "done")
        assert (job["failures"], job["recoveries"], job["outcome"]) == (0, 0, "complete")
        assert {one["outcome"] for one in job["attempts_log"][:-1]} == {"handed_back"}
        site.assert_whole(store, most=0)
    assert "broker.may_evict" not in worker.log


@pytest.mark.parametrize("small", ["allkeys-lru"], indirect=True)
def test_a_broker_that_may_evict_messages_is_warned_about(
    store: Store, workers: Workers, small: ValkeyServer
) -> None:
    """W79: by the worker at its start, by `health`, and by `crawl`."""
    (worker,) = workers.start("one")
    assert worker.log.count("event=broker.may_evict") == 1
    line = CommandLine(store.settings("one").home)
    warning = line.json("health", **store.environment("one"))["broker_warning"]
    assert "maxmemory-policy allkeys-lru" in warning
    with fleet(store, [Site("warned", columns={"news": 1})], grouped=False):
        done = line.run("crawl", str(store.folder / "sites.yaml"), **store.environment("one"))
    assert done.returncode == 0, done.stderr
    assert f"warning: {warning}" in done.stderr.replace("\n", " ")
