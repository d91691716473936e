"""Every worker is killed at once, or a crawl's only one in its middle, and comes back: nothing is lost or done twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from console.demo import Site
from models.jobs import attempts
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.owners import owners
from tests.support.store import FAST, Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(90)]
LEASE, BEAT = FAST["lease_sec"], FAST["heartbeat_sec"]
POOLS = {"one": "threads", "two": "prefork", "three": "solo"}


def test_all_workers_killed_and_started_again_at_once_go_on_with_every_job(store: Store, workers: Workers) -> None:
    """J8, D1: under their old names they inherit nothing: every job is recovered once, by a new attempt of a new boot."""
    for name, pool in POOLS.items():
        workers.launch(name, pool=pool, concurrency=2)
    fleet_of = [workers.named(name).wait_ready() for name in POOLS]
    sites = [Site(f"gd-{name}", columns={"news": 10}, per_page=3) for name in ("a", "b", "c", "d", "e")]
    with fleet(store, sites, grouped=False) as site, owners(store.db) as seen:
        job_ids = [store.submit(f"{one.name}_news") for one in sites]
        site.server.wait_for(lambda log: all(sum(one.site == each.name for one in log) >= 4 for each in sites), 30)
        killed = datetime.now(UTC)
        for worker in fleet_of:
            worker.kill()
        assert {store.row(job_id).status for job_id in job_ids} == {"running"}
        for worker in fleet_of:
            worker.start()
        found = [store.wait_for(job_id, "done") for job_id in job_ids]

        took = max((store.claimed(job_id, 2) - killed).total_seconds() for job_id in job_ids)
        figure(f"all workers killed and started at once {store.db.dialect}: every job claimed again {took:.2f} s after")
        for job in found:
            assert (job["attempt"], job["recoveries"], job["failures"], job["outcome"]) == (2, 1, 0, "complete")
            assert [one["outcome"] for one in job["attempts_log"]] == ["lost", "done"]
            assert [number for number, _ in seen.of(job["job_id"])] in ([1, 2], [2])
        with store.db.read() as conn:
            rows = conn.execute(select(attempts.c.attempt, attempts.c.boot_id)).all()
        boots = [{row.boot_id for row in rows if row.attempt == number} for number in (1, 2)]
        assert not boots[0] & boots[1]
        assert len(boots[0]) == len(POOLS)
        site.assert_whole(store)
        site.assert_polite()


@pytest.mark.parametrize("place", ["here", "elsewhere"])
def test_w31_a_replacement_started_at_once_goes_on_where_the_killed_one_was(
    store: Store, workers: Workers, place: str
) -> None:
    """W31, J8: worker and child killed at page 5 of 10; page 5 or 6 comes next, within the lease, one owner at a time.

    In the same home death is certain, and nobody waits; elsewhere the replacement may take over once it has itself
    renewed for a lease.
    """
    if place == "elsewhere" and store.shares_home:
        pytest.skip("D1: a SQLite file belongs to one home")
    sites = [Site("gd-one", columns={"news": 20}, per_page=2)]
    (first,) = workers.start("one", pool="prefork", concurrency=2)
    with fleet(store, sites) as site, owners(store.db) as seen:
        job_id = store.submit("gd-one_news")
        site.server.log.wait_for_arrival("/news/index_5.html", timeout=40)
        first.kill()
        killed = datetime.now(UTC)
        second = workers.launch("two", home="one" if place == "here" else "two", pool="prefork", concurrency=2)
        second.wait_ready()
        ready = datetime.now(UTC)
        job = store.wait_for(job_id, "done", timeout=45)

        since, after_ready = ((store.claimed(job_id, 2) - moment).total_seconds() for moment in (killed, ready))
        figure(f"W31 {place} {store.db.dialect}: claimed {since:.2f} s after the kill, {after_ready:.2f} s after the start")
        assert after_ready <= (LEASE - BEAT if place == "here" else LEASE + 2 * BEAT)
        pages = [one.path for one in site.by(second.user_agent) if "index_" in one.path]
        assert pages[0] in ("/news/index_5.html", "/news/index_6.html")
        assert job["attempts_log"][1]["from_page"] in (4, 5)
        assert [one["outcome"] for one in job["attempts_log"]] == ["lost", "done"]
        assert (job["recoveries"], job["failures"], job["outcome"]) == (1, 0, "complete")
        assert seen.of(job_id) == [(1, "one@test"), (2, "two@test")]
        site.assert_whole(store)
        site.assert_polite()
