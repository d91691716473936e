"""The adapter for feeds: entries, dates, and how whole a window on a site is (rules P1, P3)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from tasks.pipeline.adapters.base import CutOff, WrongShape
from tasks.pipeline.adapters.feed import ADAPTER, FeedOptions
from tasks.pipeline.page import FetchedPage
from tests.support.crawl_ports import MemoryJournal, Site, paged_site, target, walk, walk_parked
from tests.support.misbehave import article_html, page

OPTIONS = FeedOptions(url="/feed.xml")


def rss(*entries: str, head: str = "") -> str:
    """An RSS document of entries."""
    return f'<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>t</title>{head}{"".join(entries)}</channel></rss>'


def entry(number: int, *, date: str = "Mon, 30 Nov 2026 08:00:00", text: str = "") -> str:
    """An entry that leads to article `number`."""
    return (f"<item><title>第{number}号</title><link>/a/{number}</link><guid isPermaLink='false'>id-{number}</guid>"
            f"<pubDate>{date}</pubDate><description>{text}</description></item>")


def read(body: str | bytes, kind: str = "application/rss+xml", options: FeedOptions = OPTIONS):  # type: ignore[no-untyped-def]
    raw = body.encode() if isinstance(body, str) else body
    return ADAPTER.parse_list(FetchedPage("http://a.cn/feed.xml", "http://a.cn/feed.xml", 200, {"content-type": kind}, raw), options)


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        yield running


def publish(site: Site, *numbers: int, text: str = "") -> None:
    """Serve a feed of these articles, and the articles."""
    site.routes["/feed.xml"] = page(rss(*(entry(number, text=text) for number in numbers)), content_type="application/rss+xml")
    for number in numbers:
        site.routes[f"/a/{number}"] = page(article_html(f"/a/{number}"))


def spec(site: Site, **options: object):  # type: ignore[no-untyped-def]
    given = {"url": "/feed.xml", "selector": ".content", "content": None} | options
    return target(site.url, more={"adapter": "feed"}, list_url=None, item=None, link=None, date=None, **given)


@pytest.mark.parametrize(
    ("date", "moment"), [
        ("Mon, 30 Nov 2026 08:00:00", "2026-11-30 08:00:00+08:00"), ("2026-11-30 08:00:00", "2026-11-30 08:00:00+08:00"),
        ("Mon, 30 Nov 2026 08:00:00 GMT", "2026-11-30 08:00:00+00:00"), ("2026-11-30T08:00:00Z", "2026-11-30 08:00:00+00:00"),
        ("Mon, 30 Nov 2026 08:00:00 +0900", "2026-11-30 08:00:00+09:00"), ("", "None"), ("soon", "None")])
def test_a_date_without_a_zone_is_the_sites_own_time(date: str, moment: str) -> None:
    assert str(read(rss(entry(1, date=date))).items[0].published_at) == moment
    elsewhere = FeedOptions(url="/f", zone="Europe/Berlin")
    if moment.endswith("+08:00"):
        assert str(read(rss(entry(1, date=date)), options=elsewhere).items[0].published_at) == "2026-11-30 08:00:00+01:00"


def test_atom_and_gbk_are_read_and_links_are_resolved() -> None:
    atom = ('<feed xmlns="http://www.w3.org/2005/Atom"><link rel="next" href="/feed.xml?page=2"/><entry><id>urn:1</id>'
            '<title type="html">关于&lt;b&gt;通知&lt;/b&gt;</title><link href="a/1"/><updated>2026-11-30T08:00:00+08:00</updated></entry></feed>')
    for body in (atom, ('<?xml version="1.0" encoding="gbk"?>' + atom).encode("gbk")):
        found = read(body, "application/atom+xml")
        (item,) = found.items
        assert (item.url, item.title, item.own_id) == ("http://a.cn/a/1", "关于通知", "urn:1")
        assert (found.next_url, found.is_last) == ("http://a.cn/feed.xml?page=2", False)


def test_what_is_no_feed_and_what_is_half_of_one_are_errors() -> None:
    for body in ("", "<html><body>欢迎</body></html>", "{}", "/etc/hostname"):
        with pytest.raises(WrongShape):
            read(body)
    whole = rss(entry(1), entry(2))
    with pytest.raises(CutOff):
        read(whole[: whole.rindex("<item>") + 40])
    assert len(read(whole.replace("<title>t", "<title>t & d")).items) == 2
    with pytest.raises(WrongShape, match="none of the 1 entries"):
        read(rss("<item><title>x</title></item>"))


def test_a_first_crawl_of_a_feed_is_truncated_and_one_that_reaches_back_is_complete(site: Site) -> None:
    publish(site, 3, 2, 1)
    journal = MemoryJournal()
    first = walk(spec(site), journal)
    assert (first.outcome, set(journal.articles)) == ("truncated", site.urls(1, 2, 3))
    publish(site, 4, 3, 2)
    second = walk(spec(site), journal)
    assert (second.outcome, second.progress.items_new, second.progress.items_known) == ("complete", 1, 2)
    journal.frontier = set(journal.articles)
    assert walk(spec(site), journal).reached_frontier
    publish(site, 9, 8, 7)
    missed = walk(spec(site), journal)
    assert (missed.outcome, missed.progress.items_new) == ("truncated", 3)


def test_what_this_very_job_has_stored_does_not_reach_back(site: Site) -> None:
    publish(site, 3, 2, 1)
    result, attempts = walk_parked(spec(site), journal := MemoryJournal())
    assert (result.outcome, set(journal.articles)) == ("truncated", site.urls(1, 2, 3))
    assert attempts == 4


def test_a_known_entry_that_an_earlier_attempt_met_counts(site: Site) -> None:
    publish(site, 1)
    journal = MemoryJournal()
    walk(spec(site), journal)
    publish(site, 1, 2, 3)
    before = set(journal.articles)
    journal.pages.clear()

    class Own(MemoryJournal):
        def own(self, urls):  # type: ignore[no-untyped-def]
            return set(urls) - before

    result, attempts = walk_parked(spec(site), Own(articles=journal.articles))
    assert (result.outcome, attempts) == ("complete", 3)


def test_a_feed_that_names_its_older_parts_is_walked_to_its_end(site: Site) -> None:
    publish(site, 4, 3, 2, 1)
    site.routes["/feed.xml"] = page(rss(entry(4), entry(3), head='<atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="next" href="/feed.xml?p=2"/>'))
    site.routes["/feed.xml?p=2"] = page(rss(entry(2), entry(1)))
    journal = MemoryJournal()
    walk(spec(site), journal)
    assert set(journal.articles) == site.urls(1, 2, 3, 4)


def test_the_feed_itself_can_be_the_text(site: Site) -> None:
    publish(site, 2, 1, text="&lt;p&gt;全文一&lt;/p&gt;&lt;p&gt;全文二&lt;/p&gt;")
    site.routes["/feed.xml"] = page(rss(entry(2, text="&lt;p&gt;全文一&lt;/p&gt;&lt;p&gt;全文二&lt;/p&gt;"), entry(1)))
    journal = MemoryJournal()
    walk(spec(site, content="feed"), journal)
    assert journal.articles[f"{site.url}/a/2"].text == "全文一\n全文二"
    assert "现将有关事项通知如下" in journal.articles[f"{site.url}/a/1"].text
    assert site.paths == ["/feed.xml", "/a/1"]


def test_the_text_of_a_feed_survives_a_parked_attempt(site: Site) -> None:
    publish(site, 1, 2)
    site.routes["/feed.xml"] = page(rss(entry(1), entry(2, text="全文")))
    journal = MemoryJournal()
    walk_parked(spec(site, content="feed"), journal)
    assert journal.articles[f"{site.url}/a/2"].text == "全文"
    assert site.count("/feed.xml") == 1


def test_an_empty_feed_that_had_entries_is_suspicious(site: Site) -> None:
    publish(site, 1)
    journal = MemoryJournal()
    walk(spec(site), journal)
    publish(site)
    assert walk(spec(site), journal).outcome == "partial"


@pytest.mark.parametrize("options", [{}, {"url": "/f", "zone": "Mars"}, {"url": "/f", "selector": ">>"}, {"url": "/f", "content": "none"}])
def test_bad_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        FeedOptions.model_validate(options)
