"""The broker is restarted, or its connections are cut again and again: no job is lost, and soon the next one starts."""

from __future__ import annotations

from typing import Any

import pytest

from config import clock
from console.demo import Site
from tests.support.figures import figure
from tests.support.fleet import Fleet, fleet
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired]
CRAWLED, NEXT = "gd-one", "gd-two"
#: public report W33 allows half a minute
STARTS_WITHIN = 10.0
CUTS = 60


@pytest.mark.timeout(90)
@pytest.mark.parametrize("keep_memory", [True, False], ids=["memory kept", "memory lost"])
def test_a_restarted_broker_is_served_again(
    store: Store, workers: Workers, valkey: ValkeyServer, keep_memory: bool
) -> None:
    """W33, J18: while the worker is idle, and during a crawl, which goes on meanwhile."""
    (worker,) = workers.start("one")
    with fleet(store, _sites(articles=16), grouped=False) as site:
        first = _done(store, f"{NEXT}_news")
        worker.rest()
        valkey.restart(keep_memory=keep_memory)
        took = [_next_crawl(store, site)]

        crawled = store.submit(f"{CRAWLED}_news")
        site.server.wait_for(lambda log: len([one for one in log if one.site == CRAWLED]) >= 4)
        valkey.restart(keep_memory=keep_memory)
        took.append(_next_crawl(store, site))
        _assert_done_once(store.wait_for(crawled, "done"), first)
        figure(f"W33 broker restarted {store.db.dialect} memory {'kept' if keep_memory else 'lost'}: next crawl after "
               f"{took[0]:.1f} s (idle), {took[1]:.1f} s (during a crawl)")
        assert max(took) <= STARTS_WITHIN
        _assert_whole(store, site)
    assert worker.lives


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.acceptance
@pytest.mark.timeout(180)
def test_connections_that_are_cut_every_second_for_a_minute(store: Store, workers: Workers, proxy: Proxy) -> None:
    """W33, J18: crawls go on and new ones start meanwhile, and the next one within ten seconds of the last cut."""
    (worker,) = workers.start("one")
    with fleet(store, _sites(articles=200), grouped=False) as site:
        crawled = store.submit(f"{CRAWLED}_news")
        small = []
        for number in range(CUTS):
            if number % 10 == 0:
                small.append(store.submit(f"{NEXT}_news"))
            clock.pause(1.0)
            proxy.cut_all()
        took = _next_crawl(store, site)
        done = [store.wait_for(job, "done", timeout=60) for job in (crawled, *small)]
        _assert_done_once(*done)
        figure(f"W33 {CUTS} cuts {store.db.dialect}: next crawl after {took:.1f} s, {proxy.accepted} connections made")
        assert took <= STARTS_WITHIN
        _assert_whole(store, site)
    assert worker.lives


def _sites(articles: int) -> list[Site]:
    return [Site(CRAWLED, columns={"news": articles}, per_page=4), Site(NEXT, columns={"news": 1})]


def _done(store: Store, target: str) -> dict[str, Any]:
    return store.wait_for(store.submit(target), "done")


def _next_crawl(store: Store, site: Fleet) -> float:
    """Submit a crawl of the small site and return after how many seconds it sent its first request."""
    before = clock.monotonic()
    job = _done(store, f"{NEXT}_news")
    _assert_done_once(job)
    return min(one.started for one in site.log if one.site == NEXT and one.started >= before) - before


def _assert_whole(store: Store, site: Fleet) -> None:
    """Fail unless the large site was read to its end, nothing of it twice, and everybody politely."""
    large = site.server.sites[0]
    assert store.stored(f"{CRAWLED}_news") == sorted(large.article_urls("news"))
    assert site.read_again()[large.netloc] == (0, 0)
    site.assert_polite()


def _assert_done_once(*jobs: dict[str, Any]) -> None:
    for job in jobs:
        assert (job["status"], job["failures"], job["recoveries"]) == ("done", 0, 0), job
        started = [one for one in job["attempts_log"] if one["started_at"] is not None]
        assert len(started) == 1, job["attempts_log"]
