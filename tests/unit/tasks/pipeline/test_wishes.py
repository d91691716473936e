"""What a first crawl leaves out and when a known article is read again (rule P2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tasks.pipeline import StartPoint
from tests.support.crawl_ports import MemoryJournal, Site, known, paged_site, rows, target, walk, walk_parked
from tests.support.misbehave import article_html, list_html, page


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        yield running


def dated(*rows: tuple[int, str], pinned: int | None = None) -> str:
    """A list page of articles with dates."""
    first, *rest = list_html([f"/a/{n}|x|pinned" if n == pinned else f"/a/{n}" for n, _ in rows]).split("2026-11-30")
    return first + "".join(date + part for (_, date), part in zip(rows, rest, strict=True))


def test_since_takes_nothing_older_and_ends_at_the_first_page_of_older_items(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4, 99), rows(5, 6), rows(7))
    site.routes |= {"/list/2": page(dated((3, "2026-11-01"), (4, "2026-10-31"))), "/list/3": page(dated((5, "2026-10-30"), (6, "2020-01-01")))}
    journal = MemoryJournal()
    result = walk(target(site.url, since="2026-11-01"), journal)
    assert (result.outcome, set(journal.articles)) == ("complete", site.urls(1, 2, 3))
    assert (site.count("/list/3"), site.count("/list/4"), result.progress.items_failed) == (1, 0, 0)


def test_since_is_not_ended_by_an_old_item_that_is_pinned_or_by_one_without_a_date(site: Site) -> None:
    site.show(rows(98, 1), rows(2))
    site.routes["/list/1"] = page(dated((98, "2019-01-01"), (1, "2026-11-30"), pinned=98))
    site.routes["/list/2"] = page(dated((2, "someday"), (3, "2019-01-01")))
    journal = MemoryJournal()
    walk(target(site.url, since="2026-11-01", pinned="b.top"), journal)
    assert set(journal.articles) == site.urls(1, 2)
    assert site.count("/list/3") == 1


def test_old_items_do_not_keep_an_incremental_crawl_going(site: Site) -> None:
    site.show(rows(1, 2), rows(3))
    site.routes["/list/1"] = page(dated((1, "2026-11-30"), (2, "2019-01-01")))
    result = walk(target(site.url, since="2026-11-01"), known(site, 1))
    assert (result.reached_frontier, site.count("/list/2")) == (True, 0)


def test_max_items_takes_the_newest_of_a_first_crawl_and_says_so(site: Site) -> None:
    site.show(rows(1, 2, 3), rows(4, 5, 6), rows(7))
    journal = MemoryJournal()
    first = walk(target(site.url, max_items=4), journal)
    assert (first.outcome, set(journal.articles)) == ("complete", site.urls(1, 2, 3, 4))
    assert first.reasons == ["max_items reached: the older items are not taken"]
    journal.frontier = set(journal.articles)
    site.show(rows(20, 21, 22), rows(23, 24, 1), rows(2, 3, 4), rows(5))
    second = walk(target(site.url, max_items=4), journal)
    assert (second.progress.items_new, second.reached_frontier) == (5, True)


@pytest.mark.parametrize("most", [5, 6])
def test_max_items_that_are_not_exceeded_are_not_mentioned(site: Site, most: int) -> None:
    site.show(rows(1, 2, 3), rows(4, 5))
    assert walk(target(site.url, max_items=most), MemoryJournal()).reasons == []


def test_an_item_that_failed_keeps_its_place_among_the_newest(site: Site) -> None:
    site.show(rows(1, 2, 3), rows(4))
    good, site.routes["/a/1"] = site.routes["/a/1"], page("bad", 400)
    journal = MemoryJournal()
    first = walk(target(site.url, max_items=2), journal)
    assert (first.outcome, set(journal.articles)) == ("partial", site.urls(2))
    site.routes["/a/1"] = good
    assert walk(target(site.url, max_items=2), journal).outcome == "complete"
    assert set(journal.articles) == site.urls(1, 2)


def test_max_items_counts_over_attempts(site: Site) -> None:
    site.show(rows(1, 2, 3), rows(4, 5, 6))
    journal = MemoryJournal()
    walk_parked(target(site.url, max_items=4), journal)
    assert set(journal.articles) == site.urls(1, 2, 3, 4)


def test_mark_known_fetches_no_article_of_a_first_crawl_and_every_new_one_later(site: Site) -> None:
    site.show(rows(1, 2), rows(3))
    journal = MemoryJournal()
    first = walk(target(site.url, mark_known=True), journal)
    assert (first.outcome, set(journal.articles), first.progress.items_external) == ("complete", site.urls(1, 2, 3), 3)
    assert all(article.marked and not article.text and not article.external for article in journal.articles.values())
    assert site.paths == ["/list/1", "/list/2", "/list/3"]
    journal.frontier = set(journal.articles)
    site.show(rows(9, 1), rows(2, 3))
    second = walk(target(site.url, mark_known=True), journal)
    assert (second.progress.items_new, journal.articles[f"{site.url}/a/9"].marked) == (1, False)


def test_mark_known_needs_no_attempt_for_each_item(site: Site) -> None:
    site.show(rows(1, 2, 3))
    _result, attempts = walk_parked(target(site.url, mark_known=True), MemoryJournal())
    assert attempts == 2


@pytest.mark.parametrize(("more", "start"), [({"refetch_after_days": 30}, StartPoint()), ({}, StartPoint(refetch=True))])
def test_what_was_read_long_ago_is_read_again_and_counts_as_known(site: Site, more: dict[str, Any], start: StartPoint) -> None:
    site.show(rows(1, 2, 3))
    journal = known(site, 1, 2, frontier=False)
    journal.age_days = {f"{site.url}/a/1": 31.0, f"{site.url}/a/2": 29.0} if more else {f"{site.url}/a/1": 0.0}
    result = walk(target(site.url, **more), journal, start=start)
    assert (set(journal.reread), result.progress.items_known, result.progress.items_new) == (site.urls(1), 2, 1)
    assert "现将有关事项通知如下" in journal.reread[f"{site.url}/a/1"].text


def test_by_default_nothing_is_read_again(site: Site) -> None:
    site.show(rows(1))
    journal = known(site, 1, frontier=False)
    journal.age_days = {f"{site.url}/a/1": 9_999.0}
    walk(target(site.url), journal)
    assert (journal.reread, site.count("/a/1")) == ({}, 0)


def test_an_article_that_cannot_be_read_again_stays_known_and_is_mentioned(site: Site) -> None:
    site.show(rows(1, 2))
    site.routes["/a/1"] = page("gone", 404)
    site.routes["/a/2"] = page(article_html("/a/2"))
    journal = known(site, 1, 2, frontier=False)
    journal.age_days = dict.fromkeys(site.urls(1, 2), 99.0)
    result = walk(target(site.url, refetch_after_days=30), journal)
    assert (result.outcome, set(journal.reread), result.progress.items_failed) == ("complete", site.urls(2), 0)
    assert result.reasons == [f"item could not be read again: {site.url}/a/1: gone: status 404"]
