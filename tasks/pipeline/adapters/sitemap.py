"""The adapter for sitemaps: files of addresses, and indexes of such files (rule P1).

A list page is a part of a file, so that a file of 50,000 addresses has checkpoints inside; an index is a page without
items. Addresses are in no order: every crawl walks all of them, and fetches those that are not known. `lastmod` is a
hint alone: it orders the files of an index, and counts for `since`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from tasks.pipeline.adapters.base import ArticleParts, CommonOptions, Item, ListPage, WrongShape
from tasks.pipeline.adapters.webpage import article_of
from tasks.pipeline.extract import ZONE
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.selectors import SelectorText
from tasks.pipeline.sitemaps import MOST_BYTES, Entry, Part, SitemapFile
from tasks.pipeline.urls import canonical

#: so many addresses are a list page
AT_ONCE = 2_000
#: so many files wait at most: they travel in the checkpoint
MOST_FILES = 2_000
_OPEN = "sitemap"


class SitemapOptions(CommonOptions):
    """Which sitemaps are read, and which of their addresses are articles.

    Without `sitemaps` those that robots.txt names are read, else ``/sitemap.xml``. `include` and `exclude` are globs of
    paths (``/news/*``); without `include` every address is one. Indexes may stand in indexes, `max_depth` deep.
    `content` is a selector of the text.
    """

    sitemaps: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    content: SelectorText | None = None
    max_depth: int = Field(default=3, ge=1)


class SitemapAdapter:
    """Walks the files one after the other; `kept` holds those to come and how far the first one is walked."""

    name = "sitemap"
    Options = SitemapOptions
    reads_in_pieces = True

    def prepare(self, options: SitemapOptions, kept: Mapping[str, Any]) -> str | None:
        """Return the address of robots.txt, unless the sitemaps are given or known."""
        return None if options.sitemaps or "todo" in kept else "/robots.txt"

    def learn(self, page: FetchedPage, options: SitemapOptions, kept: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what is kept with the sitemaps that robots.txt names, or the one at the usual place."""
        lines = page.text.splitlines() if page.is_success else []
        named = [line.partition(":")[2].partition("#")[0].strip() for line in lines
                 if line.partition(":")[0].strip().lower() == "sitemap"]
        return {**kept, "todo": _files(named or ["/sitemap.xml"], page.final_url, 0)}

    def pass_by(self, options: SitemapOptions, kept: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what to go on with behind a file that stayed unread; None if it was the last."""
        rest = _todo(options, kept)[1:]
        return {**kept, "todo": rest, "at": 0} if rest else None

    def list_url(self, page: int, options: SitemapOptions, state: Mapping[str, Any]) -> str | None:
        """Return the address of the file that is walked; None if there is none left."""
        todo = _todo(options, state.get("kept") or {})
        return str(todo[0][0]) if todo else None

    def parse_list(self, page: FetchedPage, options: SitemapOptions) -> ListPage:
        """Return the first part of a file."""
        return self.read_list(page, options, {"todo": [[page.final_url, 0]]})

    def read_list(self, page: FetchedPage, options: SitemapOptions, kept: Mapping[str, Any]) -> ListPage:
        """Return the next part of a file, or the files of an index; raises WrongShape or CutOff."""
        todo, at = _todo(options, kept), int(kept.get("at", 0))
        part = _part(page, at)
        if part.is_index:
            return self._index(part, page, options, {**kept, "todo": todo})
        rest = todo if part.has_rest else todo[1:]
        following = {**kept, "todo": rest, "at": at + AT_ONCE if part.has_rest else 0}
        return ListPage(
            items=tuple(item for entry in part.entries if (item := _item(entry, page, options)) is not None),
            is_last=not rest, is_window=bool(kept.get("cut")), kept=following, goes_on=bool(rest),
            has_rest=part.has_rest, is_sorted=False)

    def _index(self, part: Part, page: FetchedPage, options: SitemapOptions, kept: Mapping[str, Any]) -> ListPage:
        depth = int(kept["todo"][0][1]) + 1
        if depth > options.max_depth:
            raise WrongShape(f"an index of sitemaps, more than {options.max_depth} deep")
        entries = sorted(part.entries, key=lambda entry: (entry.changed_at is not None, entry.changed_at and
                                                          entry.changed_at.timestamp()), reverse=True)
        wanted = [entry.url for entry in entries if not _is_older(entry, options)]
        # what is walked or waits already stays where it is: indexes may name each other
        done = [*kept.get("done", ()), kept["todo"][0][0]]
        waiting = {*done, *(url for url, _depth in kept["todo"])}
        found = [one for one in _files(wanted, page.final_url, depth) if one[0] not in waiting]
        todo = [*found, *kept["todo"][1:]]
        is_cut = len(todo) > MOST_FILES or part.has_rest or bool(kept.get("cut"))
        following = {**kept, "todo": todo[:MOST_FILES], "at": 0, "done": done, "cut": is_cut}
        return ListPage(items=(), is_last=not todo, is_window=is_cut, kept=following, goes_on=bool(todo),
                        is_sorted=False)

    def parse_article(self, page: FetchedPage, item: Item, options: SitemapOptions) -> ArticleParts:
        """Return title, time and text of a page."""
        return article_of(page, item, options.content)


ADAPTER = SitemapAdapter()


def _part(page: FetchedPage, at: int) -> Part:
    """Return the part of a file that begins at entry `at`; the file stays open there until its last part is read.

    An attempt that goes on inside a file passes by what earlier ones have walked.
    """
    file = page.reading.pop(_OPEN, None)
    if file is None or file.at != at:
        file = SitemapFile(page.open(), page.content_type, page.max_bytes or MOST_BYTES)
        file.skip(at)
    part: Part = file.part(AT_ONCE)
    if part.has_rest:
        page.reading[_OPEN] = file
    return part


def _todo(options: SitemapOptions, kept: Mapping[str, Any]) -> list[Any]:
    """Return the files to come, each as address and depth; before the first one those that the options name."""
    if "todo" in kept:
        return list(kept["todo"])
    return _files(options.sitemaps, str(kept.get("base_url", "")), 0)


def _files(addresses: Sequence[str], base: str, depth: int) -> list[Any]:
    found: dict[str, int] = {}
    for address in addresses:
        try:
            found.setdefault(canonical(address, base), depth)
        except ValueError:
            continue
    return [[url, one] for url, one in found.items()]


def _item(entry: Entry, page: FetchedPage, options: SitemapOptions) -> Item | None:
    try:
        url = canonical(entry.url, page.final_url)
    except ValueError:
        return None
    path = urlsplit(url).path
    if options.include and not any(fnmatchcase(path, glob) for glob in options.include):
        return None
    if any(fnmatchcase(path, glob) for glob in options.exclude):
        return None
    return Item(url=url, title=entry.title, published_at=entry.published_at, changed_at=entry.changed_at)


def _is_older(entry: Entry, options: SitemapOptions) -> bool:
    return (options.since is not None and entry.changed_at is not None
            and entry.changed_at.astimezone(ZONE).date() < options.since)
