"""Documents, titles, addresses and the index of gkmlpt sites, page by page (rule P1)."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.pipeline.adapters.base import Item, WrongShape
from tasks.pipeline.adapters.gkmlpt import ADAPTER, GkmlptOptions, index
from tasks.pipeline.adapters.gkmlpt.rows import site_url, title_of
from tasks.pipeline.page import FetchedPage

URL = "http://www.a.cn/unit/gkmlpt/content/0/963/post_963149.html"
OPTIONS = GkmlptOptions(column=1)


def fetched(body: str | bytes, url: str = URL, kind: str = "text/html; charset=utf-8") -> FetchedPage:
    """A page as it came."""
    return FetchedPage(url, url, 200, {"content-type": kind}, body if isinstance(body, bytes) else body.encode())


@pytest.mark.parametrize(
    ("raw", "title"), [
        ("关于<br/>印发", "关于 印发"), ("A&amp;B &ldquo;x&rdquo;", "A&B “x”"), ("%u5173%u4E8E 2026", "关于 2026"),
        ("%uD83D%uDE00", "😀"), ("面积<100&gt;", "面积<100>"), ("  甲\n乙 ", "甲 乙"), ("&lt;br/&gt;甲", "甲"),
        ("100%unit", "100%unit"), ("", "")])
def test_titles_are_what_a_reader_sees(raw: str, title: str) -> None:
    assert title_of(raw) == title


@pytest.mark.parametrize(
    ("address", "url"), [
        ("https://www.a.cn/x/gkmlpt/content/3/3255/mpost_3255421.html", "http://www.a.cn/x/gkmlpt/content/3/3255/post_3255421.html"),
        ("HTTP://WWW.A.CN:80/post_1.html#top", "http://www.a.cn/post_1.html"),
        ("https://other.cn/post_1.html", "https://other.cn/post_1.html"),
        ("/y/post_2.html", "http://www.a.cn/y/post_2.html"),
        ("http://www.a.cn/compost_2.html", "http://www.a.cn/compost_2.html")])
def test_addresses_have_one_spelling(address: str, url: str) -> None:
    assert site_url(address, "http://www.a.cn/unit/gkmlpt/api/all/1?page=1") == url


@pytest.mark.parametrize(
    ("base", "prefix", "home"), [
        ("http://a.cn", None, "http://a.cn"), ("http://a.cn/", None, "http://a.cn"),
        ("http://a.cn/unit/", None, "http://a.cn/unit"), ("http://a.cn/unit/gkmlpt/index#123", None, "http://a.cn/unit"),
        ("http://a.cn/gkmlpt/mindex", None, "http://a.cn"), ("http://a.cn/other", "/unit/", "http://a.cn/unit"),
        ("https://a.cn:8443/", "unit/gkmlpt", "https://a.cn:8443/unit"), ("http://a.cn/x", "", "http://a.cn")])
def test_a_site_lies_where_its_base_url_or_its_prefix_says(base: str, prefix: str | None, home: str) -> None:
    assert index.home(base, prefix) == home


def test_an_index_is_a_javascript_literal_between_expressions() -> None:
    text = ("window._CONFIG = { APP_URL: location.origin + '/x', SID : \"755001\",\n TREE: [{id: 7, name: '政策', children: "
            "[{'id': '8', \"name\": '通知 公告', jump_url: '', post_count: 3,},],}, {name: 'x'}], SERVICE_AREA_ID: f() };")
    assert index.site_id(text) == "755001"
    assert (index.column(text, "通知 公告"), index.column(text, "政策/通知 公告"), index.column(text, "8")) == (8, 8, 8)


@pytest.mark.parametrize("text", ["", "SID: ''", "SID: null", "SID: f()"])
def test_an_index_without_a_sid_is_another_page(text: str) -> None:
    with pytest.raises(WrongShape):
        index.site_id(text)


def test_the_script_has_the_text_where_the_page_has_none() -> None:
    for script in ('DETAIL: {"id": 1, "content": "\\u003Cp>脚本里的\\u003C/p>\\u003Cp>正文\\u003C/p>"}',
                   "DETAIL: {id: f(), content: '<p>脚本里的</p><p>正文</p>'}"):
        read = ADAPTER.parse_article(fetched(f"<script>window._CONFIG = {{{script}, x: new Date()}}</script>"), Item(URL), OPTIONS)
        assert (read.text, read.found) == ("脚本里的\n正文", True)


def test_a_document_page_without_content_is_another_page() -> None:
    for body in ("<h1 class='title'>通知</h1>", "<script>DETAIL: {}</script>", "<p>系统维护中，请稍后再试</p>" * 20):
        with pytest.raises(WrongShape):
            ADAPTER.parse_article(fetched(body), Item(URL), OPTIONS)
    with pytest.raises(WrongShape):
        ADAPTER.parse_article(fetched(b"%PDF", kind="application/pdf"), Item(URL), OPTIONS)


def test_a_document_of_attachments_alone_has_a_text() -> None:
    body = '<div class="article-content"></div><a class="nfw-cms-attachment" href="/attachment/0/7/7/1.pdf">公告.pdf</a>'
    read = ADAPTER.parse_article(fetched(body), Item(URL), OPTIONS)
    assert read.text == "附件：\n- 公告.pdf http://www.a.cn/attachment/0/7/7/1.pdf"


def test_title_and_date_come_from_the_page_if_the_row_has_none() -> None:
    body = ("<h1 class=title>关于&nbsp;通知</h1><div class=classify><table><tr><td><label>发 布 日 期：</label>"
            "<span>2026-07-07</span></td></tr></table></div><div class=article-content>正文</div>")
    read = ADAPTER.parse_article(fetched(body), Item(URL), OPTIONS)
    assert (read.title, str(read.published_at), read.text) == ("关于 通知", "2026-07-07 00:00:00+08:00", "正文")


@pytest.mark.parametrize("marks", ['class="news_cont_d_wrap"', 'class="tyxxy_main"', 'id="zoomcon"'])
def test_pages_of_other_templates_are_read(marks: str) -> None:
    body = f"<meta name=ArticleTitle content='标题'><meta name=PubDate content='2026-07-07 09:00'><div {marks}>正文</div>"
    read = ADAPTER.parse_article(fetched(body, "http://www.a.cn/x.html"), Item("http://www.a.cn/x.html"), OPTIONS)
    assert (read.title, read.text, str(read.published_at)) == ("标题", "正文", "2026-07-07 09:00:00+08:00")


def test_a_selector_of_the_options_is_asked_first() -> None:
    body = "<div class=article-content>模板</div><div class=own>选择器</div>"
    assert ADAPTER.parse_article(fetched(body), Item(URL), GkmlptOptions(column=1, content=".own")).text == "选择器"


def test_rows_without_an_address_get_that_of_their_document() -> None:
    def item(**row: Any) -> Item | None:
        from json import dumps

        page = fetched(dumps({"total": 1, "articles": [row]}), "http://a.cn/u/gkmlpt/api/all/1?page=1", "application/json")
        return next(iter(ADAPTER.parse_list(page, OPTIONS).items), None)

    found = item(id=3_255_421, title="x", date=1_783_353_600_000)
    assert found is not None
    assert found.url == "http://a.cn/u/gkmlpt/content/3/3255/post_3255421.html"
    assert str(found.published_at) == "2026-07-07 00:00:00+08:00"
    assert item(id=3, type="url", url="javascript:void(0)") is None
    twin = item(id=3, post_url="http://a.cn/x/content/post_3.html")
    assert twin is not None
    assert twin.url == "http://a.cn/x/content/post_3.html"
