"""Cancelling works with or without workers, and wherever a running job stands."""

from __future__ import annotations

import pytest

from config import clock
from console.demo import Site, Waf
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.servers import wait_until
from tests.support.store import FAST, Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.paired, pytest.mark.timeout(60)]
NOTICED_WITHIN = 2.0


def test_a_queued_job_that_was_cancelled_without_workers_never_sends_a_request(
    store: Store, workers: Workers
) -> None:
    """J10, W69, W73: cancelled at once; workers that start later leave it alone, and the others have their turn."""
    sites = [Site("gd-one", columns={"news": 3, "notices": 1})]
    with fleet(store, sites) as site:
        job_id, kept = store.submit("gd-one_news"), store.submit("gd-one_notices")
        assert store.cancel(job_id).verdict == "cancelled"
        assert store.cancel(job_id).reason == "cannot cancel status=cancelled"
        assert store.cancel("0123456789ab").reason == "not_found"
        workers.start("one")
        store.wait_for(kept, "done")
        assert store.job(job_id)["status"] == "cancelled"
        assert store.job(job_id)["attempt"] == 0
        assert not [path for path in site.paths() if path.startswith("/news/")]


def test_a_running_job_is_cancelled_wherever_it_stands(store: Store, workers: Workers) -> None:
    """J10, W69: between requests, in a wait, in a slow response: checkpoint kept, no request after, group free."""
    quick = [Site("between", columns={"news": 40, "more": 1}, per_page=4), Site("slow", columns={"news": 40})]
    patient = [Site("wait", columns={"news": 8})]
    workers.start("one", concurrency=8)
    with fleet(store, quick, grouped=False) as site, fleet(store, patient, interval_sec=8, grouped=False) as waiting:
        hold = quick[1].hold("/news/art_3[0-9].html")
        job_ids = {one.name: store.submit(f"{one.name}_news") for one in (*quick, *patient)}
        next_job = store.submit("between_more")
        site.server.log.wait_for_arrival("/news/art_40.html", times=2)
        waiting.server.wait_for(lambda log: len(log) >= 1)
        site.server.wait_for(lambda log: sum(one.site == "between" for one in log) >= 8)
        _cancel("between", NOTICED_WITHIN, store, job_ids)
        _cancel("wait", NOTICED_WITHIN, store, job_ids)
        _cancel("slow", FAST["request_timeout_sec"] + NOTICED_WITHIN, store, job_ids)
        cancelled = clock.monotonic()
        hold.release()
        store.wait_for(next_job, "done")
        assert store.job(job_ids["between"])["last_completed_page"] >= 1
        assert not [one for one in site.log if one.started > cancelled and one.path.startswith("/news/")]
        assert len(waiting.log) == 1
        assert store.cancel(job_ids["slow"]).reason == "cannot cancel status=cancelled"
        site.assert_polite()


def test_w69_a_cancel_holds_in_a_response_of_many_seconds_and_in_a_pause(store: Store, workers: Workers) -> None:
    """W69 a, c, J10: over when the response is, or at once; no request afterwards, and the lane's next job has its turn."""
    limit, pause = 4.0, 4.0
    sites = [Site(name, columns={"news": 6, "more": 1}, per_page=3) for name in ("response", "pause")]
    waf = Waf(["pause"], at_paths=["/news/art_5.html"], lasts_sec=0.0)
    workers.start("one", request_timeout_sec=limit, lease_sec=10.0, cooldown_delay_sec=pause)
    with fleet(store, sites, grouped=False, wafs=[waf]) as site:
        hold = sites[0].hold("/news/art_5.html")
        job_ids = {one.name: store.submit(f"{one.name}_news") for one in sites}
        following = [store.submit(f"{one.name}_more") for one in sites]
        site.server.log.wait_for_arrival("/news/art_5.html", times=2, timeout=20)
        asked = clock.monotonic()
        assert store.cancel(job_ids["response"]).verdict == "flagged"
        wait_until(lambda: store.row(job_ids["pause"]).wait_reason == "cooldown", "the pause", 20)
        assert store.cancel(job_ids["pause"]).verdict == "cancelled"
        assert store.row(job_ids["pause"]).status == "cancelled"
        store.wait_for(job_ids["response"], "cancelled", timeout=limit + NOTICED_WITHIN)
        took = clock.monotonic() - asked
        figure(f"W69 {store.db.dialect}: cancelled {took:.2f} s after, in a response of up to {limit:g} s")
        hold.release()
        for job_id in following:
            assert store.wait_for(job_id, "done")["attempt"] == 1
        assert [store.job(job_id)["status"] for job_id in job_ids.values()] == ["cancelled", "cancelled"]
        # each column ends with the request in whose time it was cancelled
        assert {(one.site, one.path) for one in site.log if one.path.startswith("/news/") and one.started > asked} == set()
        assert site.log[-1].path.startswith("/more/")
        site.assert_polite()


def _cancel(name: str, within: float, store: Store, job_ids: dict[str, str]) -> None:
    asked = clock.monotonic()
    assert store.cancel(job_ids[name]).verdict == "flagged"
    assert store.cancel(job_ids[name]).verdict in ("flagged", "refused")
    job = store.wait_for(job_ids[name], "cancelled", timeout=within + 2)
    took = clock.monotonic() - asked
    figure(f"cancel {store.db.dialect} {name}: {took:.2f} s")
    assert took <= within
    assert job["attempts_log"][0]["outcome"] == "cancelled"
