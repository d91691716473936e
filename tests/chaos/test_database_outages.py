"""The database cuts its connections, or is away for longer than a lease: crawls go on, and nothing runs twice (J18)."""

from __future__ import annotations

import pytest

from config import clock
from tests.support.figures import figure
from tests.support.fleet import Fleet, fleet
from tests.support.servers import PostgresServer
from tests.support.store import FAST, Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(90)]
LEASE, LIMIT = FAST["lease_sec"], FAST["request_timeout_sec"]
CUTS = 5


def test_a_crawl_goes_on_through_cut_connections(store: Store, workers: Workers) -> None:
    """J18, J5: every session of the database is ended, again and again, the listener's included."""
    if store.shares_home:
        pytest.skip("a file has no connections to cut")
    (worker,) = workers.start("one")
    with fleet(store, articles=20) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 4)
        cut = 0
        for _ in range(CUTS):
            cut += _cut_all(store)
            clock.pause(0.7)
        assert cut >= 2 * CUTS
        job = store.wait_for(job_id, "done")
        assert (job["attempt"], job["failures"], job["recoveries"]) == (1, 0, 0)
        # what comes next is still heard of
        worker.rest()
        before = clock.monotonic()
        following = store.submit("gd-one_news")
        (started,) = worker.probes.wait_for("started", following)
        figure(f"{cut} sessions cut: longest silence of the lane {site.longest_silence():.2f} s, next job started "
               f"{started['mono'] - before:.2f} s after its submit")
        store.wait_for(following, "done")
        _assert_each_article_once(site)
        site.assert_polite()
    assert worker.lives


def test_a_database_that_is_away_for_longer_than_a_lease_loses_no_work(
    store: Store, workers: Workers, postgres: PostgresServer
) -> None:
    """J18, J6, J8: recoveries 0, no request without a lease, and neither worker takes the crawl from the other."""
    if store.shares_home:
        pytest.skip("a file is not away")
    workers.pair()
    with fleet(store, articles=16) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 6)
        gone = clock.monotonic()
        postgres.stop()
        try:
            clock.pause(1.5 * LEASE)
        finally:
            postgres.start()
            store.db.dispose()
        back = clock.monotonic()
        job = store.wait_for(job_id, "done", timeout=40)
        late = [one.started - gone for one in site.log if gone < one.started < back]
        resumed = min(one.started for one in site.log if one.started >= back) - back
        figure(f"database away for {back - gone:.1f} s: last request {max(late, default=0.0):.2f} s after, "
               f"next one {resumed:.2f} s after it was back")
        # a request starts only if its whole limit fits into the lease, which nobody could renew
        assert max(late, default=0.0) <= LEASE - LIMIT
        assert (job["attempt"], job["failures"], job["recoveries"], job["outcome"]) == (1, 0, 0, "complete")
        site.assert_whole(store, most=0)
        site.assert_polite()
        assert {one["attempt"] for one in job["attempts_log"]} == {1}


def _assert_each_article_once(site: Fleet) -> None:
    again = site.read_again()
    assert all(articles == 0 for _, articles in again.values()), again


def _cut_all(store: Store) -> int:
    """End every session of the workers, and return how many there were."""
    store.db.dispose()
    with store.db.read() as conn:
        return len(conn.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()").all())
