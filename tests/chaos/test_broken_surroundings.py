"""The broker loses its memory, a body leaves without a word: no job is lost."""

from __future__ import annotations

import pytest

from config import clock
from console.demo import Site
from routing.kinds import register
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.servers import ValkeyServer
from tests.support.store import FAST, Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.paired, pytest.mark.timeout(60)]


def test_a_broker_that_loses_its_memory_loses_no_job(store: Store, workers: Workers, valkey: ValkeyServer) -> None:
    """J18: the crawl under way goes on meanwhile, and the next job starts within ten seconds."""
    sites = [Site("gd-one", columns={"news": 12}, per_page=4), Site("gd-two", columns={"news": 3})]
    workers.start("one")
    with fleet(store, sites, grouped=False) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 4)
        valkey.restart()
        back = clock.monotonic()
        next_job = store.submit("gd-two_news")
        site.server.wait_for(lambda log: any(one.site == "gd-two" for one in log), 12)
        took = min(one.started for one in site.log if one.site == "gd-two") - back
        jobs = [store.wait_for(one, "done") for one in (job_id, next_job)]
        figure(f"broker restarted {store.db.dialect}: the next job sent its first request {took:.2f} s after")
        assert took <= 10
        assert [(one["attempt"], one["failures"], one["recoveries"]) for one in jobs] == [(1, 0, 0), (1, 0, 0)]
        site.assert_whole(store, most=0)
        site.assert_polite()


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_body_that_leaves_without_a_word_is_recovered(store: Store, workers: Workers, pool: str) -> None:
    """J8: in the threads pool no hook of Celery reports it; the job is recovered at once and not lost."""
    register("exits", "odd.exits")
    workers.start("one", app="tests.support.odd_tasks", pool=pool)
    with fleet(store):
        before = clock.monotonic()
        job = store.wait_for(store.submit("gd-one_news", kind="exits"), "done")
        took = clock.monotonic() - before
        figure(f"sys.exit in a body {store.db.dialect} {pool}: done after {took:.2f} s")
        assert took < FAST["lease_sec"]
        assert (job["recoveries"], job["failures"], job["attempt"]) == (1, 0, 2)
        assert [one["outcome"] for one in job["attempts_log"]] == ["lost", "done"]
        assert job["result"] == {"attempt": 2}
