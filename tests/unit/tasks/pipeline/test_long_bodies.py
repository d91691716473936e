"""Long bodies that are read in pieces: in a file without a name, within time and size, and gone when read (rule P4)."""

from __future__ import annotations

import errno
import gzip
import os
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.errors import Cancelled, Parked
from tasks.pipeline import Fetcher, spool
from tasks.pipeline.adapters import sitemap
from tasks.pipeline.fetcher import FetchFailed
from tests.support.crawl_ports import (
    USER_AGENT,
    MemoryGate,
    MemoryJournal,
    ParkingGate,
    Site,
    paged_site,
    target,
    walk,
    walk_parked,
)
from tests.support.misbehave import Request, article_html, drip, gzip_bomb, page, redirect, unannounced_body

_NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_MB = 1_000_000


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(spool, "IN_MEMORY", 2_000)
    monkeypatch.setattr(spool, "BEGINNING", 500)
    monkeypatch.setattr(sitemap, "AT_ONCE", 10)
    with paged_site() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files would be."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def files_in(folder: Path) -> list[str]:
    """Return the open files of this process in a folder, and all that have a name there."""
    opened = [os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{one}")]
    return [name for name in opened if name.startswith(str(folder))] + [one.name for one in folder.iterdir()]


def fetched(site: Site, path: str, **options: Any) -> Any:
    """Fetch a page in pieces with a client of its own."""
    with Fetcher(MemoryGate(), user_agent=USER_AGENT, timeout_sec=options.pop("timeout_sec", 5.0), **options) as fetcher:
        return fetcher.fetch(f"{site.url}{path}", in_pieces=True)


def urlset(site: Site, count: int, tail: str = "</urlset>") -> str:
    """A sitemap of so many articles, each served."""
    for number in range(1, count + 1):
        site.routes[f"/a/{number}"] = page(article_html(f"/a/{number}"))
    return f"<urlset {_NS}>{''.join(f'<url><loc>{site.url}/a/{number}</loc></url>' for number in range(1, count + 1))}{tail}"


def spec(site: Site) -> Any:
    """A target that reads one sitemap."""
    return target(site.url, more={"adapter": "sitemap"}, list_url=None, item=None, link=None, date=None, content=".content",
                  sitemaps=["/s.xml"])


def test_a_long_body_lies_in_a_file_without_a_name_until_it_is_closed(site: Site, folder: Path) -> None:
    body = bytes(range(256)) * 40
    site.routes |= {"/long": page(body, charset=None), "/short": page(body[:2_000], charset=None)}
    long, short = fetched(site, "/long"), fetched(site, "/short")
    assert (long.body, long.open().read(), long.open().read()) == (body[:500], body, body)
    assert (short.body, short.open().read(), short.file) == (body[:2_000], body[:2_000], None)
    (name,) = files_in(folder)
    assert name.endswith("(deleted)")
    long.close()
    assert files_in(folder) == []


def test_a_body_that_was_packed_on_its_way_is_unpacked_in_the_file(site: Site) -> None:
    site.routes["/long"] = page(gzip.compress(bytes(5_000)), charset=None, content_encoding="gzip")
    found = fetched(site, "/long")
    assert (found.open().read(), found.received < 500) == (bytes(5_000), True)
    found.close()


@pytest.mark.parametrize(("answer", "kind"), [(drip, "timeout"), (gzip_bomb(50), "too_large"), (unannounced_body(50), "too_large")])
def test_w89_time_and_size_are_limited_in_a_file_too_and_nothing_of_it_is_left(
    site: Site, folder: Path, answer: Any, kind: str
) -> None:
    site.routes["/long"] = answer
    tracemalloc.start()
    try:
        with pytest.raises(FetchFailed) as told:
            fetched(site, "/long", timeout_sec=1.0 if kind == "timeout" else 5.0, max_long_bytes=10 * _MB)
        assert (told.value.kind, tracemalloc.get_traced_memory()[1] < 5 * _MB) == (kind, True)
    finally:
        tracemalloc.stop()
    assert files_in(folder) == []


def test_only_a_success_goes_to_a_file(site: Site, folder: Path) -> None:
    site.routes |= {"/moved": redirect("/error"), "/error": page("x" * 9_000, 500)}
    found = fetched(site, "/moved")
    assert (found.status, len(found.body), found.file, files_in(folder)) == (500, 9_000, None, [])


def test_d5_a_full_disk_parks_the_crawl(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    site.routes["/s.xml"] = page(urlset(site, 100), content_type="application/xml")
    gate = MemoryGate()
    with pytest.raises(Parked, match=r"^storage: temporary files: "):
        walk(spec(site), MemoryJournal(), gate)
    assert (gate.pending, site.paths) == (0, ["/s.xml"])


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_long_sitemap_is_walked_from_its_file_and_fetched_once(site: Site, folder: Path, is_packed: bool) -> None:
    body = urlset(site, 100).encode()
    site.routes["/s.xml"] = page(gzip.compress(body) if is_packed else body, charset=None, content_type="application/xml")
    journal = MemoryJournal()
    result = walk(spec(site), journal)
    assert (result.outcome, result.pages, set(journal.articles)) == ("complete", 10, site.urls(*range(1, 101)))
    assert (site.count("/s.xml"), files_in(folder)) == (1, [])


@pytest.mark.parametrize("tail", ["", "<url><loc>", "<url></urlset>", "</urlset><urlset>", "<url><loc>\x00</loc></url></urlset>"])
def test_p3_half_of_a_long_sitemap_is_walked_and_the_crawl_is_partial(site: Site, folder: Path, tail: str) -> None:
    site.routes["/s.xml"] = page(urlset(site, 95, tail), content_type="application/xml")
    journal = MemoryJournal()
    result = walk(spec(site), journal)
    assert (result.outcome, result.last_completed_page) == ("partial", 9)
    assert set(journal.articles) == site.urls(*range(1, 91))
    assert (site.count("/s.xml"), files_in(folder)) == (1, [])


def test_a_crawl_that_is_stopped_inside_a_file_leaves_none(site: Site, folder: Path) -> None:
    site.routes["/s.xml"] = page(urlset(site, 100), content_type="application/xml")
    journal = MemoryJournal()

    def stop() -> None:
        if len(journal.articles) == 35:
            assert len(files_in(folder)) == 1
            raise Cancelled()

    with pytest.raises(Cancelled):
        walk(spec(site), journal, MemoryGate(stop=stop))
    assert files_in(folder) == []


def test_no_attempt_ends_between_two_parts_of_a_file_that_was_fetched(site: Site) -> None:
    site.routes["/s.xml"] = page(urlset(site, 100), content_type="application/xml")
    journal = MemoryJournal(articles=dict.fromkeys(site.urls(*range(1, 101))))  # type: ignore[misc]
    result, attempts = walk_parked(spec(site), journal, park=ParkingGate)
    assert (result.outcome, attempts, site.count("/s.xml")) == ("complete", 1, 1)


def test_a_reset_in_the_middle_of_a_long_body_is_tried_again(site: Site, folder: Path) -> None:
    whole, tries = page(urlset(site, 100), content_type="application/xml"), []

    def half_at_first(conn: socket.socket, request: Request) -> bool:
        tries.append(request)
        if len(tries) > 1:
            return whole(conn, request)
        conn.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\ncontent-length: 9000\r\n\r\n" + b"<urlset>" * 500)
        return False

    site.routes["/s.xml"] = half_at_first
    journal = MemoryJournal()
    assert walk(spec(site), journal).outcome == "complete"
    assert (len(tries), len(journal.articles), files_in(folder)) == (2, 100, [])
