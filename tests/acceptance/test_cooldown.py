"""A firewall that objects pauses the whole group; the crawl goes on behind its last page, more slowly."""

from __future__ import annotations

from itertools import pairwise

import pytest

from console.demo import Site, Waf
from tests.support.figures import figure
from tests.support.fleet import GROUP, fleet
from tests.support.store import FAST, Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]
PAUSE = FAST["cooldown_delay_sec"]


def test_two_cooldowns_pause_the_group_and_cost_next_to_nothing(store: Store, workers: Workers) -> None:
    """C1, C2, C5, C6, C7: one blocked request a trip, silence from all jobs, interval 0.2 → 1.2 → 2.2 s."""
    names = ("gd-one", "gd-two")
    sites = [Site("gd-one", columns={"news": 6}, per_page=2), Site("gd-two", columns={"news": 2})]
    wafs = [Waf(names, at_paths=[f"/news/art_{number}.html"], lasts_sec=PAUSE) for number in (3, 1)]
    workers.start("one", "two")
    with fleet(store, sites, wafs=wafs) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 2)
        other = store.submit("gd-two_news", priority=200)
        site.server.wait_for(lambda log: any(entry.waf for entry in log))
        cooling = store.wait_for(job_id, "queued", timeout=1.5)
        assert cooling["error_msg"] == "cooldown_abort; auto_retry 1/12"
        assert store.job(other)["status"] == "queued"
        job = store.wait_for(job_id, "done")
        store.wait_for(other, "done")

        assert (job["outcome"], job["failures"], job["cooldown_retries"]) == ("complete", 0, 2)
        assert [one["outcome"] for one in job["attempts_log"]] == ["cooldown", "cooldown", "done"]
        assert [one["source"] for one in job["attempts_log"]] == ["manual", "retry", "retry"]
        assert store.intervals("gd-one_news") == [(0.2, 1.2), (1.2, 2.2)]
        assert [one.job_id for one in store.cooldowns(GROUP)] == [job_id, job_id]
        blocked = [entry for entry in site.log if entry.waf]
        assert [waf.tripped for waf in wafs] == [1, 1]
        assert [entry.status for entry in blocked] == [403, 403]
        for entry in blocked:
            after = min(later.started for later in site.log if later.started > entry.ended)
            figure(f"cooldown {store.db.dialect}: next request {after - entry.ended:.3f} s after the objection")
            assert PAUSE <= after - entry.ended < PAUSE + 1.5
        site.assert_whole(store, most=2)
        for before, after in pairwise(job["attempts_log"]):
            assert after["from_page"] == before["last_completed_page"] > 0
        site.assert_polite()
        for objection, interval_sec in zip(blocked, (1.2, 2.2), strict=True):
            later = [entry for entry in site.log if entry.site == "gd-one" and entry.started > objection.ended]
            assert min(after.started - before.ended for before, after in pairwise(later)) >= interval_sec
