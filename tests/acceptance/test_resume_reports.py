"""Crawls that are killed, parked and stopped again and again still store every row once (reports W01, W07, W09)."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from config import clock
from tests.support.fleet import Fleet, fleet
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.timeout(120)]
TARGET = "gd-one_news"


def times_read(site: Fleet) -> Counter[str]:
    """How often each article was answered."""
    return Counter(entry.path for entry in site.log if "/art_" in entry.path and entry.status == 200)


def test_w01_what_an_interrupted_crawl_stored_does_not_end_the_next_one(store: Store, workers: Workers) -> None:
    """200 of 300 rows known; killed after about 30 of 100 new ones, cancelled, and crawled again by a new job."""
    (worker,) = workers.start("one", home="home")
    with fleet(store, articles=200, per_page=20, interval_sec=0.0) as site:
        store.wait_for(store.submit(TARGET), "done", timeout=60)
        site.server.sites[0].add_articles("news", 100)
        first = store.submit(TARGET)
        wait_until(lambda: len(store.stored(TARGET)) >= 230, "30 new articles", 30)
        worker.kill()
        between = len(store.stored(TARGET))
        assert between < 300
        store.cancel(first)
        workers.start("two", home="home")
        store.wait_for(first, "cancelled")
        job = store.wait_for(store.submit(TARGET), "done", timeout=60)
        assert (job["outcome"], job["result"]["items_new"]) == ("complete", 300 - between)
        assert store.stored(TARGET) == sorted(site.server.sites[0].article_urls("news"))
        assert sum(times - 1 for times in times_read(site).values()) <= 1
        site.assert_polite()


@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_w07_twenty_kills_at_random_moments_lose_and_double_nothing(store: Store, workers: Workers) -> None:
    chance, kills = random.Random(20260), 20
    with fleet(store, articles=500, per_page=10, interval_sec=0.02) as site:
        job_id = store.submit(TARGET)
        for number in range(kills):
            (worker,) = workers.start(f"w{number}", home="home")
            target = len(site.log) + chance.randint(3, 24)
            wait_until(lambda goal=target, job=job_id: len(site.log) >= goal or store.row(job).status == "done", "requests", 60)
            clock.pause(chance.random() * 0.1)
            worker.kill()
            if store.row(job_id).status == "failed":
                # three deaths in a row on one page: somebody starts it again
                job_id = store.submit(TARGET)
        workers.start("last", home="home")
        job = store.wait_for(job_id, "done", timeout=180)
        assert job["outcome"] == "complete"
        assert store.stored(TARGET) == sorted(site.server.sites[0].article_urls("news"))
        assert sum(times - 1 for times in times_read(site).values()) <= kills
        site.assert_polite()


def test_w09_five_stops_cost_at_most_one_more_request_each(store: Store, workers: Workers) -> None:
    with fleet(store, articles=120, per_page=6, interval_sec=0.05) as site:
        job_id, stops, unread = store.submit(TARGET), 5, 0
        for number in range(stops):
            (worker,) = workers.start(f"w{number}", home="home")
            goal = len(site.log) + 8
            wait_until(lambda least=goal: len(site.log) >= least, "some requests", 30)
            worker.terminate()
            worker.wait_end(20)
            unread += "/index_" in site.log[-1].path
        workers.start("last", home="home")
        job = store.wait_for(job_id, "done", timeout=60)
        asked = [entry.path for entry in site.log if "/index_" in entry.path]
        # a stop in the middle of a page has that page read again, one behind a page has it looked at once more; only a
        # stop between a list page and its first article costs both
        assert len(asked) <= 21 + stops + unread
        assert max(times_read(site).values()) == 1
        assert (job["outcome"], job["failures"], job["recoveries"]) == ("complete", 0, 0)
        assert store.stored(TARGET) == sorted(site.server.sites[0].article_urls("news"))
        site.assert_polite()
