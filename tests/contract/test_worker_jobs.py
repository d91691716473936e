"""What a user sees of jobs is the same on every database, broker and pool: two workers of one slot each prove it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError
from celery.result import AsyncResult

from config import clock
from config.errors import JobFailed, JobWaits
from config.settings import clear_settings, use_settings
from console.demo import Site, Waf
from models import db
from tests.support.figures import figure
from tests.support.fleet import GROUP, fleet
from tests.support.pairs import PAIRS, Stand
from tests.support.servers import wait_until
from tests.support.store import FAST

pytestmark = [
    pytest.mark.timeout(60), pytest.mark.parametrize("stand", PAIRS, indirect=True), pytest.mark.usefixtures("both")]


@pytest.fixture
def answer(stand: Stand) -> Iterator[Any]:
    """What `AsyncResult` answers in this process."""
    use_settings(stand.store.settings())
    db.after_fork()
    from config.celery import app

    yield lambda job_id: AsyncResult(job_id, app=app)
    db.get_database().dispose()
    db.after_fork()
    clear_settings()


def test_a_submitted_job_is_done_and_leaves_nothing_in_the_broker(stand: Stand) -> None:
    """J1, J4, W29: submit → done, every article stored, no message left in any lane."""
    with fleet(stand.store, [Site("plain", columns={"news": 5}, per_page=3)], grouped=False) as site:
        asked = clock.monotonic()
        job = stand.store.wait_for(stand.store.submit("plain_news"), "done")
        first = min(entry.started for entry in site.log) - asked
        figure(f"worker contract {stand.pair}: first request {first:.3f} s after the submit")
        assert (job["outcome"], job["attempt"], job["failures"], job["recoveries"]) == ("complete", 1, 0, 0)
        site.assert_whole(stand.store, most=0)
        assert stand.left_in_lanes() == {}


def test_a_lane_goes_by_priority_then_by_the_moment_of_queueing(stand: Stand) -> None:
    """R4: the running job goes on, then priority 10, then the two others as they came."""
    columns = ("first", "later", "last", "urgent")
    sites = [Site("ordered", columns=dict.fromkeys(columns, 1))]
    with fleet(stand.store, sites, interval_sec=0.05, grouped=False) as site:
        hold = sites[0].hold("/first/index_1.html")
        jobs = [stand.store.submit("ordered_first")]
        site.server.log.wait_for_arrival("/first/index_1.html")
        jobs += [stand.store.submit(f"ordered_{column}") for column in ("later", "last")]
        jobs.append(stand.store.submit("ordered_urgent", priority=10))
        hold.release()
        for job_id in jobs:
            stand.store.wait_for(job_id, "done")
        lists = [path.split("/")[1] for path in site.paths() if "index" in path]
        assert lists == ["first", "urgent", "later", "last"]
        site.assert_polite()


def test_two_workers_never_ask_a_group_for_two_things_at_once(stand: Stand) -> None:
    """R3, R8: judged from the sites' own log, over two groups that both workers serve."""
    names = ("left-a", "left-b", "right-a", "right-b")
    sites = [Site(name, columns={"news": 4, "more": 4}, per_page=2) for name in names]
    with fleet(stand.store, sites[:2], interval_sec=0.1) as left, fleet(
            stand.store, sites[2:], interval_sec=0.1, group="other-fleet") as right:
        jobs = [stand.store.submit(f"{name}_{column}") for column in ("news", "more") for name in names]
        for job_id in jobs:
            job = stand.store.wait_for(job_id, "done")
            assert (job["failures"], job["recoveries"]) == (0, 0)
        assert len({entry.user_agent for entry in (*left.log, *right.log)}) == 2
        for one in (left, right):
            one.assert_whole(stand.store, most=0)
            one.assert_polite()


def test_an_ordinary_failure_is_tried_again_after_its_backoff(stand: Stand) -> None:
    """J9: failures 1, the wait at least the backoff, then done."""
    with fleet(stand.store, [Site("broken", columns={"news": 1})], grouped=False):
        job = stand.store.wait_for(stand.store.submit("broken_news", kind="breaks"), "done")
        assert [one["outcome"] for one in job["attempts_log"]] == ["failed_attempt", "done"]
        assert (job["failures"], job["attempt"], job["result"]) == (1, 2, {"attempt": 2})
        ended = datetime.fromisoformat(job["attempts_log"][0]["finished_at"])
        again = stand.store.claimed(job["job_id"], 2)
        assert (again - ended).total_seconds() >= FAST["backoff_base_sec"] - 0.001


def test_a_cooldown_pauses_the_group_and_the_crawl_goes_on_behind_its_page(stand: Stand) -> None:
    """C2, C5, C6: one objection, silence for the pause, nothing stored twice."""
    waf = Waf(["cooled"], at_paths=["/news/art_1.html"], lasts_sec=1.0)
    with fleet(stand.store, [Site("cooled", columns={"news": 4}, per_page=2)], wafs=[waf], interval_sec=0.1) as site:
        job = stand.store.wait_for(stand.store.submit("cooled_news"), "done")
        assert [one["outcome"] for one in job["attempts_log"]] == ["cooldown", "done"]
        assert (job["cooldown_retries"], job["failures"], job["outcome"]) == (1, 0, "complete")
        (objection,) = (entry for entry in site.log if entry.waf)
        after = min(entry.started for entry in site.log if entry.started > objection.ended)
        assert FAST["cooldown_delay_sec"] <= after - objection.ended < FAST["cooldown_delay_sec"] + 2
        assert len(stand.store.cooldowns(GROUP)) == 1
        site.assert_whole(stand.store)


def test_queued_and_running_jobs_are_cancelled(stand: Stand) -> None:
    """J10: the queued one at once and without a request, the running one within 2 s and with its checkpoint."""
    sites = [Site("stopped", columns={"news": 40, "more": 2}, per_page=2)]
    with fleet(stand.store, sites, interval_sec=0.1, grouped=False) as site:
        running, queued = stand.store.submit("stopped_news"), stand.store.submit("stopped_more")
        site.server.wait_for(lambda log: len(log) >= 5)
        assert stand.store.cancel(queued).verdict == "cancelled"
        asked = clock.monotonic()
        assert stand.store.cancel(running).verdict == "flagged"
        job = stand.store.wait_for(running, "cancelled")
        assert clock.monotonic() - asked <= 2.0
        assert job["last_completed_page"] >= 1
        assert stand.store.job(queued)["attempt"] == 0
        assert not [path for path in site.paths() if path.startswith("/more/")]


def test_celery_sees_every_state_of_a_job(stand: Stand, answer: Any) -> None:
    """J2, spec 3: PENDING, STARTED or PROGRESS, SUCCESS, RETRY, FAILURE, REVOKED through `AsyncResult`."""
    sites = [Site("seen", columns={"news": 3, "more": 1}, per_page=2), Site("torn", columns={"news": 1})]
    with fleet(stand.store, sites, interval_sec=0.1, grouped=False) as site:
        robots, article = sites[0].hold("/robots.txt"), sites[0].hold("/news/art_2.html")
        job, later = answer(stand.store.submit("seen_news")), answer(stand.store.submit("seen_more", run_after_sec=60))
        site.server.log.wait_for_arrival("/robots.txt")
        # the crawl has said that it prepares
        assert (job.state, later.state, answer("0123456789ab").state) == ("PROGRESS", "PENDING", "PENDING")
        assert job.info["items_new"] == 0
        robots.release()
        site.server.log.wait_for_arrival("/news/art_2.html")
        assert job.state == "PROGRESS"
        assert job.info["items_new"] == 1
        article.release()
        assert job.get(timeout=20)["items_new"] == 3
        assert job.state == "SUCCESS"

        again = answer(stand.store.submit("torn_news", kind="breaks"))
        waits = _seen_as(again, "RETRY")
        assert isinstance(waits, JobWaits)
        assert "the first attempt breaks" in str(waits)
        assert again.get(timeout=20) == {"attempt": 2}
        failed = answer(stand.store.submit("torn_news", kind="breaks", max_attempts=1))
        with pytest.raises(JobFailed, match="RuntimeError: the first attempt breaks"):
            failed.get(timeout=20)
        assert failed.state == "FAILURE"
        assert stand.store.cancel(later.id).verdict == "cancelled"
        assert later.state == "REVOKED"
        with pytest.raises(TaskRevokedError):
            later.get(timeout=5)


def _seen_as(found: AsyncResult, state: str) -> Any:
    """Return what `found` answered when it was first seen in `state`, which may not last."""
    metas: list[dict[str, Any]] = []

    def look() -> bool:
        metas.append(found.backend.get_task_meta(found.id))
        return bool(metas[-1]["status"] == state)

    wait_until(look, state)
    return metas[-1]["result"]
