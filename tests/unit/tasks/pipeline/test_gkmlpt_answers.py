"""What the gkmlpt API answers besides rows: blocks, resets, halves, other schemas; never "no more rows" (W39, W40, W52)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from config.errors import HostCooldown
from tasks.pipeline import StartPoint
from tasks.pipeline.adapters.base import CutOff, WrongShape
from tasks.pipeline.adapters.gkmlpt import ADAPTER, GkmlptOptions
from tasks.pipeline.page import FetchedPage
from tests.support import misbehave
from tests.support.crawl_ports import MemoryGate, MemoryJournal, Site, gkmlpt_target, walk
from tests.support.misbehave import Answer, page, redirect, sequence

API = "/gkmlpt/api/all/5001?page={}&sid=1"
INDEX = "<script>window._CONFIG = {SID: '1', TREE: [{\"id\": 5001, \"name\": \"通知\"}], SERVICE_AREA_ID: 0}</script>"
BLOCK_PAGE = "<html><body>访问过于频繁，请稍后再试</body></html>"


class Host(Site):
    """A server with a column of 5 rows a page; articles answer for themselves."""

    base_url = Site.url

    def publish(self, *numbers: int) -> None:
        """Serve a column of these documents, newest first."""
        self.routes["/gkmlpt/index"] = page(INDEX)
        for number in range(1, -(-len(numbers) // 5) + 1):
            self.routes[API.format(number)] = rows(self.url, len(numbers), (number - 1) * 5, numbers)
        for one in numbers:
            self.routes[f"/p/post_{one}.html"] = page(f'<div class="article-content">第{one}号文件的正文</div>')


def document(base: str, total: int, offset: int, numbers: tuple[int, ...]) -> dict[str, Any]:
    """The JSON of a page of rows."""
    shown = [{"id": one, "title": f"第{one}号", "type": "normal", "url": f"{base}/p/post_{one}.html", "create_time": 1_783_353_600}
             for one in numbers[offset : offset + 5]]
    return {"classify": {"id": 5001}, "total": total, "offset": offset, "articles": shown}


def rows(base: str, total: int, offset: int, numbers: tuple[int, ...]) -> Answer:
    """Answer with a page of rows."""
    return page(json.dumps(document(base, total, offset, numbers)), content_type="application/json")


@pytest.fixture
def site() -> Iterator[Host]:
    with misbehave.serve(Host) as running:
        yield running


def urls(site: Host, *numbers: int) -> set[str]:
    """Canonical URLs of documents."""
    return {f"{site.url}/p/post_{number}.html" for number in numbers}


@pytest.mark.parametrize("number", [1, 3])
def test_w39_a_page_that_is_reset_leaves_the_crawl_partial_and_is_read_by_the_next(site: Host, number: int) -> None:
    site.publish(*range(12, 0, -1))
    good = site.routes[API.format(number)]
    site.routes[API.format(number)] = misbehave.truncated('{"total": 12, "articles": [')
    journal = MemoryJournal()
    first = walk(gkmlpt_target(site), journal)
    assert (first.outcome, first.last_completed_page) == ("partial", number - 1)
    assert f"list page {number} could not be read: truncated" in first.reasons[0]
    site.routes[API.format(number)] = good
    assert walk(gkmlpt_target(site), journal).outcome == "complete"
    assert set(journal.articles) == urls(site, *range(1, 13))


def test_w39_resets_behind_an_answer_are_a_block_and_no_end(site: Host) -> None:
    site.publish(*range(12, 0, -1))
    site.routes[API.format(2)] = misbehave.reset
    with pytest.raises(HostCooldown, match="reset"):
        walk(gkmlpt_target(site), MemoryJournal())
    assert site.count(API.format(2)) == 2


def test_w39_an_index_page_that_stays_unread_leaves_the_crawl_partial(site: Host) -> None:
    site.publish(1)
    site.routes["/gkmlpt/index"] = page("<h1>系统维护中</h1>")
    result = walk(gkmlpt_target(site), MemoryJournal())
    assert (result.outcome, result.progress.steps["prepare"], result.progress.steps["list"]) == ("partial", "failed", "skipped")
    assert result.reasons == ["the site could not be made out: wrong shape: the index page tells no SID"]
    assert site.count("/gkmlpt/index") == 3


@pytest.mark.parametrize("body", [BLOCK_PAGE, BLOCK_PAGE.encode("gbk")], ids=["utf-8", "gbk"])
@pytest.mark.parametrize(("status", "requests"), [(403, 1), (200, 1), (412, 1)])
def test_w52_html_of_a_firewall_is_a_block(site: Host, status: int, requests: int, body: str | bytes) -> None:
    site.publish(1, 2, 3, 4, 5, 6)
    site.routes[API.format(2)] = page(body, status, charset=None if isinstance(body, bytes) else "utf-8")
    with pytest.raises(HostCooldown):
        walk(gkmlpt_target(site), MemoryJournal())
    assert site.count(API.format(2)) == requests


@pytest.mark.parametrize(
    ("body", "words"), [
        ('{"total": 6, "offset": 5, "articles": [{"id": 1, "ti', "cut off"),
        ('{"total": 6, "offset": 5, "articles": [{"id": 1}', "cut off"),
        ('{"errcode": -1}', "wrong shape: another schema: no rows in `articles`"),
        ('{"articles": []}', "wrong shape: another schema: `total` is None"),
        ('{"total": "many", "articles": []}', "wrong shape: another schema: `total` is 'many'"),
        ('{"total": 6, "articles": ["a"]}', "wrong shape: another schema"),
        ("[]", "wrong shape: another schema"),
        ("not JSON", "wrong shape: no JSON"),
        ("", "wrong shape: application/json; charset=utf-8 instead of JSON"),
        ("<html><body>欢迎</body></html>", "wrong shape"),
        ('{"total": 6, "offset": 5, "articles": [{"id": 1}], "classify": {"id": 4}}', "the rows are those of column 4"),
    ])
def test_w52_halves_and_other_schemas_are_errors_and_never_no_rows(site: Host, body: str, words: str) -> None:
    site.publish(1, 2, 3, 4, 5, 6)
    site.routes[API.format(2)] = page(body, content_type="application/json; charset=utf-8")
    journal = MemoryJournal()
    result = walk(gkmlpt_target(site), journal)
    assert (result.outcome, result.last_completed_page, len(journal.articles)) == ("partial", 1, 5)
    assert words in result.reasons[0]
    assert site.count(API.format(2)) == 3


def test_w52_a_half_answer_that_is_whole_at_the_next_try_is_no_error(site: Host) -> None:
    site.publish(1, 2, 3, 4, 5, 6)
    site.routes[API.format(2)] = sequence(page('{"total": 6, "arti'), site.routes[API.format(2)])
    assert walk(gkmlpt_target(site), MemoryJournal()).outcome == "complete"


def test_the_kinds_of_an_unreadable_answer_are_types() -> None:
    options = GkmlptOptions(column=5001)

    def read(body: str, kind: str = "application/json") -> None:
        ADAPTER.parse_list(FetchedPage("http://a.example/x?page=1", "http://a.example/x", 200, {"content-type": kind}, body.encode()), options)

    with pytest.raises(CutOff):
        read('{"total": 1, "articles": [{"title": "tru')
    for body in ('{"total": 1}', "<html></html>", "", '{"total": 5, "articles": []}', '{"total": 5, "offset": 100, "articles": [{}]}'):
        with pytest.raises(WrongShape) as told:
            read(body)
        assert not isinstance(told.value, CutOff)


def test_a_page_that_lacks_rows_lowers_the_outcome_and_is_walked(site: Host) -> None:
    site.publish(*range(12, 0, -1))
    lacking = document(site.url, 12, 5, tuple(range(12, 0, -1)))
    del lacking["articles"][1:3]
    site.routes[API.format(2)] = page(json.dumps(lacking))
    journal = MemoryJournal()
    result = walk(gkmlpt_target(site), journal)
    assert (result.outcome, result.reasons) == ("partial", ["list page 2 lacks 2 of its rows"])
    assert set(journal.articles) == urls(site, 12, 11, 10, 9, 8, 7, 4, 3, 2, 1)


def test_an_answer_to_another_page_than_the_one_that_was_asked_for_has_no_rows(site: Host) -> None:
    site.publish(*range(12, 0, -1))
    site.routes[API.format(2)] = site.routes[API.format(3)]
    journal = MemoryJournal()
    result = walk(gkmlpt_target(site), journal)
    assert (result.outcome, result.reasons) == ("partial", ["the list ended after 5 of 12 rows"])
    assert set(journal.articles) == urls(site, 12, 11, 10, 9, 8)


def test_w40_rows_that_redirect_to_one_document_are_one_article(site: Host) -> None:
    site.publish(3, 2, 1)
    site.routes |= {f"/p/post_{one}.html": redirect("/real.html") for one in (1, 2, 3)}
    site.routes["/real.html"] = page('<div class="news_cont_d_wrap">同一份文件</div>')
    journal = MemoryJournal()
    result = walk(gkmlpt_target(site), journal)
    assert (result.outcome, result.progress.items_new, result.progress.items_known) == ("complete", 1, 2)
    assert [bool(a.alias_of) for a in journal.articles.values()] == [False, True, True]


def test_w40_rows_that_redirect_to_the_home_page_are_not_stored(site: Host) -> None:
    site.publish(*range(20, 0, -1))
    site.routes |= {f"/p/post_{one}.html": redirect("/") for one in range(1, 21)}
    site.routes["/"] = page("<h1>首页</h1>")
    journal = MemoryJournal()
    result = walk(gkmlpt_target(site), journal)
    assert (result.outcome, result.progress.items_failed, journal.articles) == ("partial", 20, {})


def test_w13_a_page_that_repeats_before_the_total_ends_the_walk_and_says_so(site: Host) -> None:
    site.publish(*range(12, 0, -1))
    same = document(site.url, 12, 5, tuple(range(12, 0, -1))) | {"offset": 10}
    site.routes[API.format(3)] = page(json.dumps(same))
    result = walk(gkmlpt_target(site), MemoryJournal())
    assert (result.outcome, result.reasons) == ("truncated", ["the list ended after 10 of 12 rows"])


def test_a_cooldown_in_the_middle_goes_on_behind_the_checkpoint(site: Host) -> None:
    site.publish(*range(12, 0, -1))
    site.routes[API.format(3)] = sequence(page("slow down", 429), site.routes[API.format(3)])
    journal = MemoryJournal()
    with pytest.raises(HostCooldown):
        walk(gkmlpt_target(site), journal)
    number, state = journal.pages[-1]
    result = walk(gkmlpt_target(site), journal, MemoryGate(), StartPoint(number, state))
    assert (result.outcome, set(journal.articles)) == ("complete", urls(site, *range(1, 13)))
    assert site.count("/gkmlpt/index") == 1
