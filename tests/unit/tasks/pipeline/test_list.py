from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from tasks.pipeline.adapters.base import Item, ListPage, WrongShape
from tasks.pipeline.adapters.list import ADAPTER, ListOptions
from tasks.pipeline.extract import ZONE
from tasks.pipeline.page import FetchedPage
from tests.support.misbehave import article_html, list_html

URL = "http://www.example.org/list/1"


def options(**more: Any) -> ListOptions:
    return ListOptions.model_validate({"list_url": "/list/{page}", "item": "li.row", "link": "a"} | more)


def fetched(markup: str, kind: str = "text/html", url: str = URL) -> FetchedPage:
    return FetchedPage(url, url, 200, {"content-type": kind}, markup.encode())


def read(markup: str, **more: Any) -> ListPage:
    return ADAPTER.parse_list(fetched(markup), options(**more))


def test_rows_come_with_url_title_date_and_pin() -> None:
    listing = read(list_html(["/a/1|甲", "b/2|乙|pinned"]), date=".date", pinned="b.top")
    assert listing.items == (
        Item("http://www.example.org/a/1", "甲", datetime(2026, 11, 30, tzinfo=ZONE), None, False),
        Item("http://www.example.org/list/b/2", "乙", datetime(2026, 11, 30, tzinfo=ZONE), None, True),
    )


def test_xpath_reads_the_same_and_starts_at_the_row() -> None:
    css = read(list_html(["/a/1|甲", "/a/2|乙"]), date=".date")
    xpath = read(list_html(["/a/1|甲", "/a/2|乙"]), item="//li[@class='row']", link="//a/@href", title="//a", date=".//span")
    assert xpath == css


def test_a_title_that_is_cut_in_the_text_is_taken_from_the_attribute() -> None:
    row = '<li class="row"><a href="/a" title="关于印发办法的通知">关于印发…</a></li>'
    assert read(row).items[0].title == "关于印发办法的通知"


@pytest.mark.parametrize("link", ["", "#", "#top", "javascript:void(0)", "mailto:a@b.org", "http://"])
def test_rows_that_link_nowhere_are_no_items(link: str) -> None:
    rows = f'<li class="row"><a href="{link}">x</a></li><li class="row">heading</li>'
    assert [item.title for item in read(rows + '<li class="row"><a href="/a">y</a></li>').items] == ["y"]
    with pytest.raises(WrongShape, match="2 rows match `item`, but none of them has a `link`"):
        read(rows)


@pytest.mark.parametrize(
    ("page", "more", "state", "expected"),
    [
        (1, {}, {}, "/list/1"), (3, {}, {}, "/list/3"), (1, {"first_page": 0}, {}, "/list/0"), (2, {"first_page": 0}, {}, "/list/1"),
        (1, {"first_url": "/index.html"}, {}, "/index.html"), (2, {"first_url": "/index.html", "first_page": 0}, {}, "/list/1"),
        (1, {"list_url": "/all"}, {}, "/all"), (2, {"list_url": "/all"}, {}, None),
        (2, {"list_url": "/all", "next": "a.n"}, {"next": "http://h/2"}, "http://h/2"),
        (2, {"next": "a.n"}, {"next": "http://h/2"}, "http://h/2"), (2, {"next": "a.n"}, {}, "/list/2"),
        (1, {"next": "a.n"}, {"next": "http://h/2"}, "/list/1"),
    ],
)
def test_a_page_has_an_address(page: int, more: dict[str, Any], state: dict[str, Any], expected: str | None) -> None:
    assert ADAPTER.list_url(page, options(**more), state) == expected


@pytest.mark.parametrize(
    ("extra", "next_url", "is_last"),
    [('<a class="n" href="/list/2">', "http://www.example.org/list/2", False), ("", None, True), ('<a class="n">', None, True),
     ('<a class="n" href="#">', None, True), ('<a class="n" href="javascript:go()">', None, True)],
)
def test_the_next_link_tells_whether_more_follows(extra: str, next_url: str | None, is_last: bool) -> None:
    listing = read(list_html(["/a/1"], extra), next="a.n")
    assert (listing.next_url, listing.is_last) == (next_url, is_last)


def test_without_a_next_link_only_an_address_without_number_is_the_last() -> None:
    assert read(list_html(["/a/1"])).is_last is None
    assert read(list_html(["/a/1"]), list_url="/all").is_last is True


def test_the_total_is_read_from_among_words() -> None:
    assert read(list_html([], '<p class="t">共 1,204 条 / 13 页</p>'), total=".t").total == 1204
    assert read(list_html([]), total=".t").total is None


def test_the_frame_is_what_surrounds_the_rows() -> None:
    full, empty = read(list_html(["/a/1"])), read(list_html([]))
    assert full.frame == empty.frame == frozenset({"div.nav", "ul.list"})


@pytest.mark.parametrize("kind", ["application/json", "application/pdf", "image/png"])
def test_what_is_no_html_has_the_wrong_shape(kind: str) -> None:
    with pytest.raises(WrongShape, match=kind):
        ADAPTER.parse_list(fetched("{}", kind), options())


def test_a_page_without_a_type_is_believed_if_it_looks_like_one() -> None:
    assert ADAPTER.parse_list(fetched(list_html(["/a/1"]), ""), options()).items
    with pytest.raises(WrongShape):
        ADAPTER.parse_list(fetched("{}", ""), options())


def test_an_article_is_read_by_its_selector_and_else_by_the_library() -> None:
    item = Item("http://h/a/1", "题目")
    chosen = ADAPTER.parse_article(fetched(article_html("/a/1", "短文")), item, options(content=".content"))
    assert (chosen.title, chosen.text, chosen.found) == ("题目", "短文", True)
    missed = ADAPTER.parse_article(fetched(article_html("/a/1")), item, options(content=".none"))
    assert (missed.found, "请认真贯彻执行" in missed.text) == (False, True)
    free = ADAPTER.parse_article(fetched(article_html("/a/1")), item, options())
    assert (free.found, "请认真贯彻执行" in free.text) == (None, True)


def test_an_article_names_title_and_time_that_its_row_did_not() -> None:
    markup = '<meta name="PubDate" content="2026-11-30 08:00"><h1>大标题</h1><div class=content>文</div>'
    parts = ADAPTER.parse_article(fetched(markup), Item("http://h/a"), options(content=".content"))
    assert (parts.title, parts.published_at) == ("大标题", datetime(2026, 11, 30, 8, tzinfo=ZONE))


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"list_url": None}, "list_url"), ({"item": ""}, "item"), ({"link": "a["}, "link"), ({"colour": "red"}, "colour"),
        ({"max_pages": 0}, "max_pages"), ({"next": "//a["}, "next"),
    ],
)
def test_bad_options_are_told_with_their_key(given: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError) as caught:
        options(**given)
    assert [error["loc"] for error in caught.value.errors()] == [(where,)]


def test_missing_options_are_told_all_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        ListOptions.model_validate({})
    assert sorted(error["loc"][0] for error in caught.value.errors()) == ["item", "link", "list_url"]
