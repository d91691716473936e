"""A walk whose interval is so long that every attempt ends after one list page or one item (rule R6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from config.errors import HostCooldown, Parked
from tasks.pipeline import Article, StartPoint
from tasks.pipeline.adapters.base import Item, ListPage
from tasks.pipeline.place import OpenPage, after_block, article_kept, article_restored
from tests.support.crawl_ports import (
    MemoryGate,
    MemoryJournal,
    Site,
    known,
    paged_site,
    rows,
    target,
    walk,
    walk_parked,
)
from tests.support.misbehave import Answer, article_html, list_html, page, redirect, sequence


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        running.show(rows(1, 2, 3), rows(4, 5))
        yield running


def test_a_walk_that_is_parked_after_each_page_and_item_reads_everything_once(site: Site) -> None:
    journal = MemoryJournal()
    result, attempts = walk_parked(target(site.url), journal)
    assert (result.outcome, attempts) == ("complete", 8)
    assert set(journal.articles) == site.urls(1, 2, 3, 4, 5)
    assert [site.count(f"/list/{page}") for page in (1, 2, 3)] == [1, 1, 1]
    assert [site.count(f"/a/{number}") for number in (1, 2, 3, 4, 5)] == [1] * 5


@pytest.mark.parametrize(
    ("answer", "outcome", "times"),
    [
        (page("gone", 404), "complete", 1), (page("%PDF", content_type="application/pdf"), "complete", 1),
        (page("bad", 400), "partial", 1), (page("oops", 500), "partial", 3), (redirect("/b/2"), "complete", 1),
    ],
    ids=["gone", "a file", "bad", "server error", "redirect"],
)
def test_an_item_that_is_no_article_is_asked_for_in_one_attempt_alone(
    site: Site, answer: Answer, outcome: str, times: int
) -> None:
    site.routes |= {"/a/2": answer, "/b/2": page(article_html("/b/2"))}
    journal = MemoryJournal()
    result, attempts = walk_parked(target(site.url), journal)
    assert (result.outcome, attempts, site.count("/a/2")) == (outcome, 8, times)
    assert set(journal.articles) >= site.urls(1, 3, 4, 5)


def test_redirects_of_robots_txt_and_of_a_list_page_end_in_the_attempt_that_began_them(site: Site) -> None:
    site.routes |= {"/robots.txt": redirect("/r"), "/r": page("User-agent: *", content_type="text/plain"),
                    "/list/1": redirect("/first"), "/first": page(list_html(rows(1, 2, 3)))}
    result, attempts = walk_parked(target(site.url), MemoryJournal())
    assert (result.outcome, attempts, site.count("/first")) == ("complete", 8, 1)


def test_a_list_page_that_stays_unread_ends_the_walk_in_one_attempt(site: Site) -> None:
    site.routes["/list/1"] = page("oops", 500)
    result, attempts = walk_parked(target(site.url), MemoryJournal())
    assert (result.outcome, attempts, site.count("/list/1")) == ("partial", 1, 3)


def test_an_outcome_that_was_lowered_before_the_parking_stays_so(site: Site) -> None:
    site.routes["/a/1"] = page("bad", 400)
    result, _ = walk_parked(target(site.url), MemoryJournal())
    assert (result.outcome, len(result.reasons)) == ("partial", 1)


def test_a_site_that_answers_403_to_everything_is_a_block_over_two_attempts(site: Site) -> None:
    for number in range(1, 6):
        site.routes[f"/a/{number}"] = page("no", 403)
    with pytest.raises(HostCooldown) as caught:
        walk_parked(target(site.url), MemoryJournal())
    assert caught.value.evidence.signs == ("answered_403", "other_403")
    assert site.paths == ["/list/1", "/a/1"]


def test_two_weak_signs_in_a_row_are_a_block_in_two_attempts_too(site: Site) -> None:
    for number in range(1, 6):
        site.routes[f"/a/{number}"] = page("no", 403)
    journal = MemoryJournal(marked={"http://elsewhere/"})
    with pytest.raises(HostCooldown) as caught:
        walk_parked(target(site.url), journal)
    assert caught.value.evidence.signs == ("other_403", "other_403")
    assert site.paths == ["/list/1", "/a/1", "/a/2"]


def test_one_body_for_three_articles_is_a_block_over_three_attempts(site: Site) -> None:
    for number in (1, 2, 3):
        site.routes[f"/a/{number}"] = page(article_html("/same"))
    journal = MemoryJournal()
    with pytest.raises(HostCooldown):
        walk_parked(target(site.url), journal)
    assert set(journal.articles) == site.urls(1)
    assert journal.place is not None
    place = after_block(journal.place)
    assert (place["handled"], place["held"], place["opened"]) == ([f"{site.url}/a/1"], None, None)


def test_one_body_for_two_articles_is_a_copy_and_both_are_stored_when_the_site_goes_on(site: Site) -> None:
    for number in (1, 2):
        site.routes[f"/a/{number}"] = page(article_html("/same"))
    journal = MemoryJournal()
    result, _ = walk_parked(target(site.url), journal)
    assert (result.outcome, set(journal.articles)) == ("complete", site.urls(1, 2, 3, 4, 5))
    assert [site.count(f"/a/{number}") for number in (1, 2, 3)] == [1, 1, 1]


def test_after_a_block_the_list_page_is_read_again_and_what_was_done_with_stays_so(site: Site) -> None:
    site.routes |= {"/a/1": page("gone", 404), "/a/2": sequence(page("no", 403), page("no", 403))}
    journal = MemoryJournal()
    with pytest.raises(HostCooldown) as caught:
        walk_parked(target(site.url), journal)
    journal.refused.add(caught.value.evidence.url)
    assert journal.place is not None
    result, _ = walk_parked(target(site.url), journal, place=after_block(journal.place))
    assert (result.outcome, journal.marked) == ("complete", {f"{site.url}/a/2"})
    assert (site.count("/list/1"), site.count("/a/1"), site.count("/a/2")) == (2, 1, 2)


def test_items_that_need_no_request_do_not_park_an_attempt(site: Site) -> None:
    site.routes["/list/1"] = page(list_html([*rows(1, 2, 3), "http://elsewhere.example/a"]))
    result, attempts = walk_parked(target(site.url), known(site, 1, 2, 3))
    assert (result.reached_frontier, attempts, site.paths) == (False, 5, ["/list/1", "/list/2", "/a/4", "/a/5", "/list/3"])


def test_a_crawl_that_finds_nothing_new_is_one_attempt(site: Site) -> None:
    result, attempts = walk_parked(target(site.url), known(site, 1, 2, 3))
    assert (result.reached_frontier, attempts, site.paths) == (True, 1, ["/list/1"])


def test_settled_items_of_an_earlier_attempt_do_not_keep_the_walk_going(site: Site) -> None:
    site.routes |= {"/a/2": page("gone", 404), "/a/3": page("gone", 404)}
    result, attempts = walk_parked(target(site.url), known(site, 1))
    assert (result.reached_frontier, attempts, site.count("/list/2")) == (True, 3, 0)


def test_what_earlier_attempts_of_the_job_stored_is_not_counted_as_known(site: Site) -> None:
    journal = known(site, 1, 2, frontier=False)
    journal.stored = site.urls(2)
    assert walk(target(site.url), journal).progress.items_known == 1


def test_rows_that_moved_to_the_page_before_survive_the_parking(site: Site) -> None:
    total = '<p class="total">共 {} 条</p>'
    before, after = page(list_html(rows(1, 2, 3), total.format(6))), page(list_html(rows(1, 3, 4), total.format(5)))
    site.routes |= {"/list/1": sequence(before, after), "/list/2": page(list_html(rows(5, 6), total.format(5))),
                    "/a/6": page(article_html("/a/6"))}
    journal = MemoryJournal()
    result, _ = walk_parked(target(site.url, total=".total"), journal)
    assert (result.outcome, set(journal.articles)) == ("complete", site.urls(1, 2, 3, 4, 5, 6))
    assert site.count("/list/1") == 2


@dataclass
class SecondStop(MemoryGate):
    """A gate that parks an attempt at its second stop point."""

    def stop_point(self, *, sends: bool = True) -> None:
        super().stop_point(sends=sends)
        if self.stop_points > 1:
            raise Parked("parked")


def test_a_place_is_what_json_can_hold_and_names_what_is_known_of_the_walk(site: Site) -> None:
    journal = MemoryJournal()
    with pytest.raises(Parked):
        walk(target(site.url), journal, SecondStop(), StartPoint())
    assert journal.place is not None
    assert set(journal.place) == {"walk", "opened", "handled", "settled", "held", "firewall", "over"}
    assert journal.place["firewall"]["answered"] == [site.host]


@pytest.mark.parametrize("total", [None, 7])
def test_an_open_page_survives_its_way_through_json(total: int | None) -> None:
    listing = ListPage(
        items=(Item("http://a.example/1", "题", datetime(2026, 11, 30, tzinfo=UTC), "7", True), Item("http://a.example/2")),
        next_url="http://a.example/n", total=total, frame=frozenset({"ul.list"}))
    opened = OpenPage(3, "http://a.example/l", listing, (Item("http://a.example/0"),), "http://a.example/k")
    assert OpenPage.restored(json.loads(json.dumps(opened.document()))) == opened
    assert opened.urls == {f"http://a.example/{number}" for number in range(3)}


def test_a_held_article_survives_its_way_through_json() -> None:
    article = Article("http://a.example/1", None, "题", datetime(2026, 11, 30, tzinfo=UTC), "text", "0", "http://a.example/l",
                      "http://a.example/1", False, "utf-8")
    assert article_restored(json.loads(json.dumps(article_kept(article)))) == article
