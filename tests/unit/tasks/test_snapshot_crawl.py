"""The snapshot of a target: every listed item of every page, bodies only of what is new or changed (rule S7)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from sqlalchemy import insert, update

from config.errors import StaleClaim
from models.articles import articles
from models.claim import Commit
from models.jobs import jobs
from models.sites import targets
from models.snapshots import snapshot_items
from tests.support.crawl_ports import Site, paged_site, rows
from tests.support.ledger import START
from tests.support.misbehave import article_html, page, sequence

DAY, NEXT_DAY = date(2026, 11, 30), date(2026, 12, 1)


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        running.show(rows(1, 2, 3), rows(4, 5, 6))
        yield running


def snapshot(bench: Any, day: date = DAY, **more: Any) -> str:
    """Submit a target's snapshot as a run does; returns the job."""
    options = {"snapshot": day.isoformat(), "refetch": bool(more.pop("refetch", False))}
    found: str = bench.submit(force=True, dedupe_key="snapshot:t1", options=options, **more).job_id
    return found


def items(bench: Any, day: date = DAY) -> dict[str, dict[str, Any]]:
    """The items of a stat date by the last part of their URL."""
    return {row["url"].rpartition("/")[2]: row for row in bench.rows(snapshot_items) if row["stat_date"] == day}


def test_s7_a_snapshot_lists_every_item_of_every_page_with_the_hash_of_its_text(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0)
    bench.run_job(bench.submit().job_id)
    site.show(rows(7, 1, 2), rows(3, 4, 5), rows(6))
    asked = len(site.requests)
    job = bench.job(job_id) if (job_id := snapshot(bench)) and bench.run_job(job_id) else {}
    assert (job["outcome"], job["progress"]["items_new"], job["progress"]["items_known"]) == ("complete", 1, 6)
    assert sorted(request.path for request in site.requests[asked:]) == ["/a/7", "/list/1", "/list/2", "/list/3", "/list/4"]
    found, hashes = items(bench), {row["url"]: row["sha256"] for row in bench.rows(articles)}
    assert sorted(found) == ["1", "2", "3", "4", "5", "6", "7"]
    assert {(row["src"], row["ok"], row["target_code"]) for row in found.values()} == {("list", True, "t1")}
    assert all(row["hash"] == hashes[row["url"]] != "" for row in found.values())


def test_s7_an_ordinary_crawl_writes_no_items_of_a_stat_date(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0)
    bench.run_job(bench.submit(force=True).job_id)
    assert bench.rows(snapshot_items) == []


def test_s7_what_was_seeded_becomes_seen_and_what_is_gone_stays_seeded(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0)
    with bench.db.write() as conn:
        conn.execute(insert(snapshot_items), [
            {"stat_date": DAY, "target_code": "t1", "url": f"{site.url}/a/{number}", "hash": "old", "src": "seed", "ok": False,
             "seen_at": START} for number in (1, 9)])
    bench.clock.advance(60)
    bench.run_job(snapshot(bench))
    found = items(bench)
    assert (found["1"]["src"], found["1"]["ok"], found["1"]["hash"] != "old", found["1"]["seen_at"] > START) == ("list", True, True, True)
    assert (found["9"]["src"], found["9"]["ok"], found["9"]["hash"], found["9"]["seen_at"]) == ("seed", False, "old", START)


def test_s7_a_body_is_fetched_again_only_if_its_row_says_something_new(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0)
    bench.run_job(snapshot(bench))
    bench.clock.advance(86_400)
    site.show(["/a/1|another title", *rows(2, 3)], rows(4, 5, 6))
    site.routes["/a/1"] = page(article_html("/a/1", "another text, long enough to be one of its own"))
    asked, before = len(site.requests), items(bench)
    bench.run_job(snapshot(bench, NEXT_DAY))
    assert [request.path for request in site.requests[asked:] if request.path.startswith("/a/")] == ["/a/1"]
    after = items(bench, NEXT_DAY)
    assert [number for number in after if after[number]["hash"] != before[number]["hash"]] == ["1"]
    asked = len(site.requests)
    bench.run_job(snapshot(bench, NEXT_DAY))
    assert not [request for request in site.requests[asked:] if request.path.startswith("/a/")]


def test_s7_a_changed_item_that_could_not_be_read_again_is_asked_for_the_next_time(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0)
    bench.run_job(snapshot(bench))
    site.show(["/a/1|another title", *rows(2, 3)], rows(4, 5, 6))
    site.routes["/a/1"] = sequence(page("bad", 400), site.routes["/a/1"])
    bench.clock.advance(86_400)
    for number, _ in enumerate("ab"):
        asked = len(site.requests)
        bench.run_job(snapshot(bench, NEXT_DAY))
        assert [request.path for request in site.requests[asked:] if request.path.startswith("/a/")] == ["/a/1"], number


def test_s7_refetch_reads_every_body_again(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0)
    bench.run_job(bench.submit().job_id)
    bench.clock.advance(60)
    asked = len(site.requests)
    bench.run_job(snapshot(bench, refetch=True))
    assert len([request for request in site.requests[asked:] if request.path.startswith("/a/")]) == 6


def test_s7_a_parked_snapshot_lists_all_pages_whatever_attempt_walked_them(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=5)
    job_id = snapshot(bench)
    assert bench.run_job(job_id).count("parked") == 8
    assert (bench.job(job_id)["outcome"], sorted(items(bench))) == ("complete", ["1", "2", "3", "4", "5", "6"])


@pytest.mark.parametrize("is_tracked", [True, False])
def test_s7_a_job_that_is_given_another_date_begins_anew(bench: Any, site: Site, is_tracked: bool) -> None:
    bench.crawls(site.url, interval_sec=5)
    bench.change(targets, track_checkpoint=is_tracked)
    job_id = snapshot(bench)
    while not items(bench):
        bench.run_attempt()
        bench.clock.advance(5)
    bench.change(jobs, jobs.c.job_id == job_id, options={"snapshot": NEXT_DAY.isoformat(), "refetch": False})
    bench.run_job(job_id)
    assert (sorted(items(bench)), sorted(items(bench, NEXT_DAY))) == (["1", "2", "3"], ["1", "2", "3", "4", "5", "6"])
    assert bench.job(job_id)["outcome"] == "complete"


def test_j7_the_items_of_an_attempt_that_is_over_are_refused(bench: Any) -> None:
    started = bench.begin("t1")
    with bench.db.write() as conn:
        conn.execute(update(jobs).values(attempt=2))
    with pytest.raises(StaleClaim):
        bench.ledger.commit(started.claim.job_id, 1, "g1", Commit(
            target_code="t1", stat_date=DAY, listed=(("http://s1.example.org/a", "m"),)))
    assert bench.rows(snapshot_items) == []


def test_a_snapshot_of_no_date_is_refused_for_good(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0)
    bench.submit(options={"snapshot": "today"})
    with pytest.raises(Exception, match="'today' is no date"):
        bench.run_attempt()
    assert site.requests == []
