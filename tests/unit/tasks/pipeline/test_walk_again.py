"""Asking again: unchanged lists and articles, rows that went away between two attempts, items that were given up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from config.errors import Parked
from tasks.pipeline import StartPoint
from tasks.pipeline.ports import FailedItem, Validators
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
from tests.support.misbehave import Answer, list_html, page


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        yield running


def tagged(good: str, etag: str, **headers: str) -> Answer:
    """Answer 304 to whoever has this etag, otherwise the page with it."""
    whole, same = page(good, etag=etag, **headers), page("", 304, etag=etag)
    return lambda conn, request: (same if request.headers.get("if-none-match") == etag else whole)(conn, request)


def conditions(site: Site, path: str) -> list[tuple[str | None, str | None]]:
    """What requests for a path said of what they have, in order."""
    return [(request.headers.get("if-none-match"), request.headers.get("if-modified-since"))
            for request in site.requests if request.path == path]


def test_w45_an_unchanged_first_page_ends_an_incremental_crawl(site: Site) -> None:
    site.show(rows(1, 2), rows(3))
    site.routes["/list/1"] = tagged(list_html(rows(1, 2)), '"a"')
    journal = known(site, 1, 2, 3)
    journal.lists[f"{site.url}/list/1"] = Validators('"a"', "Mon, 30 Nov 2026 00:00:00 GMT")
    result = walk(target(site.url), journal)
    assert (result.outcome, result.reached_frontier, result.pages, site.paths) == ("complete", True, 0, ["/list/1"])
    assert conditions(site, "/list/1") == [('"a"', "Mon, 30 Nov 2026 00:00:00 GMT")]
    assert journal.lists


def test_w45_a_changed_page_voids_what_was_kept_and_gives_what_is_kept_next(site: Site) -> None:
    site.show(rows(1, 2))
    site.routes["/list/1"] = tagged(list_html(rows(9, 1)), '"b"', last_modified="Tue")
    site.show([], rows(9))
    journal = known(site, 1, 2)
    journal.lists[f"{site.url}/list/1"] = Validators('"a"')
    site.routes["/list/1"] = tagged(list_html(rows(9, 1)), '"b"', last_modified="Tue")
    result = walk(target(site.url), journal)
    assert (journal.lists, f"{site.url}/a/9" in journal.articles) == ({}, True)
    assert result.validators == {"url": f"{site.url}/list/1", "etag": '"b"', "last_modified": "Tue"}


def test_w45_nothing_is_kept_of_an_answer_that_is_no_list(site: Site) -> None:
    site.routes["/list/1"] = page('{"oops": 1}', charset=None, content_type="application/json", etag='"x"')
    journal = known(site, 1)
    journal.lists[f"{site.url}/list/1"] = Validators('"a"')
    result = walk(target(site.url), journal)
    assert (result.outcome, result.validators, journal.lists) == ("partial", None, {})
    assert conditions(site, "/list/1")[1:] == [('"a"', None)] * 2


@pytest.mark.parametrize("start", [StartPoint(force=True), StartPoint(refetch=True)])
def test_a_walk_that_needs_the_page_asks_without_condition(site: Site, start: StartPoint) -> None:
    site.show(rows(1, 2))
    site.routes["/list/1"] = tagged(list_html(rows(1, 2)), '"a"')
    journal = known(site, 1, 2)
    journal.lists[f"{site.url}/list/1"] = Validators('"a"')
    walk(target(site.url), journal, start=start)
    assert conditions(site, "/list/1") == [(None, None)]


def test_no_condition_is_carried_over_a_redirect_and_nothing_kept_of_what_is_behind_one(site: Site) -> None:
    site.show(rows(1, 2))
    site.routes["/moved"] = page(list_html(rows(1, 2)), etag='"m"')
    site.routes["/list/1"] = page("", 302, location="/moved")
    journal = known(site, 1, 2)
    journal.lists[f"{site.url}/list/1"] = Validators('"a"')
    result = walk(target(site.url), journal)
    assert (conditions(site, "/list/1"), conditions(site, "/moved")) == ([('"a"', None)], [(None, None)])
    assert result.validators is None


def test_a_known_article_is_asked_for_with_what_its_page_gave_and_an_unchanged_one_is_noted(site: Site) -> None:
    site.show(rows(1, 2))
    for path in ("/a/1", "/a/2"):
        site.routes[path] = tagged(f"<div class='content'>现将有关事项通知如下 {path} " + "字" * 200 + "</div>", '"t"')
    journal = MemoryJournal()
    walk(target(site.url), journal)
    assert journal.articles[f"{site.url}/a/1"].validators == Validators('"t"')
    site.routes["/a/2"] = tagged("<div class='content'>" + "新" * 200 + "</div>", '"u"')
    journal.age_days = dict.fromkeys(journal.articles, 99.0)
    walk(target(site.url), journal, start=StartPoint(refetch=True))
    assert (journal.rechecked, set(journal.reread)) == ([f"{site.url}/a/1"], site.urls(2))
    assert conditions(site, "/a/1") == [(None, None), ('"t"', None)]


def test_a_row_that_moved_up_between_two_attempts_is_not_passed(site: Site) -> None:
    """Rows 1 and 2 are taken down while nobody looks: row 4 moves to page 1, and no total says so."""
    site.show(rows(1, 2, 3), rows(4, 5, 6), rows(7))
    journal = walked_one_page(site)
    site.show(rows(3, 4, 5), rows(6, 7))
    del site.routes["/list/3"]
    result = walk(target(site.url), journal, start=StartPoint(*journal.pages[-1]))
    assert (result.outcome, set(journal.articles)) == ("complete", site.urls(1, 2, 3, 4, 5, 6, 7))
    assert site.count("/list/1") == 2


def test_a_row_that_moved_up_from_a_page_that_is_no_more_is_not_passed(site: Site) -> None:
    site.show(rows(1, 2, 3), rows(4))
    journal = walked_one_page(site)
    site.show(rows(2, 3, 4))
    del site.routes["/list/2"]
    result = walk(target(site.url), journal, start=StartPoint(*journal.pages[-1]))
    assert (result.outcome, set(journal.articles)) == ("complete", site.urls(1, 2, 3, 4))


def test_more_rows_gone_between_two_attempts_than_can_be_followed_make_a_crawl_partial(site: Site) -> None:
    site.show(rows(1, 2, 3), rows(4, 5, 6), rows(7, 8, 9))
    journal = walked_one_page(site)
    site.show(rows(5, 6, 7), rows(8, 9))
    del site.routes["/list/3"]
    result = walk(target(site.url), journal, start=StartPoint(*journal.pages[-1]))
    assert (result.outcome, result.reasons) == (
        "partial", ["some rows went away while the list was walked: some may have been passed"])


def test_w09_going_on_costs_one_request_and_new_rows_above_change_nothing(site: Site) -> None:
    site.show(rows(1, 2, 3), rows(4, 5, 6), rows(7))
    journal = walked_one_page(site)
    before = len(site.paths)
    site.show(rows(9, 1, 2), rows(3, 4, 5), rows(6, 7))
    result = walk(target(site.url), journal, start=StartPoint(*journal.pages[-1]))
    assert (result.outcome, set(journal.articles)) == ("complete", site.urls(1, 2, 3, 4, 5, 6, 7))
    assert [path for path in site.paths[before:] if "list" in path] == ["/list/2", "/list/1", "/list/3", "/list/4"]


def test_an_attempt_that_was_parked_for_its_interval_alone_does_not_look_back(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4))
    walk_parked(target(site.url), MemoryJournal())
    assert [site.count(f"/list/{number}") for number in (1, 2, 3)] == [1, 1, 1]


def walked_one_page(site: Site) -> MemoryJournal:
    """A journal whose walk was broken off behind its first page."""
    journal = MemoryJournal()

    class Stop(MemoryGate):
        def stop_point(self, *, sends: bool = True) -> None:
            if journal.pages:
                raise Parked("soft_stop")

    with pytest.raises(Parked):
        walk(target(site.url), journal, Stop())
    assert [number for number, _state in journal.pages] == [1]
    return journal


def test_p3_what_is_given_up_is_left_alone_and_blocks_nothing(site: Site) -> None:
    site.show(rows(1, 2, 3))
    site.routes["/a/2"] = page("bad", 400)
    journal = known(site, 1, 3)
    journal.given_up = site.urls(2)
    result = walk(target(site.url), journal)
    assert (result.outcome, result.reached_frontier, site.count("/a/2")) == ("complete", True, 0)


def test_p3_what_is_given_up_is_tried_again_behind_the_list_and_still_blocks_nothing(site: Site) -> None:
    site.show(rows(1, 3), rows(7))
    site.routes |= {"/a/2": page("bad", 400), "/a/5": page("<div class='content'>" + "读" * 200 + "</div>")}
    journal = known(site, 1, 3)
    journal.given_up = site.urls(2, 5)
    journal.due = [FailedItem(f"{site.url}/a/{n}", f"title {n}", f"{site.url}/list/9") for n in (2, 5)]
    result, attempts = walk_parked(target(site.url), journal)
    assert (result.outcome, site.paths, attempts) == ("complete", ["/list/1", "/a/2", "/a/5"], 3)
    stored = journal.articles[f"{site.url}/a/5"]
    assert (stored.title, stored.source_page) == ("title 5", f"{site.url}/list/9")


def test_p3_the_failure_that_makes_it_given_up_makes_no_crawl_partial(site: Site) -> None:
    site.show(rows(1, 2))
    site.routes["/a/2"] = page("bad", 400)
    journal = MemoryJournal()
    real = journal.failed
    journal.failed = lambda *told: real(*told) or bool(journal.given_up.add(told[0])) or True  # type: ignore[method-assign]
    assert walk(target(site.url), journal).outcome == "complete"


def test_a_304_that_nobody_asked_for_is_no_list_and_no_article(site: Site) -> None:
    site.show(rows(1))
    site.routes["/a/1"] = page("", 304)
    journal = MemoryJournal()
    assert (walk(target(site.url), journal).outcome, journal.articles) == ("partial", {})
    site.routes["/list/1"] = page("", 304)
    assert walk(target(site.url), known(site, 1)).outcome == "partial"




def test_w09_a_page_that_was_broken_off_is_read_again_and_the_one_before_it_is_not(site: Site) -> None:
    site.show(rows(1, 2, 3), rows(4, 5, 6))
    journal = walked_one_page(site)
    walk(target(site.url), journal, start=StartPoint(*journal.pages[-1]))
    del journal.articles[f"{site.url}/a/6"]
    journal.stored = site.urls(4, 5)
    before = len(site.paths)
    walk(target(site.url), journal, start=StartPoint(*journal.pages[0]))
    assert site.paths[before:] == ["/list/2", "/a/6", "/list/3"]
