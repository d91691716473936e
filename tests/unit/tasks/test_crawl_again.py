"""Crawl after crawl of one target, with everything in the database: what is asked again, given up, marked, kept."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from config import clock
from models import queries
from models.articles import article_aliases, articles, failed_items, validators
from models.queries import crawling
from models.sites import targets
from tests.support.crawl_ports import Site, paged_site, rows
from tests.support.misbehave import Answer, Request, article_html, list_html, page, redirect, reset, sequence


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        running.show(rows(1, 2, 3), rows(4, 5, 6))
        yield running


def crawl(bench: Any, **options: Any) -> dict[str, Any]:
    """Run one crawl to its end; returns its row."""
    job_id = bench.submit(**{"max_attempts": 1, **options}).job_id
    bench.run_job(job_id)
    return bench.job(job_id)


def stored(bench: Any) -> dict[str, dict[str, Any]]:
    """The rows of articles by the last part of their URL."""
    return {row["url"].rpartition("/")[2]: row for row in bench.rows(articles)}


def a_day_later(bench: Any, days: float = 1.0) -> None:
    """Make everything that the database has noted so many days older."""
    for table, columns in ((failed_items, ("last_at", "first_at")), (articles, ("fetched_at", "checked_at")),
                           (validators, ("fetched_at",))):
        for row in bench.rows(table):
            bench.change(table, table.c.url == row["url"],
                         **{name: row[name] - timedelta(days=days) for name in columns if row[name] is not None})


def conditions(site: Site, path: str = "/list/1") -> list[str | None]:
    """The etags that requests for a path named."""
    return [request.headers.get("if-none-match") for request in site.requests if request.path == path]


def counting(html: str) -> Answer:
    """Answer always with a body, each time with another etag, as if it had changed."""
    numbers = itertools.count(1)

    def answer(conn: socket.socket, request: Request) -> bool:
        return page(html, etag=f'"{next(numbers)}"')(conn, request)

    return answer


def tagged(html: str, etag: str = '"same"') -> Answer:
    """Answer 304 to whoever has this etag, otherwise the page."""

    def answer(conn: socket.socket, request: Request) -> bool:
        has = request.headers.get("if-none-match") == etag
        return page("" if has else html, 304 if has else 200, etag=etag)(conn, request)

    return answer


def test_w45_each_request_carries_what_the_answer_before_gave(bench: Any, site: Site) -> None:
    site.routes["/list/1"] = counting(list_html(rows(1, 2, 3)))
    bench.crawls(site.url, interval_sec=0)
    for _ in range(4):
        assert crawl(bench)["outcome"] == "complete"
    assert conditions(site) == [None, '"1"', '"2"', '"3"']


def test_w45_after_an_answer_that_is_no_list_nothing_is_sent(bench: Any, site: Site) -> None:
    good = tagged(list_html(rows(1, 2, 3)))
    site.routes["/list/1"] = sequence(good, *[page("{}", charset=None, content_type="application/json")] * 3, good)
    bench.crawls(site.url, interval_sec=0)
    assert [crawl(bench)["outcome"] for _ in range(3)] == ["complete", "partial", "complete"]
    assert conditions(site) == [None, '"same"', '"same"', '"same"', None]
    assert len(bench.rows(validators)) == 1


def test_an_unchanged_list_is_a_complete_crawl_of_one_request_and_is_read_whole_once_a_week(bench: Any, site: Site) -> None:
    site.routes["/list/1"] = tagged(list_html(rows(1, 2, 3)))
    bench.crawls(site.url, interval_sec=0)
    crawl(bench)
    before, frontier = len(site.requests), bench.target()["frontier_gen"]
    job = crawl(bench)
    assert (job["outcome"], job["result"]["reached_frontier"], len(site.requests) - before) == ("complete", True, 1)
    assert (bench.target()["frontier_gen"], bench.target()["last_outcome"]) == (frontier + 1, "complete")
    a_day_later(bench, 7.01)
    crawl(bench)
    assert conditions(site) == [None, '"same"', None]
    crawl(bench, force=True)
    assert conditions(site)[-1] is None


def test_a_crawl_that_did_not_end_complete_keeps_nothing_that_could_hide_what_it_left(bench: Any, site: Site) -> None:
    site.routes["/list/1"] = tagged(list_html(rows(1, 2, 3)))
    bench.crawls(site.url, interval_sec=0)
    crawl(bench)
    site.show(rows(8, 9), rows(1, 2, 3))
    site.routes["/list/1"] = tagged(list_html(rows(8, 9, 1)), '"new"')
    site.routes["/a/9"] = sequence(page("bad", 400), site.routes["/a/9"])
    assert crawl(bench)["outcome"] == "partial"
    assert bench.rows(validators) == []
    assert (crawl(bench)["outcome"], set(stored(bench)) >= {"8", "9"}) == ("complete", True)


def test_p3_an_item_that_failed_in_three_crawls_on_two_days_is_given_up_and_tried_weekly(bench: Any, site: Site) -> None:
    good, site.routes["/a/5"] = site.routes["/a/5"], page("bad", 400)
    bench.crawls(site.url, interval_sec=0)
    assert [crawl(bench)["outcome"] for _ in range(3)] == ["partial"] * 3
    (row,) = bench.rows(failed_items)
    assert (row["crawls"], row["days"], row["given_up_at"]) == (3, 1, None)
    a_day_later(bench)
    job = crawl(bench)
    assert (job["outcome"], job["result"]["given_up"], bench.target()["frontier_gen"]) == ("complete", 1, 1)
    (row,) = bench.rows(failed_items)
    assert (row["crawls"], row["days"], row["given_up_at"] is not None) == (4, 2, True)
    tries = site.count("/a/5")
    assert (crawl(bench, force=True)["outcome"], site.count("/a/5")) == ("complete", tries)
    a_day_later(bench, 7.01)
    assert (crawl(bench)["outcome"], site.count("/a/5")) == ("complete", tries + 1)
    assert (crawl(bench)["outcome"], site.count("/a/5")) == ("complete", tries + 1)
    a_day_later(bench, 7.01)
    site.routes["/a/5"] = good
    assert crawl(bench)["result"]["given_up"] == 0
    assert (bench.rows(failed_items), "5" in stored(bench)) == ([], True)


def test_p3_the_attempts_of_one_crawl_count_once(bench: Any, site: Site) -> None:
    site.routes["/a/5"] = page("bad", 400)
    bench.crawls(site.url, interval_sec=0)
    crawl(bench, max_attempts=3)
    (row,) = bench.rows(failed_items)
    assert (row["crawls"], row["tries"]) == (1, 3)


def test_p3_with_a_long_interval_what_is_given_up_is_tried_again_without_walking_the_list_again(
    bench: Any, site: Site
) -> None:
    for number in (4, 5):
        site.routes[f"/a/{number}"] = page("bad", 400)
    bench.crawls(site.url, interval_sec=0.2)
    for days in (0, 0, 1):
        a_day_later(bench, days)
        crawl(bench)
    a_day_later(bench, 7.01)
    before = len(site.paths)
    crawl(bench)
    assert site.paths[before:] == ["/list/1", "/a/4", "/a/5"]


def test_w10_what_failed_is_tried_again_although_it_is_older_than_what_was_stored(bench: Any, site: Site) -> None:
    good = {f"/a/{number}": site.routes[f"/a/{number}"] for number in (4, 5, 6)}
    site.routes |= dict.fromkeys(good, page("broken", 500))
    bench.crawls(site.url, interval_sec=0)
    assert crawl(bench)["outcome"] == "partial"
    site.routes |= good
    job = crawl(bench)
    assert (job["outcome"], job["result"]["items_new"], len(stored(bench))) == ("complete", 3, 6)
    assert bench.rows(failed_items) == []


def test_p2_marked_items_are_known_without_a_body_until_they_are_refetched(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0, mark_known=True)
    job = crawl(bench)
    assert (job["outcome"], job["result"]["items_external"]) == ("complete", 6)
    assert all(row["marked"] and not row["external"] and not row["text"] for row in stored(bench).values())
    assert crawl(bench, force=True)["result"]["items_known"] == 6
    job = crawl(bench, force=True, options={"refetch": True})
    assert (job["result"]["items_known"], job["result"]["items_new"]) == (6, 0)
    assert not any(row["marked"] or not row["sha256"] for row in stored(bench).values())
    assert {row["generation"] for row in stored(bench).values()} == {1}


def test_j11_refetch_reads_known_bodies_once_a_job_and_an_unchanged_one_is_only_noted(bench: Any, site: Site) -> None:
    site.routes["/a/2"] = tagged(article_html("/a/2"))
    bench.crawls(site.url, interval_sec=0)
    crawl(bench)
    first = stored(bench)
    site.routes["/a/1"] = page(article_html("/a/1", "改" * 300))
    site.routes["/a/3"] = sequence(page("slow down", 429), site.routes["/a/3"])
    bench.run_job(bench.submit(force=True, options={"refetch": True}).job_id)
    now = stored(bench)
    assert now["1"]["sha256"] != first["1"]["sha256"]
    assert now["1"]["facts"] == {"former_sha256": [first["1"]["sha256"]]}
    assert {name: value for name, value in now["2"].items() if name != "checked_at"} == {
        name: value for name, value in first["2"].items() if name != "checked_at"}
    assert (now["2"]["checked_at"] is not None, conditions(site, "/a/2")) == (True, [None, '"same"'])
    assert [site.count(f"/a/{number}") for number in (1, 2, 3, 4)] == [2, 2, 3, 2]


def test_p2_what_was_read_long_ago_is_asked_for_again_and_an_unchanged_one_rests_as_long(bench: Any, site: Site) -> None:
    site.routes["/a/2"] = tagged(article_html("/a/2"))
    bench.crawls(site.url, interval_sec=0, refetch_after_days=30)
    # the database's own clock says how old an article is
    bench.clock.now = clock.now()
    for days, counts in ((0, 1), (29, 1), (2, 2), (29, 2), (2, 3)):
        a_day_later(bench, days)
        crawl(bench)
        assert site.count("/a/2") == counts


def test_p2_every_hash_that_a_text_had_is_kept(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0)
    crawl(bench)
    seen = [stored(bench)["1"]["sha256"]]
    for sign in "甲乙":
        site.routes["/a/1"] = page(article_html("/a/1", sign * 300))
        crawl(bench, force=True, options={"refetch": True})
        seen.append(stored(bench)["1"]["sha256"])
    crawl(bench, force=True, options={"refetch": True})
    row = stored(bench)["1"]
    assert (row["facts"]["former_sha256"], row["sha256"], row["generation"]) == (seen[:-1], seen[-1], 1)


def test_given_up_items_are_listed_and_rest_until_they_are_due(bench: Any, site: Site) -> None:
    site.routes["/a/5"] = page("bad", 400)
    bench.crawls(site.url, interval_sec=0)
    for days in (0, 0, 1):
        a_day_later(bench, days)
        crawl(bench)
    with bench.db.read() as conn:
        (row,) = crawling.due_again(conn, "t1", 0.0, 9)
        assert crawling.due_again(conn, "t1", 60.0, 9) == crawling.due_again(conn, "t1b", 0.0, 9) == []
        urls = [f"{site.url}/a/{number}" for number in range(1, 700)]
        assert crawling.resting(conn, "t1", urls, 60.0) == {row.url}
        assert crawling.resting(conn, "t1", urls, 0.0) == crawling.resting(conn, "t1b", urls, 60.0) == set()
        assert [crawling.given_up_count(conn, code) for code in ("t1", "t1b")] == [1, 0]
        assert [row["given_up"] for row in queries.targets(conn)] == [1, 0]
    assert (row.url, row.source_page) == (f"{site.url}/a/5", f"{site.url}/list/2")


def test_w40_a_row_to_which_a_row_before_it_leads_is_the_same_article(bench: Any, site: Site) -> None:
    site.routes["/a/1"] = redirect("/a/3")
    bench.crawls(site.url, interval_sec=0)
    crawl(bench)
    assert {row["url"]: row["article_url"] for row in bench.rows(article_aliases)} == {f"{site.url}/a/3": f"{site.url}/a/1"}


def test_w40_an_address_that_an_earlier_crawl_was_redirected_to_is_another_one_of_its_article(bench: Any, site: Site) -> None:
    """It is counted as known, whichever of the two came first and however it is reached."""
    site.show(rows(1, 2))
    del site.routes["/list/2"]
    site.routes |= {"/a/2": redirect("/real/9"), "/a/3": redirect("/real/9"), "/real/9": page(article_html("/real/9"))}
    bench.crawls(site.url, interval_sec=0)
    crawl(bench)
    site.show(["/real/9", *rows(3, 4, 1, 2)])
    progress = crawl(bench)["progress"]
    assert (progress["items_new"], progress["items_known"]) == (1, 4)
    assert sorted(stored(bench)) == ["1", "2", "4"]
    assert {row["url"]: row["article_url"] for row in bench.rows(article_aliases)} == dict.fromkeys(
        (f"{site.url}/real/9", f"{site.url}/a/3"), f"{site.url}/a/2")


def outage(site: Site, at: str, resets: int) -> None:
    """From the first request for `at` on hang up on everybody, until so many requests have met that."""
    state = {"begun": False, "left": resets}

    def unless_down(path: str, answer: Answer) -> Answer:
        def answered(conn: socket.socket, request: Request) -> bool:
            state["begun"] = state["begun"] or path == at
            if state["begun"] and state["left"]:
                state["left"] -= 1
                return reset(conn, request)
            return answer(conn, request)

        return answered

    site.routes |= {path: unless_down(path, answer) for path, answer in site.routes.items()}


@pytest.mark.parametrize("resets", [1, 2, 5])
def test_w12_a_crawl_waits_while_the_site_is_down_and_goes_on_from_the_same_page(
    bench: Any, site: Site, resets: int
) -> None:
    site.show(rows(1, 2, 3), rows(4, 5, 6), rows(7, 8, 9))
    outage(site, "/a/5", resets)
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit().job_id
    ends = bench.run_job(job_id)
    # two resets in a row are a block; behind a pause that was too short one more is enough
    assert ends == {1: ["done"], 2: ["cooldown", "done"], 5: [*["cooldown"] * 4, "done"]}[resets]
    job = bench.job(job_id)
    assert (job["outcome"], len(stored(bench))) == ("complete", 9)
    assert [site.count(f"/a/{number}") for number in (1, 2, 3, 4)] == [1, 1, 1, 1]


def test_w06_a_crawl_that_was_stopped_behind_its_list_page_fetches_the_list_again_and_no_stored_article(
    bench: Any, site: Site
) -> None:
    site.routes["/a/3"] = sequence(page("slow down", 429), site.routes["/a/3"])
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit().job_id
    assert bench.run_job(job_id) == ["cooldown", "done"]
    assert [site.count(path) for path in ("/list/1", "/a/1", "/a/2", "/a/3", "/list/2")] == [2, 1, 1, 2, 1]


def test_w03_items_that_were_stored_by_hand_do_not_end_the_first_crawl(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0, max_pages=1)
    crawl(bench)
    bench.change(targets, frontier_gen=0)
    bench.crawls(site.url, interval_sec=0)
    assert (crawl(bench)["outcome"], set(stored(bench))) == ("complete", set("123456"))


def test_a_changed_target_is_asked_without_condition(bench: Any, site: Site) -> None:
    """Other selectors may find something in a page that has not changed."""
    site.routes["/list/1"] = tagged(list_html(rows(1, 2, 3)))
    bench.crawls(site.url, interval_sec=0)
    crawl(bench)
    bench.change(targets, targets.c.target_code == "t1", updated_at=bench.rows(validators)[0]["fetched_at"] + timedelta(seconds=1))
    crawl(bench)
    assert conditions(site) == [None, None]


def test_nothing_is_kept_of_a_crawl_whose_target_was_changed_meanwhile(bench: Any, site: Site) -> None:
    def change(conn: socket.socket, request: Request) -> bool:
        bench.change(targets, targets.c.target_code == "t1", options_hash="other")
        return page(list_html([]))(conn, request)

    site.routes |= {"/list/1": tagged(list_html(rows(1, 2, 3))), "/list/2": change}
    bench.crawls(site.url, interval_sec=0)
    assert (crawl(bench)["outcome"], bench.rows(validators)) == ("complete", [])
