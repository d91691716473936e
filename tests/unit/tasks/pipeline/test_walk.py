"""Which pages and items a walk reads, and where it ends (rules P2, P3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from config.errors import Cancelled, PermanentJobError
from tasks.pipeline import StartPoint
from tests.support import misbehave
from tests.support.crawl_ports import MemoryGate, MemoryJournal, Site, known, paged_site, rows, target, walk
from tests.support.misbehave import article_html, page


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        yield running


def test_a_first_crawl_stores_every_item_of_every_page(site: Site) -> None:
    site.show(rows(1, 2, 3), rows(4, 5))
    journal, gate = MemoryJournal(), MemoryGate()
    result = walk(target(site.url), journal, gate)
    assert (result.outcome, result.pages, result.last_completed_page) == ("complete", 2, 2)
    assert set(journal.articles) == site.urls(1, 2, 3, 4, 5)
    article = journal.articles[f"{site.url}/a/4"]
    assert (article.title, article.source_page) == (misbehave.title_of("/a/4"), f"{site.url}/list/2")
    assert article.published_at is not None
    assert "现将有关事项通知如下" in article.text
    assert site.paths[-1] == "/list/3"
    assert result.progress.bytes == sum(record.bytes for record in gate.records if "robots" not in record.url)


def test_known_items_are_counted_and_not_fetched(site: Site) -> None:
    site.show(rows(1, 2, 3))
    journal = known(site, 2, 3, frontier=False)
    result = walk(target(site.url), journal)
    assert (result.progress.items_new, result.progress.items_known) == (1, 2)
    assert site.paths == ["/list/1", "/a/1", "/list/2"]


def test_a_crawl_ends_after_the_first_page_behind_the_frontier(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4), rows(5, 6))
    result = walk(target(site.url), known(site, 2, 3, 4, 5, 6))
    assert (result.outcome, result.pages, result.reached_frontier) == ("complete", 2, True)
    assert site.paths == ["/list/1", "/a/1", "/list/2"]


def test_force_walks_every_page_and_fetches_no_known_body(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4))
    result = walk(target(site.url), known(site, 1, 2, 3, 4), start=StartPoint(force=True))
    assert (result.pages, result.reached_frontier) == (2, False)
    assert site.paths == ["/list/1", "/list/2", "/list/3"]


def test_w03_known_items_in_an_unfinished_backlog_do_not_end_the_crawl(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4), rows(5, 6), rows(7, 8), rows(9, 10))
    journal = known(site, 2, 3, 4, frontier=False)
    assert walk(target(site.url), journal).outcome == "complete"
    assert set(journal.articles) == site.urls(*range(1, 11))


@pytest.mark.parametrize("mark", ["|x|pinned", ""], ids=["flag", "no flag"])
def test_w04_pinned_known_items_on_top_do_not_hide_new_ones(site: Site, mark: str) -> None:
    site.show([f"/a/98{mark}", f"/a/99{mark}", *rows(1, 2)], [*rows(3, 4), *rows(5, 6)], rows(7, 8))
    journal = known(site, 5, 6, 7, 8, 98, 99)
    result = walk(target(site.url, pinned="b.top"), journal)
    assert site.urls(1, 2, 3, 4) <= set(journal.articles)
    assert (result.progress.items_new, result.reached_frontier) == (4, True)


def test_w04_a_page_of_pinned_items_alone_does_not_end_the_crawl(site: Site) -> None:
    site.show(["/a/98|x|pinned", "/a/99|x|pinned"], rows(1, 2))
    journal = known(site, 98, 99)
    walk(target(site.url, pinned="b.top"), journal)
    assert site.urls(1, 2) <= set(journal.articles)


def test_w10_an_item_that_failed_is_fetched_by_the_next_crawl(site: Site) -> None:
    site.show(rows(1, 2, 3), rows(4, 5, 6))
    for number in (2, 4, 5):
        site.routes[f"/a/{number}"] = page("oops", 500)
    journal = MemoryJournal()
    first = walk(target(site.url), journal)
    assert (first.outcome, first.progress.items_failed) == ("partial", 3)
    assert set(journal.failures) == site.urls(2, 4, 5)
    assert [site.count(f"/a/{number}") for number in (1, 2, 4)] == [1, 3, 3]
    journal.frontier = set(journal.articles)
    site.routes |= {f"/a/{number}": page(article_html(f"/a/{number}")) for number in (2, 4, 5)}
    second = walk(target(site.url), journal)
    assert (second.outcome, second.progress.items_new) == ("complete", 3)
    assert set(journal.articles) == site.urls(*range(1, 7))


def test_w11_rows_that_move_to_the_next_page_are_handled_once_and_end_nothing(site: Site) -> None:
    site.show(rows(1, 2, 3, 4, 5), rows(3, 4, 5, 6, 7), rows(8, 9))
    journal = MemoryJournal()
    result = walk(target(site.url), journal)
    assert (result.outcome, result.progress.items_new, result.progress.items_known) == ("complete", 9, 0)
    assert [site.count(f"/a/{number}") for number in range(1, 10)] == [1] * 9


def test_the_stop_point_is_reached_between_items_and_what_was_stored_stays(site: Site) -> None:
    site.show(rows(1, 2, 3), rows(4))
    journal = MemoryJournal()

    def stop() -> None:
        if len(journal.articles) == 2:
            raise Cancelled()

    with pytest.raises(Cancelled):
        walk(target(site.url), journal, MemoryGate(stop=stop))
    assert (set(journal.articles), site.count("/a/3")) == (site.urls(1, 2), 0)


def test_bad_options_and_unknown_adapters_are_permanent_errors(site: Site) -> None:
    for spec in (target(site.url, item=None), target(site.url, colour="red"), target(site.url, more={"adapter": "none"})):
        with pytest.raises(PermanentJobError):
            walk(spec, MemoryJournal())
    assert site.requests == []


def test_a_list_address_that_is_none_is_a_permanent_error(site: Site) -> None:
    with pytest.raises(PermanentJobError, match="list page 1"):
        walk(replace(target(site.url), base_url="nowhere"), MemoryJournal())


def test_there_is_a_stop_point_before_each_page_and_each_item_known_ones_too(site: Site) -> None:
    site.show(rows(1, 2, 3))
    gate = MemoryGate()
    walk(target(site.url), known(site, 1, 2, 3, frontier=False), gate)
    assert gate.stop_points == 1 + 3 + 1


def test_a_host_at_which_nobody_answers_is_a_failure_and_no_rule_to_wait_for() -> None:
    gate = MemoryGate()
    with paged_site() as gone:
        url = gone.url
    result = walk(target(url), MemoryJournal(), gate)
    assert (result.outcome, result.pages, len(gate.records)) == ("partial", 0, 3)
    assert "robots.txt" in result.reasons[0]
