"""What operators do while real workers crawl: pauses, their end, and sites that move (rules R9, R2, J14, C7)."""

from __future__ import annotations

import pytest

from config import clock
from console import actions
from console.demo import Site, judge
from models.operations import Operator
from tests.support.figures import figure
from tests.support.fleet import CLOCKS_SEC, GROUP, fleet
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.paired, pytest.mark.timeout(90)]
ANN = Operator("ann@desk", "cli", "the site asked")
STOPS_WITHIN = 2.0


def test_r9_a_paused_job_stops_within_two_seconds_and_goes_on_when_it_is_resumed(store: Store, workers: Workers) -> None:
    """R9, C7: checkpoint kept, nothing spent, no request in between, no burst at the end."""
    workers.start("one")
    with fleet(store, articles=16) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 8)
        asked = clock.monotonic()
        lane = actions.pause(store.db, GROUP, ANN, for_sec=3_600)
        assert (lane["pause_kind"], lane["pause_reason"]) == ("operator", "the site asked")
        paused = store.wait_for(job_id, "queued", timeout=STOPS_WITHIN + 3)
        stopped = clock.monotonic()
        figure(f"pause {store.db.dialect}: {stopped - asked:.2f} s")
        assert stopped - asked <= STOPS_WITHIN
        assert (paused["run_after"], paused["failures"], paused["recoveries"]) == (None, 0, 0)
        assert paused["last_completed_page"] >= 1
        later = store.submit("gd-one_news", priority=200)

        resumed = clock.monotonic()
        assert actions.resume(store.db, GROUP, ANN)["pause_kind"] is None
        job = store.wait_for(job_id, "done")
        assert ([one["outcome"] for one in job["attempts_log"]], job["outcome"]) == (["paused", "done"], "complete")
        assert job["attempts_log"][1]["from_page"] == paused["last_completed_page"]
        assert [one for one in site.log if stopped <= one.started < resumed] == []
        store.wait_for(later, "done")
        site.assert_polite()


def test_r9_the_pause_of_all_stops_every_lane_and_its_end_leaves_single_pauses(store: Store, workers: Workers) -> None:
    """R9: two groups; the one that was paused for itself waits for its own resume."""
    sites = [Site(name, columns={"news": 16}, per_page=4) for name in ("gd-one", "gd-two")]
    workers.start("one")
    with fleet(store, sites, grouped=False) as site:
        one, two = (store.submit(f"{name.name}_news") for name in sites)
        site.server.wait_for(lambda log: all(sum(e.site == s.name for e in log) >= 2 for s in sites))
        asked = clock.monotonic()
        actions.pause_all(store.db, ANN)
        for job_id in (one, two):
            store.wait_for(job_id, "queued", timeout=STOPS_WITHIN + 3)
        stopped = clock.monotonic()
        assert stopped - asked <= STOPS_WITHIN
        alone = sites[0].netloc
        actions.pause(store.db, alone, ANN, for_sec=3_600)

        resumed = clock.monotonic()
        lanes = {lane["group"]: lane for lane in actions.resume_all(store.db, ANN)}
        assert lanes[alone]["pause_kind"] == "operator"
        assert store.wait_for(two, "done")["outcome"] == "complete"
        assert store.row(one).status == "queued"
        actions.resume(store.db, alone, ANN)
        assert store.wait_for(one, "done")["outcome"] == "complete"
        assert [entry for entry in site.log if stopped <= entry.started < resumed] == []
        site.assert_polite()


def test_r2_a_site_that_moves_while_its_job_runs_never_overlaps_with_its_new_group(store: Store, workers: Workers) -> None:
    """R2, R8: the new group waits for the running job, which goes on in the new lane when it is requeued."""
    sites = [Site(name, columns={"news": 12}, per_page=4) for name in ("gd-one", "gd-two")]
    workers.start("one", "two")
    with fleet(store, sites, grouped=False) as site:
        old, new = (one.netloc for one in sites)
        moving = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 3)
        actions.assign_group(store.db, "gd-one", new, ANN)
        waiting = store.submit("gd-two_news")
        site.server.wait_for(lambda log: len(log) >= 6)
        assert (store.row(moving).group_key, store.row(waiting).status) == (old, "queued")

        actions.pause(store.db, old, ANN, for_sec=3_600)
        wait_until(lambda: store.row(moving).group_key == new, "the job in its new lane", 10)
        assert store.wait_for(waiting, "done")["outcome"] == "complete"
        job = store.wait_for(moving, "done")
        # the new lane may be claimed before the old body's thread is free: such a claim goes back and costs nothing
        ends = [one["outcome"] for one in job["attempts_log"] if one["outcome"] != "older_body_lives"]
        assert ends == ["paused", "done"]
        # one group in the sites' own eyes, from the first request on: the other site was asked only after the move
        found = judge(site.log, dict.fromkeys((old, new), new), site.interval_sec, CLOCKS_SEC)
        assert not found.overlaps
        assert not found.short_gaps


def test_j14_a_cancelled_crawl_is_requeued_and_goes_on_behind_its_checkpoint(store: Store, workers: Workers) -> None:
    """J10, J14: a stop request does not haunt the requeue."""
    workers.start("one")
    with fleet(store, articles=12) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 8)
        settings = store.settings()
        assert actions.cancel(store.db, settings, [job_id], ANN)["flagged"] == 1
        page = store.wait_for(job_id, "cancelled")["last_completed_page"]
        assert actions.requeue(store.db, settings, [job_id], ANN) == {"requeued": 1, "refused": []}
        job = store.wait_for(job_id, "done")
        assert (job["outcome"], job["attempts_log"][1]["from_page"]) == ("complete", page)
        site.assert_whole(store)
        site.assert_polite()
