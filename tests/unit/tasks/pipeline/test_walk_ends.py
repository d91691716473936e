"""What is the end of a list, and what only looks like it (rule P3)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from config.errors import HostCooldown
from tasks.pipeline import StartPoint
from tests.support import misbehave
from tests.support.crawl_ports import MemoryGate, MemoryJournal, Site, known, paged_site, rows, target, walk
from tests.support.misbehave import list_html, page, sequence


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        yield running


def test_w13_a_last_page_that_repeats_ends_the_crawl_after_one_request_more(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4))
    site.routes["*"] = page(list_html(rows(3, 4)))
    result = walk(target(site.url), MemoryJournal())
    assert (result.outcome, result.pages, result.last_completed_page) == ("complete", 2, 2)
    assert [path for path in site.paths if "list" in path] == ["/list/1", "/list/2", "/list/3"]


def test_w13_a_walk_behind_a_checkpoint_also_recognises_the_repeated_page(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4))
    site.routes["*"] = page(list_html(rows(3, 4)))
    journal = MemoryJournal()
    walk(target(site.url), journal)
    before = len(site.requests)
    number, state = journal.pages[-1]
    result = walk(target(site.url), journal, start=StartPoint(number, state))
    assert (result.outcome, result.pages, result.last_completed_page) == ("complete", 0, 2)
    # the page before is looked at once more: rows may have gone meanwhile
    assert site.paths[-2:] == ["/list/3", "/list/2"]
    assert len(site.requests) == before + 2


@pytest.mark.parametrize("back_to", ["/list/2", "/list/1"])
def test_w13_a_next_that_points_to_itself_or_back_ends_the_crawl(site: Site, back_to: str) -> None:
    site.show(rows(1, 2), rows(3, 4))
    site.routes["/list/1"] = page(list_html(rows(1, 2), '<a class="next" href="/list/2">下一页</a>'))
    site.routes["/list/2"] = page(list_html(rows(3, 4), f'<a class="next" href="{back_to}">下一页</a>'))
    result = walk(target(site.url, list_url="/list/1", next="a.next"), MemoryJournal())
    assert (result.outcome, result.pages) == ("complete", 2)
    assert sum("list" in path for path in site.paths) == 2


def test_w14_an_empty_list_is_one_request_and_no_items(site: Site) -> None:
    site.show([])
    result = walk(target(site.url), MemoryJournal())
    assert (result.outcome, result.pages, result.progress.items_new) == ("complete", 0, 0)
    assert site.paths == ["/list/1"]


def test_w14_an_empty_list_that_had_items_before_is_suspicious(site: Site) -> None:
    site.show([])
    journal = known(site, 1, 2, 3)
    result = walk(target(site.url), journal)
    assert (result.outcome, site.paths) == ("partial", ["/list/1"])
    assert "suspiciously empty" in result.reasons[0]
    assert len(journal.articles) == 3


def test_w14_a_first_page_with_an_empty_body_is_no_empty_list(site: Site) -> None:
    site.routes["/list/1"] = page("")
    result = walk(target(site.url), MemoryJournal())
    assert (result.outcome, site.paths) == ("partial", ["/list/1"] * 3)


def test_an_empty_page_behind_others_is_the_end(site: Site) -> None:
    site.show(rows(1, 2), [])
    assert walk(target(site.url), MemoryJournal()).outcome == "complete"


@pytest.mark.parametrize(
    "body", ["<html><body><h1>系统维护中</h1><p>请稍后再来</p></body></html>", "", "<div class=other></div>"],
    ids=["maintenance", "empty body", "another page"],
)
def test_a_page_that_is_not_the_lists_is_never_the_end(site: Site, body: str) -> None:
    site.show(rows(1, 2))
    site.routes["/list/2"] = page(body)
    assert walk(target(site.url), MemoryJournal()).outcome == "partial"


def test_w39_a_first_page_that_is_reset_leaves_the_crawl_partial_where_resets_are_no_sign(site: Site) -> None:
    site.routes["/list/1"] = misbehave.reset
    journal, gate = MemoryJournal(), MemoryGate(interval_sec=0.05)
    result = walk(target(site.url, more={"waf_off": frozenset({"reset"})}), journal, gate)
    assert (result.outcome, journal.pages) == ("partial", [])
    assert site.paths == ["/list/1"] * 3
    pairs = zip(gate.records, gate.records[1:], strict=False)
    assert all(later.started - earlier.ended >= 0.05 for earlier, later in pairs)


@pytest.mark.parametrize(
    "answer", [misbehave.truncated("<html>"), page("oops", 500), page('{"a":1}', content_type="application/json")],
    ids=["truncated", "server error", "wrong shape"],
)
def test_w39_a_later_page_that_stays_unread_is_never_the_end(site: Site, answer: misbehave.Answer) -> None:
    site.show(rows(1, 2), rows(3, 4))
    site.routes["/list/3"] = answer
    journal = MemoryJournal()
    result = walk(target(site.url), journal)
    assert (result.outcome, result.last_completed_page) == ("partial", 2)
    assert "list page 3 could not be read" in result.reasons[0]
    assert site.count("/list/3") == 3


def test_a_page_that_answers_on_the_third_try_is_read(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4))
    site.routes["/list/2"] = sequence(page("oops", 502), misbehave.truncated("<html>"), site.routes["/list/2"])
    assert walk(target(site.url), MemoryJournal()).outcome == "complete"


def test_a_walk_goes_on_behind_its_checkpoint(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4), rows(5, 6))
    journal = MemoryJournal()
    result = walk(target(site.url), journal, start=StartPoint(after_page=1))
    assert (result.pages, result.last_completed_page) == (2, 3)
    assert set(journal.articles) == site.urls(3, 4, 5, 6)
    assert [number for number, _ in journal.pages] == [2, 3]


def test_a_walk_by_links_goes_on_from_the_link_in_its_checkpoint(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4))
    site.routes["/list/1"] = page(list_html(rows(1, 2), '<a class="next" href="?page=b">下一页</a>'))
    site.routes["/list/1?page=b"] = page(list_html(rows(3, 4)))
    spec, journal = target(site.url, list_url="/list/1", next="a.next"), MemoryJournal()
    walk(spec, journal)
    number, state = journal.pages[0]
    del journal.articles[f"{site.url}/a/4"]
    site.requests.clear()
    result = walk(spec, journal, start=StartPoint(number, state))
    assert (site.paths, result.last_completed_page) == (["/list/1?page=b", "/list/1", "/a/4"], 2)


def test_a_page_that_a_link_promised_and_that_is_not_there_is_never_the_end(site: Site) -> None:
    site.show(rows(1, 2))
    site.routes["/list/1"] = page(list_html(rows(1, 2), '<a class="next" href="/list/2">下一页</a>'))
    site.routes["/list/2"] = page("<h1>404</h1>", 404)
    result = walk(target(site.url, list_url="/list/1", next="a.next"), MemoryJournal())
    assert (result.outcome, result.pages) == ("partial", 1)
    assert "list page 2 could not be read" in result.reasons[0]


def test_an_outcome_that_was_lowered_stays_so_behind_the_checkpoint(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4), rows(5, 6))
    site.routes["/a/3"] = page("bad", 400)
    site.routes["/list/3"] = sequence(page("slow down", 429), site.routes["/list/3"])
    spec, journal = target(site.url), MemoryJournal()
    with pytest.raises(HostCooldown):
        walk(spec, journal)
    number, state = journal.pages[-1]
    result = walk(spec, journal, start=StartPoint(number, state))
    assert (result.outcome, result.pages, result.last_completed_page) == ("partial", 1, 3)
    assert result.reasons == [f"item could not be read: {site.url}/a/3: status 400"]


def test_a_list_that_ends_long_before_its_total_is_truncated_behind_a_checkpoint_too(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4), extra='<p class="total">共 1,204 条</p>')
    spec, journal = target(site.url, total=".total"), MemoryJournal()
    walk(spec, journal)
    number, state = journal.pages[0]
    result = walk(spec, journal, start=StartPoint(number, state))
    assert (result.outcome, result.pages, result.progress.pages_total) == ("truncated", 1, 602)


def test_a_walk_that_has_to_begin_anew_begins_with_a_clean_outcome(site: Site) -> None:
    site.show(rows(1, 2))
    state = {"walk": {"outcome": "partial", "reasons": ["an item"], "rows": 9, "pages": 3}}
    result = walk(target(site.url, list_url="/list/1", next="a.next"), MemoryJournal(), start=StartPoint(3, state))
    assert (result.outcome, result.reasons) == ("complete", [])


def test_a_walk_by_links_without_a_link_in_its_checkpoint_begins_anew(site: Site) -> None:
    site.show(rows(1, 2))
    result = walk(target(site.url, list_url="/list/1", next="a.next"), MemoryJournal(), start=StartPoint(after_page=3))
    assert (result.outcome, result.last_completed_page, site.paths[0]) == ("complete", 1, "/list/1")


def test_max_pages_with_more_to_come_is_truncated(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4), rows(5, 6))
    result = walk(target(site.url, max_pages=2), MemoryJournal())
    assert (result.outcome, result.pages, site.count("/list/3")) == ("truncated", 2, 0)


@pytest.mark.parametrize(("total", "outcome"), [(4, "complete"), (5, "truncated")])
def test_max_pages_that_held_all_rows_is_complete(site: Site, total: int, outcome: str) -> None:
    site.show(rows(1, 2), rows(3, 4), extra=f'<p class="total">共 {total} 条</p>')
    result = walk(target(site.url, max_pages=2, total=".total"), MemoryJournal())
    assert (result.outcome, result.progress.pages_total) == (outcome, -(-total // 2))


def test_a_list_that_ends_long_before_its_total_is_truncated(site: Site) -> None:
    site.show(rows(1, 2), rows(3, 4), extra='<p class="total">共 1,204 条</p>')
    assert walk(target(site.url, total=".total"), MemoryJournal()).outcome == "truncated"


def test_a_row_that_moved_to_the_page_before_is_not_lost(site: Site) -> None:
    total = '<p class="total">共 {} 条</p>'
    before = page(list_html(rows(1, 2, 3), total.format(6)))
    after = page(list_html(rows(1, 3, 4), total.format(5)))
    site.show(rows(1, 2, 3, 4, 5, 6))
    site.routes |= {"/list/1": sequence(before, after), "/list/2": page(list_html(rows(5, 6), total.format(5)))}
    journal = MemoryJournal()
    result = walk(target(site.url, total=".total"), journal)
    assert (result.outcome, set(journal.articles)) == ("complete", site.urls(1, 2, 3, 4, 5, 6))
    assert site.count("/list/1") == 2
