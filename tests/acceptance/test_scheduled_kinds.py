"""What the schedule starts, with real workers and a served site (rule S7)."""

from __future__ import annotations

from datetime import date

import pytest
import yaml
from sqlalchemy import select

from console.demo import DemoServer, Site, Waf
from models.snapshots import candidates, snapshot_items, snapshots, vitals
from tests.support.agenda import Beat, at
from tests.support.fleet import fleet
from tests.support.servers import wait_until
from tests.support.site import sites_yaml
from tests.support.store import FAST, Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
DAY, NEXT_DAY = date(2026, 5, 1), date(2026, 5, 2)


def beat_at(store: Store, moment: str, *names: str) -> Beat:
    """A beat that has these built-in entries alone."""
    beat = Beat(store.db, at(moment), store.settings())
    beat.configure(**{name: {} for name in names})
    beat.tick()
    return beat


def wait_run(beat: Beat, name: str) -> str:
    """Let the beat look until the last run of an entry is over; returns what became of it."""

    def over() -> bool:
        beat.tick()
        return beat.runs(name)[-1]["outcome"] is not None

    wait_until(over, f"the end of {name}", 40.0)
    return beat.told(name)[-1]


def seen(store: Store, day: date) -> list[tuple[str, str, bool]]:
    with store.db.read() as conn:
        found = conn.execute(select(snapshot_items).where(snapshot_items.c.stat_date == day).order_by(snapshot_items.c.url))
        return [(row.url, row.src, row.ok) for row in found]


def test_s7_a_target_that_a_cooldown_has_parked_is_walked_for_the_day_which_seeds_the_next_one(
    store: Store, workers: Workers
) -> None:
    news = Site("gd-one", columns={"news": 6}, per_page=3)
    waf = Waf(at_paths=["/news/art_3.html"], lasts_sec=FAST["cooldown_delay_sec"])
    workers.start("one")
    with fleet(store, [news], wafs=[waf]) as site:
        crawl = store.submit("gd-one_news", dedupe_key="crawl:gd-one_news")
        site.server.wait_for(lambda log: any(entry.waf for entry in log))
        assert store.wait_for(crawl, "queued")["error_msg"].startswith("cooldown_abort")
        beat = beat_at(store, "2026-05-01 23:14", "snapshot", "snapshot_seed")
        beat.tick("2026-05-01 23:15")
        assert store.row(crawl).status == "queued"
        assert wait_run(beat, "snapshot") == "23:15 success"
        urls = sorted(news.article_urls("news"))
        assert seen(store, DAY) == [(url, "list", True) for url in urls]
        assert store.stored("gd-one_news") == urls
        store.wait_for(crawl, "done")
        asked = len(site.log)
        beat.tick("2026-05-02 00:05")
        assert wait_run(beat, "snapshot_seed") == "00:05 success"
        assert seen(store, NEXT_DAY) == [(url, "seed", False) for url in urls]
        with store.db.read() as conn:
            days = {row.stat_date: row for row in conn.execute(select(snapshots))}
        assert days[DAY].completed_run == beat.runs("snapshot")[0]["run_id"]
        assert (days[NEXT_DAY].seeded_from, days[NEXT_DAY].completed_at) == (DAY, None)
        assert len(site.log) == asked, "a seed asks no site"
        assert beat.entry("snapshot")["due_at"] == at("2026-05-02 23:15")
        site.assert_polite()


def test_s7_vitals_and_discovery_look_at_a_site_from_its_own_lane(store: Store, workers: Workers) -> None:
    site = Site("town", columns={"news": 6, "plans": 8})
    workers.start("one")
    with DemoServer([site]) as server:
        document = yaml.safe_load(sites_yaml([site], 0.2))
        document["sites"][0]["targets"] = [one for one in document["sites"][0]["targets"] if one["name"] == "news"]
        store.load(yaml.safe_dump(document, allow_unicode=True))
        beat = beat_at(store, "2026-05-01 05:59", "vitals", "discovery")
        beat.tick("2026-05-01 06:00")
        assert wait_run(beat, "vitals") == "06:00 success" and wait_run(beat, "discovery") == "06:00 success"
        with store.db.read() as conn:
            [life] = conn.execute(select(vitals)).all()
            [candidate] = conn.execute(select(candidates)).all()
        assert (life.site_code, life.state, life.status) == ("town", "reachable", 200) and life.latency_sec >= 0
        assert (candidate.url, candidate.title, candidate.links) == (f"{site.base_url}/plans/index_1.html", "plans", 8)
        assert [entry.path for entry in server.log.entries].count("/") <= 2
        asked = len(server.log.entries)
        beat.tick("2026-05-01 06:30")
        assert beat.told("vitals")[-1] == "06:30 success" and len(server.log.entries) == asked, "it has just answered"
