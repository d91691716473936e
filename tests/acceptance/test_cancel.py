"""Cancelling works with or without workers, and wherever a running job stands."""

from __future__ import annotations

import pytest

from config import clock
from console.demo import Site
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.store import FAST, Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.exclusive, pytest.mark.timeout(60)]
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


def _cancel(name: str, within: float, store: Store, job_ids: dict[str, str]) -> None:
    asked = clock.monotonic()
    assert store.cancel(job_ids[name]).verdict == "flagged"
    assert store.cancel(job_ids[name]).verdict in ("flagged", "refused")
    job = store.wait_for(job_ids[name], "cancelled", timeout=within + 2)
    took = clock.monotonic() - asked
    figure(f"cancel {store.db.dialect} {name}: {took:.2f} s")
    assert took <= within
    assert job["attempts_log"][0]["outcome"] == "cancelled"
