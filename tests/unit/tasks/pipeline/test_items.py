"""What becomes of items that are not simply read: gone, moved, forbidden, of other hosts (rules P3, P4)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from config.errors import Parked, PermanentJobError
from tasks.pipeline.adapters.base import ArticleParts, Item
from tasks.pipeline.adapters.list import ListAdapter, ListOptions
from tasks.pipeline.page import FetchedPage
from tests.support import misbehave
from tests.support.crawl_ports import MemoryJournal, Site, known, paged_site, rows, target, walk
from tests.support.misbehave import article_html, list_html, page, redirect, serve


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        yield running


def test_w40_rows_that_redirect_to_one_article_are_one_article_with_three_sources(site: Site) -> None:
    site.show(rows(1, 2, 3))
    site.routes |= {f"/a/{number}": redirect("/real/9") for number in (1, 2, 3)}
    site.routes["/real/9"] = page(article_html("/real/9"))
    journal = MemoryJournal()
    result = walk(target(site.url), journal)
    first, second, third = (journal.articles[f"{site.url}/a/{number}"] for number in (1, 2, 3))
    assert (first.alias_of, second.alias_of, third.alias_of) == (None, first.url, first.url)
    assert (bool(first.text), second.text, third.text) == (True, "", "")
    assert (result.outcome, result.progress.items_new, result.progress.items_known) == ("complete", 1, 2)


def test_w40_rows_that_redirect_to_the_home_page_are_not_stored(site: Site) -> None:
    site.show(rows(*range(1, 21)))
    site.routes |= {f"/a/{number}": redirect("/") for number in range(1, 21)}
    site.routes["/"] = page("<html><body><div class=content>欢迎访问</div></body></html>")
    journal = MemoryJournal()
    result = walk(target(site.url), journal)
    assert (result.outcome, result.progress.items_failed, journal.articles) == ("partial", 20, {})
    assert all(reason.startswith("moved home") for reason in journal.failures.values())


def test_w84_robots_that_cannot_be_had_park_the_crawl_before_the_first_page(site: Site) -> None:
    site.show(rows(1))
    site.routes["/robots.txt"] = page("", 503)
    with pytest.raises(Parked, match="robots_unreachable"):
        walk(target(site.url), MemoryJournal())
    assert site.paths == []


def test_w84_disallowed_articles_are_skipped_and_counted_but_settled(site: Site) -> None:
    site.show([*rows(1, 2), "/closed/3"])
    site.routes["/robots.txt"] = page("User-agent: *\nDisallow: /closed/", content_type="text/plain")
    journal = MemoryJournal()
    result = walk(target(site.url), journal)
    assert (result.outcome, result.progress.items_failed, site.count("/closed/3")) == ("complete", 1, 0)
    assert journal.failures == {f"{site.url}/closed/3": "robots: disallowed"}
    assert result.document()["robots"] == {site.host: "200 rules"}


def test_a_disallowed_list_is_a_permanent_error(site: Site) -> None:
    site.routes["/robots.txt"] = page("User-agent: *\nDisallow: /list/", content_type="text/plain")
    with pytest.raises(PermanentJobError, match=r"robots.txt of .* disallows"):
        walk(target(site.url), MemoryJournal())


def test_w87_items_of_other_hosts_are_stored_as_external_and_never_fetched(site: Site) -> None:
    site.show(rows(1, 2))
    site.routes["/list/1"] = page(list_html(["http://far.example.org/x|远方的通知", *rows(1, 2)]))
    site.routes["/a/2"] = redirect("http://far.example.org/y")
    journal = MemoryJournal()
    result = walk(target(site.url), journal)
    outer, moved = journal.articles["http://far.example.org/x"], journal.articles[f"{site.url}/a/2"]
    assert (outer.external, outer.title, outer.text) == (True, "远方的通知", "")
    assert (moved.external, moved.final_url) == (True, "http://far.example.org/y")
    assert (result.outcome, result.progress.items_external, result.progress.items_new) == ("complete", 2, 1)


def test_w87_an_article_that_redirects_to_a_private_address_is_not_read(site: Site) -> None:
    site.show(rows(1))
    site.routes["/a/1"] = redirect("http://127.0.0.1:9/admin")
    journal = MemoryJournal()
    assert walk(target(site.url), journal).progress.items_failed == 1
    assert journal.failures[f"{site.url}/a/1"].startswith("private")


def test_w87_allowed_hosts_of_the_target_are_fetched(site: Site) -> None:
    with serve() as other:
        other.routes["/b"] = page(article_html("/b"))
        site.routes["/list/1"] = page(list_html([f"{other.url}/b"]))
        journal = MemoryJournal()
        walk(target(site.url, more={"allowed_hosts": frozenset({other.host})}), journal)
        assert [request.path for request in other.requests] == ["/robots.txt", "/b"]
    assert not journal.articles[f"{other.url}/b"].external


def test_w89_an_endless_article_fails_after_three_tries_and_the_crawl_goes_on(site: Site) -> None:
    site.show(rows(1, 2))
    site.routes["/a/1"] = misbehave.drip
    journal = MemoryJournal()
    result = walk(target(site.url), journal, timeout_sec=0.3)
    assert (result.outcome, site.count("/a/1")) == ("partial", 3)
    assert f"{site.url}/a/2" in journal.articles


@pytest.mark.parametrize("status", [404, 410])
def test_an_article_that_is_gone_is_settled(site: Site, status: int) -> None:
    site.show(rows(1, 2))
    site.routes["/a/1"] = page("gone", status)
    journal = MemoryJournal()
    result = walk(target(site.url), journal)
    assert (result.outcome, result.progress.items_failed, site.count("/a/1")) == ("complete", 1, 1)
    assert journal.failures[f"{site.url}/a/1"].startswith("gone")


def test_a_gone_article_on_a_page_behind_the_frontier_does_not_keep_the_crawl_going(site: Site) -> None:
    site.show(rows(1, 2, 3), rows(4, 5))
    site.routes["/a/2"] = page("gone", 404)
    result = walk(target(site.url), known(site, 1, 3, 4, 5))
    assert (result.reached_frontier, result.pages, site.count("/list/2")) == (True, 1, 0)


def test_an_article_without_readable_text_is_not_known(site: Site) -> None:
    site.show(rows(1, 2))
    site.routes["/a/1"] = page("<html><body><div class=content> </div></body></html>")
    journal = MemoryJournal()
    assert walk(target(site.url), journal).outcome == "partial"
    assert journal.failures == {f"{site.url}/a/1": "no readable text"}


def test_a_file_that_is_no_page_is_settled(site: Site) -> None:
    site.show(rows(1))
    site.routes["/a/1"] = page(b"%PDF-1.7", content_type="application/pdf")
    journal = MemoryJournal()
    assert walk(target(site.url), journal).outcome == "complete"
    assert journal.failures == {f"{site.url}/a/1": "not a page but application/pdf"}


def test_a_page_that_an_adapter_cannot_cope_with_does_not_end_the_crawl(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ListAdapter.parse_article

    def stumble(self: ListAdapter, got: FetchedPage, item: Item, options: ListOptions) -> ArticleParts:
        if item.url.endswith("/a/1"):
            raise RecursionError("too deep")
        return whole(self, got, item, options)

    monkeypatch.setattr(ListAdapter, "parse_article", stumble)
    site.show(rows(1, 2))
    journal = MemoryJournal()
    assert walk(target(site.url), journal).outcome == "partial"
    assert journal.failures == {f"{site.url}/a/1": "the adapter failed: RecursionError: too deep"}
    assert set(journal.articles) == site.urls(2)


def test_w84_an_article_that_redirects_to_a_disallowed_page_is_not_read(site: Site) -> None:
    site.show(rows(1))
    site.routes |= {"/a/1": redirect("/closed/1"), "/closed/1": page(article_html("/closed/1"))}
    site.routes["/robots.txt"] = page("User-agent: *\nDisallow: /closed/", content_type="text/plain")
    journal = MemoryJournal()
    assert walk(target(site.url), journal).outcome == "complete"
    assert journal.failures[f"{site.url}/a/1"].startswith("robots: redirects to")
    assert site.count("/closed/1") == 0


def test_w87_an_article_on_a_name_that_leads_to_a_private_address_is_settled(site: Site) -> None:
    site.routes["/list/1"] = page(list_html([f"http://localhost:{site.port}/a/1"]))
    journal = MemoryJournal()
    result = walk(target(site.url, more={"group_hosts": frozenset({"local*"})}), journal)
    assert (result.outcome, site.paths) == ("complete", ["/list/1", "/list/2"])
    assert [reason.partition(":")[0] for reason in journal.failures.values()] == ["private"]
