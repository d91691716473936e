"""A worker that is killed loses its job to another one, which goes on politely behind the checkpoint."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime

import pytest

from config import clock
from console.demo import Waf
from tests.support.figures import figure
from tests.support.fleet import GROUP, fleet
from tests.support.processes import is_alive
from tests.support.servers import wait_until
from tests.support.store import FAST, Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.paired, pytest.mark.timeout(60)]
LEASE, BEAT = FAST["lease_sec"], FAST["heartbeat_sec"]


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_a_living_worker_takes_over_from_a_killed_one_after_its_lease(
    store: Store, workers: Workers, pool: str
) -> None:
    """J8, R8, D4: within lease + 2 heartbeats of the kill, first request no earlier than the lease's end + interval."""
    workers.pair(pool=pool)
    # an interval longer than the heartbeat: a reaper that forgot it would be caught
    with fleet(store, articles=6, per_page=2, interval_sec=0.7) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 5)
        first, second = workers.running(job_id)
        killed, before = datetime.now(UTC), clock.monotonic()
        first.kill()
        lease_until = store.row(job_id).lease_until
        job = store.wait_for(job_id, "done")

        took = (store.claimed(job_id, 2) - killed).total_seconds()
        next_request = min(entry.started_ns for entry in site.by(second.user_agent, before)) / 1e9
        waited = next_request - lease_until.timestamp()
        figure(f"takeover {store.db.dialect} {pool}: {took:.2f} s after the kill, request {waited:.3f} s after the lease")
        assert took <= LEASE + 2 * BEAT
        assert waited >= site.interval_sec
        assert (job["recoveries"], job["failures"], job["outcome"]) == (1, 0, "complete")
        assert [one["outcome"] for one in job["attempts_log"]] == ["lost", "done"]
        site.assert_whole(store)
        site.assert_polite()


def test_a_killed_pool_child_is_recovered_at_once_by_its_parent(store: Store, workers: Workers) -> None:
    """D4, J8: where death is certain nobody waits for the lease, and the group waits one interval from now."""
    (worker,) = workers.start("one", pool="prefork", concurrency=2)
    with fleet(store, articles=12, per_page=4) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 7)
        body = worker.probes.seen("started", job_id)[0]["pid"]
        assert body in worker.children()
        killed = datetime.now(UTC)
        os.kill(body, signal.SIGKILL)
        job = store.wait_for(job_id, "done")

        took = (store.claimed(job_id, 2) - killed).total_seconds()
        figure(f"killed pool child {store.db.dialect}: claimed again {took:.2f} s after the kill")
        assert took < LEASE - BEAT
        assert (job["recoveries"], job["failures"], job["outcome"]) == (1, 0, "complete")
        site.assert_whole(store)
        site.assert_polite()


def test_pool_children_die_with_their_worker(store: Store, workers: Workers) -> None:
    """D1, D4: the kill of a prefork worker's main process alone leaves nobody who could send another request."""
    (worker,) = workers.start("one", pool="prefork", concurrency=2)
    with fleet(store, articles=12, per_page=4) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 4)
        children = worker.children()
        assert len(children) == 2
        worker.kill_parent_alone()
        wait_until(lambda: not any(is_alive(child) for child in children), "the end of the pool", 2.0)
        before = clock.monotonic()
        workers.start("two", home="one")
        store.wait_for(job_id, "done")
        assert not site.by(worker.user_agent, before)
        site.assert_whole(store)
        site.assert_polite()


def test_a_worker_killed_between_a_block_and_its_pause_leaves_a_cooldown_and_no_crash(
    store: Store, workers: Workers
) -> None:
    """C2, C3, J8: what the body wrote down before its retry counts: the group pauses and no recovery is spent."""
    waf = Waf(behaviour="rate_429", at_paths=["/news/art_4.html"], lasts_sec=0.0)
    (worker,) = workers.start("one")
    with fleet(store, articles=6, per_page=3, wafs=[waf]) as site:
        worker.probes.order("retry_received", "kill", "blocked")
        store.submit("gd-one_news", job_id="blocked")
        worker.probes.wait_taken("retry_received", "blocked", 20)
        worker.wait_end(10)
        worker.start()
        job = store.wait_for("blocked", "done")
        objected = next(one for one in site.log if one.waf)
        following = next(one for one in site.log if one.started > objected.ended)
        assert following.started - objected.ended >= FAST["cooldown_delay_sec"]
        assert (job["cooldown_retries"], job["recoveries"], job["failures"]) == (1, 0, 0)
        assert [one["outcome"] for one in job["attempts_log"]] == ["cooldown", "done"]
        assert len(store.cooldowns(GROUP)) == 1
        assert job["outcome"] == "complete"
        site.assert_whole(store)
        site.assert_polite()
