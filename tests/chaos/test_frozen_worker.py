"""A worker that stops in mid-work and goes on later has been overtaken: it sends nothing, and nothing it writes counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from config import clock
from console.demo import Site, Waf
from tests.support.figures import figure
from tests.support.fleet import Fleet, fleet
from tests.support.servers import wait_until
from tests.support.store import FAST, Store
from tests.support.workers import Worker, Workers

pytestmark = [pytest.mark.slow, pytest.mark.paired, pytest.mark.timeout(75)]
LEASE, BEAT = FAST["lease_sec"], FAST["heartbeat_sec"]
#: PostgreSQL ends a transaction that does nothing for so long; until then its locks hold
IDLE_IN_TRANSACTION = 10.0
#: the line at which the body of each site's job stands when its worker is frozen; `after_guard` goes on into a response
LINES = {
    "wait": "waiting", "guard": "before_guard", "commit": "committing", "response": "after_guard", "end": "settling",
}
#: those of them at which the old body's next step is a write, which must be refused and counted
WRITES = ("commit", "end")


def test_a_frozen_worker_is_overtaken_wherever_it_stood(store: Store, workers: Workers) -> None:
    """J6, J7, J8: at a wait, at the guard, before a commit, in the middle of a response, before its last write."""
    sites = [Site(name, columns={"news": 2 if name == "end" else 5}, per_page=2) for name in LINES]
    slow = Waf(["response"], "slow", at_paths=["/news/art_4.html"], lasts_sec=0.0, delay_sec=0.6)
    (first,) = workers.start("one", concurrency=8)
    with fleet(store, sites, wafs=[slow], grouped=False) as site:
        job_ids = {name: store.submit(f"{name}_news") for name in LINES}
        site.server.wait_for(_read("/news/art_5.html", times=4))
        for name, line in LINES.items():
            first.probes.order(line, "hold", job_ids[name])
        for name, line in LINES.items():
            first.probes.wait_taken(line, job_ids[name])
        (second,) = workers.start("two", concurrency=8)
        second.wait_age(LEASE)
        first.probes.go("after_guard")
        site.server.log.wait_for_arrival("/news/art_4.html")
        first.freeze(store)
        frozen = datetime.now(UTC)
        for line in LINES.values():
            first.probes.go(line)

        site.server.wait_for(lambda log: {one.site for one in log if one.user_agent == second.user_agent} >= {
            name for name in LINES if name != "end"})
        _thaw(site, first, stale=len(LINES))
        jobs = {name: store.wait_for(job_id, "done") for name, job_id in job_ids.items()}
        took = {name: (store.claimed(job_id, 2) - frozen).total_seconds() for name, job_id in job_ids.items()}
        fenced = store.counters()["fenced_writes"]
        figure(f"frozen {store.db.dialect}: claimed {max(took.values()):.2f} s after at the latest; fenced {fenced}")
        assert max(took.values()) <= LEASE + 2 * BEAT
        assert fenced == len(WRITES)
        for name in LINES:
            _assert_overtaken_once(jobs[name], len(site.server.sites[list(LINES).index(name)].article_urls("news")))
        site.assert_whole(store)
        site.assert_polite()


def test_a_worker_frozen_inside_a_commit_holds_its_lane_for_ten_seconds_at_most(
    store: Store, workers: Workers
) -> None:
    """J7, J8: the database ends the transaction (on SQLite a process stopped in a write holds up its home, D3)."""
    if store.shares_home:
        pytest.skip("D3: one writer")
    workers.pair()
    with fleet(store) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 6)
        first, second = workers.running(job_id)
        first.freeze_at("in_transaction", store)
        store.wait_attempt(job_id, 2, LEASE + IDLE_IN_TRANSACTION + 5)
        site.server.wait_for(lambda log: any(one.user_agent == second.user_agent for one in log))
        _thaw(site, first, stale=1)
        job = store.wait_for(job_id, "done")
        figure(f"frozen in a commit: longest silence of the lane {site.longest_silence():.2f} s")
        assert site.longest_silence() <= LEASE + IDLE_IN_TRANSACTION + 1
        assert store.counters()["fenced_writes"] == 1
        _assert_overtaken_once(job, 12)
        site.assert_whole(store)
        site.assert_polite()


def _thaw(site: Fleet, first: Worker, stale: int) -> None:
    """Let the overtaken worker go on until each of its bodies has found out, and see that none sends anything."""
    thawed = clock.monotonic()
    first.thaw()
    wait_until(lambda: first.log.count("event=job.end") >= stale, "the end of the old bodies")
    assert first.log.count("event=claim.stale") >= stale
    assert site.by(first.user_agent, thawed) == []


def _assert_overtaken_once(job: dict[str, object], articles: int) -> None:
    assert (job["attempt"], job["recoveries"], job["failures"]) == (2, 1, 0)
    assert [one["outcome"] for one in job["attempts_log"]] == ["lost", "done"]  # type: ignore[attr-defined]
    assert job["outcome"] == "complete"
    assert job["progress"]["items_new"] == articles  # type: ignore[index]


def _read(path: str, times: int) -> Callable[..., bool]:
    return lambda log: sum(one.path == path for one in log) >= times
