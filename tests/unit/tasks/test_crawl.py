"""The crawl as a task: what its attempts store, count and hand on to each other."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from models.articles import failed_items
from models.jobs import jobs
from models.requests import robots_copies
from models.sites import interval_history, sites, targets
from tests.support.crawl_ports import Site, paged_site, rows
from tests.support.misbehave import Answer, Request, page, redirect, sequence


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        running.show(rows(1, 2, 3), rows(4, 5, 6))
        yield running


def counts(job: dict[str, Any]) -> tuple[int, int, int]:
    """New, known and failed items by a job's progress, which its result has to repeat."""
    told = job["progress"]
    if job["result"]:
        assert {name: job["result"][name] for name in ("items_new", "items_known", "items_failed")} == {
            name: told[name] for name in ("items_new", "items_known", "items_failed")}
    return told["items_new"], told["items_known"], told["items_failed"]


def and_before(act: Any, answer: Answer) -> Answer:
    """Do something when the request has come, then answer."""

    def answered(conn: socket.socket, request: Request) -> bool:
        act()
        return answer(conn, request)

    return answered


def test_a_crawl_whose_interval_is_beyond_the_parking_limit_gets_through_and_counts_right(
    bench: Any, site: Site
) -> None:
    site.routes["/a/2"] = page("gone", 404)
    bench.crawls(site.url, interval_sec=0.6)
    job_id = bench.submit().job_id
    assert bench.run_job(job_id) == ["parked"] * 8 + ["done"]
    job = bench.job(job_id)
    assert (job["status"], job["outcome"], job["failures"]) == ("done", "complete", 0)
    assert counts(job) == (5, 0, 1)
    assert len(site.requests) == len({request.path for request in site.requests})
    assert len(bench.rows(failed_items)) == 1


def test_a_target_without_checkpoints_gets_through_by_its_places_too(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0.2)
    bench.change(targets, track_checkpoint=False)
    job_id = bench.submit().job_id
    bench.run_job(job_id)
    assert (bench.job(job_id)["outcome"], counts(bench.job(job_id))) == ("complete", (6, 0, 0))
    assert len(site.requests) == len({request.path for request in site.requests})


def test_the_counts_are_right_when_a_cooldown_lets_a_page_be_walked_again(bench: Any, site: Site) -> None:
    site.routes |= {"/a/4": page("gone", 404), "/a/6": sequence(page("slow down", 429), site.routes["/a/6"])}
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit().job_id
    assert bench.run_job(job_id) == ["cooldown", "done"]
    assert counts(bench.job(job_id)) == (5, 0, 1)


def test_the_counts_are_right_when_a_partial_crawl_begins_anew(bench: Any, site: Site) -> None:
    site.routes["/a/4"] = sequence(page("bad", 400), site.routes["/a/4"])
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit().job_id
    assert bench.run_job(job_id) == ["partial", "done"]
    assert counts(bench.job(job_id)) == (6, 0, 0)


def test_items_that_another_job_stored_are_known(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0)
    bench.run_job(bench.submit().job_id)
    job_id = bench.submit(force=True).job_id
    bench.run_job(job_id)
    assert counts(bench.job(job_id)) == (0, 6, 0)


def test_items_that_a_job_without_an_end_stored_are_known_to_the_next_one(bench: Any, site: Site) -> None:
    site.routes["/a/6"] = sequence(page("slow down", 429), site.routes["/a/6"])
    bench.crawls(site.url, interval_sec=0)
    first = bench.submit().job_id
    assert bench.run_attempt() == "cooldown"
    bench.ledger.cancel(first)
    bench.clock.advance(600)
    job_id = bench.submit().job_id
    bench.run_job(job_id)
    assert counts(bench.job(job_id)) == (1, 5, 0)


def test_own_and_other_items_are_told_apart_when_a_crawl_begins_anew(bench: Any, site: Site) -> None:
    site.show(rows(1))
    site.routes["/list/2"] = page("slow down", 429)
    bench.crawls(site.url, interval_sec=0)
    first = bench.submit().job_id
    assert bench.run_attempt() == "cooldown"
    bench.ledger.cancel(first)
    bench.clock.advance(600)
    site.show(rows(7, 8), rows(7, 9, 1))
    site.routes["/a/8"] = sequence(page("bad", 400), site.routes["/a/8"])
    job_id = bench.submit().job_id
    assert bench.run_job(job_id) == ["partial", "done"]
    assert counts(bench.job(job_id)) == (3, 1, 0)


def test_another_url_of_an_article_is_counted_once_when_its_page_is_walked_again(bench: Any, site: Site) -> None:
    site.routes |= {"/a/5": redirect("/a/4"), "/a/6": sequence(page("slow down", 429), site.routes["/a/6"])}
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit().job_id
    assert bench.run_job(job_id) == ["cooldown", "done"]
    assert counts(bench.job(job_id)) == (5, 1, 0)


@pytest.mark.parametrize("interval_sec", [0, 0.2])
def test_an_item_that_failed_before_a_cooldown_keeps_the_frontier_where_it_was(
    bench: Any, site: Site, interval_sec: float
) -> None:
    site.show(rows(1, 2), rows(3, 4), rows(5, 6))
    site.routes |= {"/a/3": page("bad", 400), "/list/3": sequence(page("slow down", 429), site.routes["/list/3"])}
    bench.crawls(site.url, interval_sec=interval_sec)
    job_id = bench.submit(max_attempts=1).job_id
    ends = [end for end in bench.run_job(job_id) if end != "parked"]
    job = bench.job(job_id)
    assert (ends, job["outcome"], bench.target()["frontier_gen"]) == (["cooldown", "partial"], "partial", 0)
    site.routes["/a/3"] = site.routes["/a/4"]
    again = bench.submit().job_id
    bench.run_job(again)
    assert (counts(bench.job(again)), bench.target()["frontier_gen"]) == ((1, 5, 0), 1)


def test_a_site_that_answers_403_to_everything_is_left_alone_after_two_requests(bench: Any, site: Site) -> None:
    site.routes["*"] = page("no", 403)
    site.routes |= {path: page("no", 403) for path in list(site.routes)}
    bench.crawls(site.url, interval_sec=0)
    bench.submit()
    assert (bench.run_attempt(), site.paths) == ("cooldown", ["/list/1"] * 2)


def test_after_a_cooldown_a_parked_crawl_reads_its_list_page_again_and_nothing_else_twice(
    bench: Any, site: Site
) -> None:
    site.routes |= {"/a/1": page("gone", 404), "/a/3": sequence(page("no", 403), page("no", 403))}
    bench.crawls(site.url, interval_sec=0.2)
    job_id = bench.submit().job_id
    ends = [end for end in bench.run_job(job_id) if end != "parked"]
    assert (ends, bench.job(job_id)["outcome"], counts(bench.job(job_id))) == (["cooldown", "done"], "complete", (4, 0, 2))
    assert [site.count(path) for path in ("/list/1", "/a/1", "/a/2", "/a/3", "/list/2")] == [2, 1, 1, 2, 1]
    assert bench.target()["lone_403_weak"]


def test_a_block_that_an_attempt_met_which_is_over_lengthens_the_pause_and_changes_nothing_else(
    bench: Any, site: Site
) -> None:
    def take_over() -> None:
        bench.change(jobs, attempt=jobs.c.attempt + 1)

    site.routes["/a/1"] = and_before(take_over, page("slow down", 429, retry_after="7200"))
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit().job_id
    bench.run_attempt()
    job = bench.job(job_id)
    assert (job["status"], job["attempt"], job["cooldown_seen"], job["cooldown_retries"]) == ("running", 2, None, 0)
    assert bench.group()["pause_until"] == bench.clock.now + timedelta(seconds=7200)
    assert bench.rows(interval_history) == []


def test_targets_of_a_host_whose_robots_txt_fails_wait_together_for_one_answer(bench: Any, site: Site) -> None:
    site.routes["/robots.txt"] = page("oops", 503, retry_after="7200")
    bench.crawls(site.url, interval_sec=0)
    bench.crawls(site.url, interval_sec=0, code="t1b")
    for code in ("t1", "t1b"):
        job_id = bench.submit(code).job_id
        assert bench.run_attempt() == "robots_unreachable"
        left = bench.job(job_id)["run_after"] - bench.clock.now
        assert timedelta(seconds=7190) < left <= timedelta(seconds=7200)
    assert len(site.requests) == 1
    (copy,) = bench.rows(robots_copies)
    bench.change(robots_copies, fetched_at=copy["fetched_at"] - timedelta(seconds=7201))
    site.routes["/robots.txt"] = page("not here", 404)
    bench.clock.advance(7201)
    assert bench.run_attempt() == "done"


def test_a_robots_txt_that_fails_in_the_middle_of_a_page_does_not_let_the_page_begin_anew(
    bench: Any, site: Site
) -> None:
    with paged_site() as other:
        other.routes["/robots.txt"] = sequence(page("oops", 503), page("not here", 404))
        bench.crawls(site.url, interval_sec=0)
        other.routes["/b"] = redirect(f"{site.url}/a/1")
        site.show(["/a/1", f"{other.url}/b", "/a/3"])
        site.routes["/a/1"] = page("gone", 404)
        job_id = bench.submit().job_id
        group_of_both(bench, other.url)
        assert bench.run_attempt() == "robots_unreachable"
        (copy,) = [row for row in bench.rows(robots_copies) if row["decision"] == "not_now"]
        bench.change(robots_copies, robots_copies.c.host == copy["host"],
                     fetched_at=copy["fetched_at"] - timedelta(seconds=1801))
        bench.clock.advance(1801)
        bench.run_job(job_id)
    assert bench.job(job_id)["status"] == "done"
    assert (site.count("/list/1"), other.count("/robots.txt")) == (1, 2)


def group_of_both(bench: Any, url: str) -> None:
    """Add a site to the group of the first one, so that its host may be asked as well."""
    with bench.db.write() as conn:
        conn.execute(insert(sites).values(
            site_code="s9", base_url=url, cms_adapter="list", group_key="g1", group_rule="test", options={},
            created_at=bench.clock.now, updated_at=bench.clock.now))
