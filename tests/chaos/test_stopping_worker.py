"""A worker that is asked to end lets its crawls go to their next stop point and gives them back."""

from __future__ import annotations

import os
import signal

import pytest

from config import clock
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.store import FAST, Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.paired, pytest.mark.timeout(60)]


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_worker_that_ends_gives_its_job_back_with_its_checkpoint(store: Store, workers: Workers, pool: str) -> None:
    """D5, W74: within the soft stop, nothing spent, no overlap, and the next worker goes on behind the checkpoint."""
    (first,) = workers.start("one", pool=pool)
    with fleet(store) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 7)
        asked = clock.monotonic()
        second = workers.launch("two")
        first.terminate()
        status = first.wait_end(FAST["soft_stop_sec"] + 10)
        took = clock.monotonic() - asked
        parked = store.job(job_id)
        store.wait_for(job_id, "done")
        job = store.job(job_id)
        figure(f"TERM {store.db.dialect} {pool}: worker ended after {took:.2f} s with {status}")
        assert took <= FAST["soft_stop_sec"]
        assert status == 0
        assert parked["last_completed_page"] >= 1
        assert (job["failures"], job["recoveries"], job["cooldown_retries"], job["attempt"]) == (0, 0, 0, 2)
        assert [one["outcome"] for one in job["attempts_log"]] == ["soft_stop", "done"]
        assert job["outcome"] == "complete"
        assert {entry.user_agent for entry in site.log} == {first.user_agent, second.user_agent}
        site.assert_whole(store)
        site.assert_polite()


@pytest.mark.acceptance
def test_a_supervisor_that_tells_every_process_of_a_pool_costs_one_recovery(store: Store, workers: Workers) -> None:
    """D5, J8: Celery's pool children end by TERM, so the running job is recovered by their parent before it goes."""
    (first,) = workers.start("one", pool="prefork")
    with fleet(store) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 7)
        os.killpg(first.pid, signal.SIGTERM)
        assert first.wait_end(FAST["soft_stop_sec"] + 10) == 0
        row = store.row(job_id)
        assert (row.status, row.recoveries, row.failures) == ("queued", 1, 0)
        assert row.last_completed_page >= 1
        workers.start("two")
        job = store.wait_for(job_id, "done")
        assert [one["outcome"] for one in job["attempts_log"]] == ["lost", "done"]
        assert job["outcome"] == "complete"
        site.assert_whole(store)
        site.assert_polite()
