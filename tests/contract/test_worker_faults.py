"""A killed worker and a broker without its memory cost time, not work, on every database, broker and pool."""

from __future__ import annotations

import pytest

from config import clock
from console.demo import Site
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.pairs import PAIRS, Stand

pytestmark = [
    pytest.mark.timeout(90), pytest.mark.paired, pytest.mark.parametrize("stand", PAIRS, indirect=True),
    pytest.mark.usefixtures("both")]


def test_a_killed_workers_crawl_is_recovered_and_stores_each_article_once(stand: Stand) -> None:
    """J8, R3: kill -9 in the middle of a crawl; the other worker goes on behind the checkpoint."""
    with fleet(stand.store, articles=8, per_page=2, interval_sec=0.1) as site:
        job_id = stand.store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 6)
        victim, _ = stand.workers.running(job_id)
        victim.kill()
        job = stand.store.wait_for(job_id, "done")
        assert (job["recoveries"], job["failures"], job["attempt"], job["outcome"]) == (1, 0, 2, "complete")
        assert [one["outcome"] for one in job["attempts_log"]] == ["lost", "done"]
        site.assert_whole(stand.store)
        site.assert_polite()
    victim.start().wait_ready()


def test_a_broker_that_comes_back_without_its_memory_has_lost_nothing(stand: Stand) -> None:
    """J18: the crawls under way go on, queued jobs have their turn, later ones start."""
    sites = [Site(name, columns={"news": 8, "more": 2}, per_page=4) for name in ("mem-one", "mem-two")]
    with fleet(stand.store, sites, interval_sec=0.2, grouped=False) as site:
        jobs = [stand.store.submit(f"{one.name}_{column}") for column in ("news", "more") for one in sites]
        site.server.wait_for(lambda log: len(log) >= 6)
        stand.broker.restart()
        back = clock.monotonic()
        done = [stand.store.wait_for(job_id, "done", timeout=45) for job_id in jobs]
        later = stand.store.wait_for(stand.store.submit("mem-one_more", force=True), "done", timeout=45)
        figure(f"worker contract {stand.pair}: all done {clock.monotonic() - back:.2f} s after the broker came back")
        assert {(job["failures"], job["recoveries"], job["outcome"]) for job in (*done, later)} == {(0, 0, "complete")}
        assert [job["attempt"] for job in done[:2]] == [1, 1]
        site.assert_whole(stand.store, most=2)
        site.assert_polite()
    assert stand.left_in_lanes() == {}
