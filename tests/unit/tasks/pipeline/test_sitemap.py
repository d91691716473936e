"""The adapter for sitemaps: files in parts, indexes, packed ones, and what is left unread (rules P1, P4, W06)."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from config.errors import Cancelled
from tasks.pipeline import StartPoint
from tasks.pipeline.adapters import sitemap
from tasks.pipeline.adapters.base import CutOff, WrongShape
from tasks.pipeline.sitemaps import MOST_BYTES, Part, SitemapFile
from tests.support.crawl_ports import MemoryGate, MemoryJournal, Site, paged_site, target, walk, walk_parked
from tests.support.misbehave import article_html, page

_NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def urlset(base: str, *numbers: int, lastmod: str = "2026-11-30") -> str:
    """A sitemap of these articles."""
    rows = "".join(f"<url><loc>{base}/a/{number}</loc><lastmod>{lastmod}</lastmod></url>" for number in numbers)
    return f'<?xml version="1.0" encoding="UTF-8"?><urlset {_NS}>{rows}</urlset>'


def index(*files: str) -> str:
    """An index of sitemaps, each given as address or address and date."""
    rows = "".join(f"<sitemap><loc>{one.partition(' ')[0]}</loc><lastmod>{one.partition(' ')[2]}</lastmod></sitemap>" for one in files)
    return f"<sitemapindex {_NS}>{rows}</sitemapindex>"


def read_part(body: bytes, start: int, count: int, content_type: str = "", most: int = MOST_BYTES) -> Part:
    """Read some entries of a file from the one with the number `start` on."""
    file = SitemapFile(io.BytesIO(body), content_type, most)
    file.skip(start)
    return file.part(count)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(sitemap, "AT_ONCE", 3)
    with paged_site() as running:
        for number in range(1, 30):
            running.routes[f"/a/{number}"] = page(article_html(f"/a/{number}"))
        yield running


def spec(site: Site, **options: Any) -> Any:
    """A target with the adapter."""
    return target(site.url, more={"adapter": "sitemap"}, list_url=None, item=None, link=None, date=None,
                  **({"content": ".content"} | options))


def xml(text: str | bytes) -> Any:
    """Answer with a sitemap."""
    return page(text, charset=None if isinstance(text, bytes) else "utf-8", content_type="application/xml")


def test_robots_txt_names_the_sitemaps_and_is_asked_once(site: Site) -> None:
    site.routes["/robots.txt"] = page(f"User-agent: *\nDisallow: /b/\nSitemap: {site.url}/one.xml\nsitemap:/two.xml # x\n", content_type="text/plain")
    site.routes |= {"/one.xml": xml(urlset(site.url, 1, 2)), "/two.xml": xml(urlset(site.url, 3))}
    journal = MemoryJournal()
    result = walk(spec(site), journal)
    assert (result.outcome, set(journal.articles)) == ("complete", site.urls(1, 2, 3))
    assert site.paths == ["/one.xml", "/a/1", "/a/2", "/two.xml", "/a/3"]
    assert site.count("/robots.txt") == 1


def test_without_such_lines_the_usual_place_is_asked(site: Site) -> None:
    site.routes["/sitemap.xml"] = xml(urlset(site.url, 1))
    journal = MemoryJournal()
    assert walk(spec(site), journal).outcome == "complete"
    assert set(journal.articles) == site.urls(1)


def test_a_file_is_walked_in_parts_with_checkpoints_and_fetched_once(site: Site) -> None:
    site.routes["/s.xml"] = xml(urlset(site.url, *range(1, 9)))
    journal = MemoryJournal()
    result = walk(spec(site, sitemaps=["/s.xml"]), journal)
    assert (result.outcome, result.pages, len(journal.articles)) == ("complete", 3, 8)
    assert [number for number, _ in journal.pages] == [1, 2, 3]
    assert site.count("/s.xml") == 1


def test_w06_a_crawl_that_was_stopped_fetches_the_sitemap_again_and_no_stored_article(site: Site) -> None:
    site.routes["/s.xml"] = xml(urlset(site.url, *range(1, 9)))
    journal = MemoryJournal()

    def stop() -> None:
        if len(journal.articles) == 4:
            raise Cancelled()

    with pytest.raises(Cancelled):
        walk(spec(site, sitemaps=["/s.xml"]), journal, MemoryGate(stop=stop))
    number, state = journal.pages[-1]
    for start in (StartPoint(number, state), StartPoint()):
        journal.stored = set(journal.articles)
        result = walk(spec(site, sitemaps=["/s.xml"]), journal, start=start)
        assert (result.outcome, set(journal.articles)) == ("complete", site.urls(*range(1, 9)))
    assert [site.count(f"/a/{number}") for number in range(1, 9)] == [1] * 8
    assert site.count("/s.xml") == 3


def test_a_crawl_that_parks_at_every_item_comes_to_its_end(site: Site) -> None:
    site.routes["/i.xml"] = xml(index("/s.xml"))
    site.routes["/s.xml"] = xml(urlset(site.url, *range(1, 6)))
    journal = MemoryJournal()
    result, _attempts = walk_parked(spec(site, sitemaps=["/i.xml"]), journal)
    assert (result.outcome, set(journal.articles)) == ("complete", site.urls(*range(1, 6)))
    assert (site.count("/i.xml"), site.count("/s.xml")) == (1, 2)


def test_indexes_of_indexes_are_followed_newest_file_first_and_each_file_once(site: Site) -> None:
    site.routes |= {
        "/i.xml": xml(index("/old.xml 2020-01-01", "/new.xml.gz 2026-11-30", "/j.xml 2025-01-01")),
        "/j.xml": xml(index("/i.xml", "/old.xml", "/deep.xml")),
        "/old.xml": xml(urlset(site.url, 1)), "/deep.xml": xml(urlset(site.url, 3)),
        "/new.xml.gz": xml(gzip.compress(urlset(site.url, 2).encode()))}
    journal = MemoryJournal()
    assert walk(spec(site, sitemaps=["/i.xml"]), journal).outcome == "complete"
    assert [path for path in site.paths if "xml" in path] == ["/i.xml", "/new.xml.gz", "/j.xml", "/deep.xml", "/old.xml"]
    assert set(journal.articles) == site.urls(1, 2, 3)


def test_a_file_that_stays_unread_is_passed_by_and_makes_the_crawl_partial(site: Site) -> None:
    site.routes |= {"/i.xml": xml(index("/gone.xml", "/half.xml", "/s.xml")), "/s.xml": xml(urlset(site.url, 1)),
                    "/half.xml": xml(urlset(site.url, 2)[:-12])}
    journal = MemoryJournal()
    result = walk(spec(site, sitemaps=["/i.xml"]), journal)
    assert (result.outcome, set(journal.articles)) == ("partial", site.urls(1))
    assert [reason.partition(": ")[2][:10] for reason in result.reasons] == ["status 404", "cut off: t"]


def test_indexes_that_never_end_do(site: Site) -> None:
    for number in range(9):
        site.routes[f"/i{number}.xml"] = xml(index(f"/i{number + 1}.xml"))
    result = walk(spec(site, sitemaps=["/i0.xml"], max_depth=2), MemoryJournal())
    assert (result.outcome, [path for path in site.paths if "3" in path]) == ("partial", [])
    assert "more than 2 deep" in result.reasons[0]


def test_known_addresses_end_no_crawl_because_there_is_no_order(site: Site) -> None:
    site.routes["/s.xml"] = xml(urlset(site.url, *range(1, 9)))
    journal = MemoryJournal()
    walk(spec(site, sitemaps=["/s.xml"]), journal)
    journal.frontier = set(journal.articles)
    site.routes["/s.xml"] = xml(urlset(site.url, *range(1, 10)))
    result = walk(spec(site, sitemaps=["/s.xml"]), journal)
    assert (result.progress.items_new, result.reached_frontier) == (1, False)


def test_two_files_with_the_same_addresses_end_no_crawl(site: Site) -> None:
    site.routes |= {"/a.xml": xml(urlset(site.url, 1)), "/b.xml": xml(urlset(site.url, 1)), "/c.xml": xml(urlset(site.url, 2))}
    journal = MemoryJournal()
    walk(spec(site, sitemaps=["/a.xml", "/b.xml", "/c.xml"]), journal)
    assert set(journal.articles) == site.urls(1, 2)


def test_only_included_paths_are_articles_and_lastmod_counts_for_since(site: Site) -> None:
    text = urlset(site.url, 1, 2).replace("</urlset>", f"<url><loc>{site.url}/about</loc></url></urlset>")
    site.routes |= {"/i.xml": xml(index("/s.xml", "/old.xml 2020-01-01")), "/s.xml": xml(text.replace("2026-11-30", "2019-01-01", 1))}
    journal = MemoryJournal()
    walk(spec(site, sitemaps=["/i.xml"], include=["/a/*"], exclude=["/a/3*"], since="2026-01-01"), journal)
    assert set(journal.articles) == site.urls(2)
    assert site.count("/old.xml") == 0


def test_news_titles_and_dates_and_lines_of_addresses_are_read() -> None:
    news = (f'<urlset {_NS} xmlns:news="http://www.google.com/schemas/sitemap-news/0.9" xmlns:image="http://i.example"><url>'
            "<image:image><image:loc>http://a.cn/i.png</image:loc></image:image><loc> http://a.cn/1 </loc><news:news>"
            "<news:publication_date>2026-11-30T08:00:00+08:00</news:publication_date><news:title>标题</news:title></news:news></url></urlset>")
    (entry,) = read_part(b"\xef\xbb\xbf\n" + news.encode(), 0, 9).entries
    assert (entry.url, entry.title, str(entry.published_at)) == ("http://a.cn/1", "标题", "2026-11-30 08:00:00+08:00")
    lines = read_part(b"http://a.cn/1\n\nhttp://a.cn/2\nhttps://a.cn/3\n", 1, 1)
    assert ([entry.url for entry in lines.entries], lines.has_rest) == (["http://a.cn/2"], True)


@pytest.mark.parametrize("body", [b"", b"hello", b"<html><body/></html>", b"<urlset><url></urlset>", b"\x1f\x8bxx", b"<rss/>"])
def test_what_is_no_sitemap_is_of_the_wrong_shape(body: bytes) -> None:
    with pytest.raises(WrongShape) as told:
        read_part(body, 0, 9)
    assert not isinstance(told.value, CutOff)


def test_halves_of_files_are_cut_off() -> None:
    whole = urlset("http://a.cn", *range(1, 2000)).encode()
    for body in (whole[:-3], whole[: len(whole) // 2], gzip.compress(whole)[:-20]):
        with pytest.raises(CutOff):
            read_part(body, 0, 5_000)


def test_w89_a_file_that_unpacks_to_too_much_is_refused_without_being_held() -> None:
    bomb = gzip.compress(f"<urlset {_NS}>".encode() + b" " * 200_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(WrongShape, match="8000000 bytes when unpacked"):
            read_part(bomb, 0, 9, most=8_000_000)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_entities_are_not_resolved(tmp_path: Any) -> None:
    secret = tmp_path / "secret"
    secret.write_text("http://a.cn/secret")
    for declared in (f'SYSTEM "file://{secret}"', f'SYSTEM "{secret}"', f'PUBLIC "x" "file://{secret}"'):
        body = f"<!DOCTYPE urlset [<!ENTITY x {declared}>]><urlset {_NS}><url><loc>&x;</loc></url><url><loc>http://a.cn/1</loc></url></urlset>"
        assert [entry.url for entry in read_part(body.encode(), 0, 9).entries] == ["http://a.cn/1"]


@pytest.mark.parametrize("use", ["<url><loc>&b;</loc></url>", '<url a="&b;"><loc>http://a.cn/1</loc></url>', "&b;"])
@pytest.mark.parametrize("kind", ["", "% "])
def test_a_file_that_declares_entities_of_its_own_is_refused(use: str, kind: str) -> None:
    laughs = "".join(f'<!ENTITY {kind}{chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)) if not kind else f'<!ENTITY {kind}b "x">'
    body = f'<!DOCTYPE urlset [<!ENTITY {kind}a "http://a.cn/">{laughs}]><urlset {_NS}>{use}</urlset>'
    with pytest.raises(WrongShape, match="declares the entity"):
        read_part(body.encode(), 0, 9)


def test_p4_whatever_fills_a_file_it_takes_no_memory() -> None:
    fill = {"<a x='1'>text</a>": 300_000, " ": 5_000_000, "<!-- comment -->": 300_000, "<url><loc></loc></url>": 50_000}
    for what, times in fill.items():
        body = io.BytesIO(f"<urlset {_NS}>{what * times}<url><loc>http://a.cn/1</loc></url></urlset>".encode())
        tracemalloc.start()
        try:
            file = SitemapFile(body)
            while not (part := file.part(2_000)).entries:
                assert part.has_rest
            assert tracemalloc.get_traced_memory()[1] < 4_000_000
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("body", [
    "<!--" + "x" * 5_000_000, "<url a='" + "x" * 5_000_000, "<" + "u" * 5_000_000, "<?x " + "x" * 5_000_000, "".join(f"<n{number}/>" for number in range(200_000)),
    "<url " + "".join(f"a{number}='1' " for number in range(50_000)) + "/>"])
def test_p4_markup_that_never_ends_is_refused_long_before_the_file_does(body: str) -> None:
    with pytest.raises(WrongShape, match=r"too long|too many names"):
        read_part(f"<urlset {_NS}>{body}".encode() + b" " * 1_000_000, 0, 9)


def test_a_text_that_is_too_long_for_an_address_is_none() -> None:
    body = f"<urlset {_NS}><url><loc>http://a.cn/{'x' * 9_000}</loc></url><url><loc>http://a.cn/1</loc></url></urlset>"
    assert [entry.url for entry in read_part(body.encode(), 0, 9).entries] == ["http://a.cn/1"]


@pytest.mark.parametrize(("declared", "codec", "header"), [
    ("GB2312", "gb18030", ""), ("gbk", "gb18030", ""), ("", "gb18030", "text/xml; charset=gb2312"), ("UTF-16", "utf-16", ""),
    ("utf-8", "utf-8", "text/xml; charset=iso-8859-1"), ("", "utf-8", ""), ("", "utf-8-sig", "application/xml")])
def test_a_file_is_read_in_its_charset(declared: str, codec: str, header: str) -> None:
    # a character that GB 2312 does not have, and one that ends in the middle of each of the pieces
    rows = "".join(f"<url><loc>http://a.cn/镕{number}</loc></url>" for number in range(9_000))
    text = (f'<?xml version="1.0" encoding="{declared}"?>' if declared else "") + f"<urlset {_NS}>{rows}</urlset>"
    part = read_part(text.encode(codec), 0, 9_999, header)
    assert [entry.url for entry in part.entries] == [f"http://a.cn/镕{number}" for number in range(9_000)]


def test_files_that_were_packed_one_by_one_and_put_together_are_one() -> None:
    text = urlset("http://a.cn", *range(1, 3_000)).encode()
    body = gzip.compress(text[:50_000]) + gzip.compress(text[50_000:]) + b"\0\0"
    assert len(read_part(body, 0, 9_999).entries) == 2_999


def test_w06_entries_are_the_same_wherever_parts_begin() -> None:
    body = urlset("http://a.cn", *range(1, 5_000)).encode()
    file, found = SitemapFile(io.BytesIO(body)), []
    while True:
        part = file.part(700)
        found += part.entries
        assert read_part(body, file.at - len(part.entries), 700) == part
        if not part.has_rest:
            break
    assert [entry.url for entry in found] == [f"http://a.cn/a/{number}" for number in range(1, 5_000)]
    lines = "\r\n".join(entry.url for entry in found).encode()
    assert [entry.url for entry in read_part(lines, 0, 9_999).entries] == [entry.url for entry in found]


def test_lines_that_are_no_addresses_are_of_the_wrong_shape_wherever_they_stand() -> None:
    for body in (b"http://a.cn/1\nnot found\n", b"http://a.cn/" + b"x" * 100_000):
        with pytest.raises(WrongShape, match="nor lines"):
            read_part(body, 0, 9)
