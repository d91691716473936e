"""The nights in which the whole schedule once went wrong, lived through by real beats and a real worker (rules S1, S3 to S7).

What is judged is the database and the log of the site. The beats' machine stands in New York, the schedule in Shanghai.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

import pytest

from console import actions
from console.demo import Site, Waf
from models.operations import Operator
from tests.support.beats import RATELANE
from tests.support.fleet import Fleet, fleet
from tests.support.nights import BEACON, Nights
from tests.support.site import sites_yaml
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]
ANN = Operator("ann@desk", "cli", "its pause is over by then")
TRIES_OF_A_PAGE = 3
MAY_1, MAY_2, MAY_3 = date(2026, 5, 1), date(2026, 5, 2), date(2026, 5, 3)
#: what the nights are about, without what would ask the sites beside it
ENTRIES = {"discovery": {"enabled": False}, "vitals": {"enabled": False}, "beacon": BEACON}
NO_HOURLY = {**ENTRIES, "snapshot_recent": {"enabled": False}}


@pytest.fixture
def nights(store: Store) -> Iterator[Nights]:
    made = Nights(store)
    yield made
    print(made.logs())


@pytest.fixture
def sites() -> list[Site]:
    return [Site(name, columns={"news": 6}, per_page=3) for name in ("gd-one", "gd-two")]


@contextmanager
def served(store: Store, sites: list[Site], entries: dict[str, Any], wafs: list[Waf] | None = None) -> Iterator[Fleet]:
    """Serve the sites, each a group of its own, with these entries of the schedule."""
    with fleet(store, sites, grouped=False, interval_sec=0.1, wafs=wafs or [], schedule={"entries": entries}) as made:
        yield made


def urls(sites: list[Site]) -> list[str]:
    return sorted(url for site in sites for url in site.article_urls("news"))


def test_w56_an_evening_beside_an_hourly_crawl_and_a_cooldown(
    store: Store, workers: Workers, nights: Nights, sites: list[Site]
) -> None:
    """The hourly crawl that a firewall has parked at 22:00 is still there at 23:15, and the snapshot walks its target;
    the seed is skipped without a source, waits for the snapshot, and leaves the next one pending; nothing at noon.
    """
    workers.start("one", cooldown_delay_sec=600.0)
    waf = Waf(hosts=["gd-one"], at_paths=["/news/art_3.html"], lasts_sec=1.0)
    with served(store, sites, ENTRIES, [waf]) as site:
        nights.plan("2026-05-01 00:00")
        assert_seed_without_source(nights)
        assert site.log == []

        with nights.beat("2026-05-01 22:00"):
            nights.wait_until(lambda: waf.tripped and store.group(sites[0].netloc).pause_until, "the cooldown")
            nights.wait_until(lambda: len(store.stored("gd-two_news")) == 6, "the other site")
        with nights.beat("2026-05-01 23:14:57"):
            nights.wait("snapshot", "05-01 23:15 running")
            nights.wait("snapshot_recent", "05-01 22:00 running", "05-01 23:00 deferred(quiet_window)")
            nights.wait_line("task_defer", "snapshot_recent", "due_at=2026-05-02T01:00:00+08:00")
        with nights.beat("2026-05-02 00:05"):
            nights.wait("snapshot_seed", "05-02 00:05 deferred(snapshot_running)")
        assert nights.standing("snapshot_seed") == ("deferred", "05-02 00:15") and nights.waits("snapshot_seed") == 10.0

        parked = len(site.log)
        actions.resume(store.db, sites[0].netloc, ANN, cooldown=True)
        nights.wait_idle()
        with nights.beat("2026-05-02 00:16"):
            nights.wait("snapshot", "05-01 23:15 success")
            nights.wait("snapshot_seed", "05-02 00:05 deferred(snapshot_running)", "05-02 00:05 success")
            nights.wait("snapshot_recent", "05-01 22:00 success", "05-01 23:00 deferred(quiet_window)")
        [hourly], [evening] = ([run for run in nights.runs(name) if run.started_at and run.outcome == "success"]
                               for name in ("snapshot_recent", "snapshot"))
        assert hourly.started_at < evening.started_at < hourly.ended_at, "they did not overlap"
        walked = [one.path for one in site.log[parked:] if one.host == sites[0].netloc]
        assert {"/news/index_1.html", "/news/index_2.html"} <= set(walked)
        assert nights.listed(MAY_1) == [(url, "list", True) for url in urls(sites)]
        assert nights.listed(MAY_2) == [(url, "seed", False) for url in urls(sites)]
        assert nights.standing("snapshot") == ("pending", "05-02 23:15")
        assert {url for one in sites for url in store.stored(f"{one.name}_news")} == set(urls(sites))

        store.load(sites_yaml(sites, 0.1, schedule={"entries": NO_HOURLY}))
        asked, told = len(site.log), nights.told("snapshot")
        with nights.beat("2026-05-02 12:00"):
            nights.wait_look()
        assert (nights.told("snapshot"), len(site.log)) == (told, asked), "a crawl by day"
        assert nights.standing("snapshot") == ("pending", "05-02 23:15")
        site.assert_polite()


def assert_seed_without_source(nights: Nights) -> None:
    """Fail unless a seed without an earlier snapshot is skipped, and asked again after ten minutes for the same date."""
    skipped = "05-01 00:05 skipped(no_source)"
    with nights.beat("2026-05-01 00:05"):
        nights.wait("snapshot_seed", skipped)
    assert nights.standing("snapshot_seed") == ("deferred", "05-01 00:15") and nights.waits("snapshot_seed") == 10.0
    with nights.beat("2026-05-01 00:16"):
        nights.wait("snapshot_seed", skipped, skipped)
    assert nights.entry("snapshot_seed").last_success_at is None


def test_a_night_in_which_beats_are_away(store: Store, workers: Workers, nights: Nights, sites: list[Site]) -> None:
    """Killed at 23:14:59: one make-up for the same stat date. Away until noon: skipped, and the evening is pending.
    A run that fails keeps progress and stat date, and is tried again for the same one.
    """
    workers.start("one")
    with served(store, sites, NO_HOURLY) as site:
        nights.plan("2026-05-01 12:00")
        with nights.beat("2026-05-01 23:14:45"):
            nights.wait_look()
            nights.wait_until(lambda: f"{nights.now:%H:%M:%S}" >= "23:14:59", "its last second")
        assert (f"{nights.now:%H:%M:%S}", nights.told("snapshot")) == ("23:14:59", [])
        with nights.beat("2026-05-01 23:20"):
            nights.wait("snapshot", "05-01 23:15 success")
            nights.wait_line("task_start", "snapshot", "reason=missed stat_date=2026-05-01")
        with nights.beat("2026-05-01 23:25"):
            nights.wait_look()
        assert nights.told("snapshot") == ["05-01 23:15 success"]
        assert nights.listed(MAY_1) == [(url, "list", True) for url in urls(sites)]
        [made_up] = nights.runs("snapshot")
        assert (made_up.stat_date, made_up.progress) == (MAY_1, {"done": 2, "failed": 0, "total": 2})

        asked, before = len(site.log), nights.entry("snapshot")
        with nights.beat("2026-05-03 12:00:01"):
            nights.wait_look()
            nights.wait_line("task_skip", "snapshot", "stat_date=2026-05-02")
        assert nights.told("snapshot") == ["05-01 23:15 success", "05-02 23:15 skipped(missed)"]
        assert nights.told("snapshot_seed")[-2:] == ["05-02 00:05 skipped(missed)", "05-03 00:05 skipped(missed)"]
        assert (nights.standing("snapshot"), len(site.log)) == (("pending", "05-03 23:15"), asked), "a crawl by day"
        assert nights.entry("snapshot").last_success_at == before.last_success_at

        for one in sites:
            one.fail("/news/index_1.html", times=TRIES_OF_A_PAGE)
        with nights.beat("2026-05-03 23:15", max_attempts=1):
            nights.wait("snapshot", "05-03 23:15 failed(0 of 2 targets are done, 0.9 of them are needed)")
            nights.wait_line("task_fail", "snapshot", "stat_date=2026-05-03")
        after = nights.entry("snapshot")
        assert (after.stat_date, after.progress, after.last_success_at) == (MAY_1, before.progress, before.last_success_at)
        assert nights.standing("snapshot") == ("failed", "05-03 23:20") and nights.waits("snapshot") == 5.0
        with nights.beat("2026-05-03 23:30"):
            nights.wait("snapshot", "05-03 23:15 failed(0 of 2 targets are done, 0.9 of them are needed)", "05-03 23:15 success")
        assert nights.listed(MAY_3) == [(url, "list", True) for url in urls(sites)]
        assert nights.entry("snapshot").stat_date == MAY_3
        site.assert_polite()


def test_a_day_that_is_complete_before_its_seed_and_a_clean_up_that_raises(
    store: Store, workers: Workers, nights: Nights, sites: list[Site]
) -> None:
    """The seed is a success at once and comes again tomorrow only; the clean-up is recorded and tried again in 5 min."""
    workers.start("one")
    with served(store, sites, NO_HOURLY) as site:
        nights.plan("2026-05-02 00:00")
        by_hand = nights.command("2026-05-02 00:01", "schedule", "run", "snapshot")
        assert (by_hand["stat_date"], by_hand["source"]) == ("2026-05-02", "manual")
        nights.wait_idle()
        with nights.beat("2026-05-02 00:04:57", program=RATELANE):
            nights.wait("snapshot_seed", "05-02 00:05 success(already_completed)")
            nights.wait_line("task_ok", "snapshot_seed", "reason=already_completed")
        asked, complete = len(site.log), (("done", "05-03 00:05"), ["05-02 00:05 success(already_completed)"])
        assert (nights.standing("snapshot_seed"), nights.told("snapshot_seed")) == complete
        with nights.beat("2026-05-02 00:20"):
            nights.wait_look()
        assert (nights.standing("snapshot_seed"), nights.told("snapshot_seed")) == complete
        assert {src for _, src, _ in nights.listed(MAY_2)} == {"list"} and len(site.log) == asked

        rename(store, "candidates", "candidates_away")
        with nights.beat("2026-05-02 03:30", program=RATELANE, max_attempts=1):
            nights.wait_until(lambda: (found := nights.runs("candidate_cleanup")) and found[-1].outcome, "the clean-up")
            nights.wait_line("task_fail", "candidate_cleanup")
        rename(store, "candidates_away", "candidates")
        [failed] = nights.runs("candidate_cleanup")
        assert failed.outcome == "failed" and "candidates" in failed.reason
        assert nights.standing("candidate_cleanup") == ("failed", "05-02 03:35") and nights.waits("candidate_cleanup") == 5.0
        with nights.beat("2026-05-02 03:36"):
            nights.wait("candidate_cleanup", f"05-02 03:30 failed({failed.reason})", "05-02 03:30 success")
        assert nights.standing("candidate_cleanup") == ("done", "05-03 03:30")


def rename(store: Store, table: str, other: str) -> None:
    with store.db.write() as conn:
        conn.exec_driver_sql(f"ALTER TABLE {table} RENAME TO {other}")
