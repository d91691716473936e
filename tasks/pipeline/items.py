"""The items of a list page: which are known, which are fetched, and what is stored of each (rules P2, P3, P5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from tasks.pipeline.adapters.base import Item
from tasks.pipeline.extract import hash_of
from tasks.pipeline.place import article_kept, article_restored
from tasks.pipeline.ports import Article, Gate, Journal
from tasks.pipeline.reader import Reader, ReadItem, Unread
from tasks.pipeline.target import CrawlResult, TargetSpec
from tasks.pipeline.urls import canonical

_HOME_PATHS = frozenset({"", "/", "/index.html", "/index.htm", "/index.shtml", "/index.jsp", "/index.php", "/index.aspx"})


class Items:
    """Handles each item of a walk once, however often it is met."""

    def __init__(self, spec: TargetSpec, reader: Reader, journal: Journal, gate: Gate, result: CrawlResult) -> None:
        self._spec, self._reader, self._journal, self._gate = spec, reader, journal, gate
        self._result, self._progress = result, result.progress
        self._handled: set[str] = set()
        self._settled: set[str] = set()
        #: final URL → canonical URL of the article that was stored from there
        self._stored_at: dict[str, str] = {}
        #: an article whose body is another's, until the next answer tells a copy from a block page
        self._held: Article | None = None

    def document(self, urls: Collection[str]) -> dict[str, Any]:
        """Return the JSON-able form of what is done with of the items `urls` (see `tasks.pipeline.place`)."""
        return {"handled": sorted(self._handled.intersection(urls)), "settled": sorted(self._settled.intersection(urls)),
                "held": None if self._held is None else article_kept(self._held)}

    def recall(self, place: Mapping[str, Any]) -> None:
        """Go on where an earlier attempt was parked."""
        self._handled.update(place.get("handled", ()))
        self._settled.update(place.get("settled", ()))
        held = place.get("held")
        self._held = None if held is None else article_restored(held)

    def walk(self, items: Sequence[Item], source: str) -> bool:
        """Handle the items of a page; tells whether all of them lay behind the frontier (rule P2).

        Pinned items do not count, nor do items that are settled without a body (gone, forbidden, robots).
        """
        urls = [item.url for item in items]
        known, behind = self._journal.known(urls), self._journal.behind(urls)
        own = self._journal.own([url for url in dict.fromkeys(urls) if url in known - behind - self._handled])
        self._progress.items_left = len({url for url in urls if url not in known and url not in self._handled
                                         and self._reader.scope.covers(url)})
        for item in items:
            is_done = item.url in self._handled
            self._gate.stop_point(sends=not is_done and item.url not in known and self._reader.scope.covers(item.url))
            if is_done:
                continue
            if item.url not in known:
                self._take(item, source)
            elif item.url not in own:
                self._progress.items_known += 1
            self._handled.add(item.url)
        self._release()
        counting = [item.url for item in items if not item.pinned and item.url not in self._settled]
        return bool(counting) and all(url in behind for url in counting)

    def _take(self, item: Item, source: str) -> None:
        if not self._reader.scope.covers(item.url):
            self._store_external(item, source, item.url)
            return
        self._progress.items_left = max(0, self._progress.items_left - 1)
        try:
            read = self._read(item, source)
        except Unread as unread:
            self._fail(item, source, unread)
            return
        if read.parts is None:
            self._store_external(item, source, read.page.location)
        else:
            self._store(item, source, read)

    def _read(self, item: Item, source: str) -> ReadItem:
        if not self._reader.allowed(item.url):
            raise Unread("robots: disallowed", settled=True)
        try:
            read = self._reader.item(item)
        finally:
            self._progress.bytes = self._reader.received
        if read.parts is not None and self._is_home(read.page.final_url, item.url, source):
            raise Unread(f"moved home: {read.page.final_url}", status=read.page.status)
        return read

    def _fail(self, item: Item, source: str, unread: Unread) -> None:
        self._progress.items_failed += 1
        if unread.settled:
            self._settled.add(item.url)
        else:
            self._result.lower("partial", f"item could not be read: {item.url}: {unread.reason}", step="items")
        self._journal.failed(item.url, item.title, source, unread.reason, self._progress)

    def _store_external(self, item: Item, source: str, final_url: str) -> None:
        self._progress.items_external += 1
        self._journal.store(
            Article(item.url, item.own_id, item.title, item.published_at, "", "", source, final_url, True, ""),
            self._progress,
        )

    def _store(self, item: Item, source: str, read: ReadItem) -> None:
        assert read.parts is not None
        text, final_url = read.parts.text, canonical(read.page.final_url)
        first = self._first_stored(item.url, final_url)
        article = Article(
            url=item.url, own_id=item.own_id, title=read.parts.title, published_at=read.parts.published_at,
            text="" if first else text, sha256=hash_of(text), source_page=source, final_url=final_url, external=False,
            charset=read.page.charset, alias_of=first,
        )
        if read.is_twin:
            self._held = article
            return
        self._release()
        self._commit(article)

    def _first_stored(self, url: str, final_url: str) -> str | None:
        """Return the article that lies where this item's redirect ended, if there is one (public report W40)."""
        if final_url in self._stored_at:
            return self._stored_at[final_url]
        if final_url != url and final_url in self._journal.known([final_url]):
            return final_url
        return None

    def _commit(self, article: Article) -> None:
        self._stored_at.setdefault(article.final_url, article.url)
        if article.alias_of is None:
            self._progress.items_new += 1
        else:
            self._progress.items_known += 1
        self._journal.store(article, self._progress)

    def _release(self) -> None:
        """Store the held article: the site went on answering, so that it was a copy and no block page."""
        if self._held is not None:
            held, self._held = self._held, None
            self._commit(held)

    def _is_home(self, final_url: str, url: str, source: str) -> bool:
        """Tell whether an item's redirect ended at the site's home or at the list instead of at an article."""
        if final_url == url:
            return False
        if final_url in (source, self._spec.base_url):
            return True
        return urlsplit(final_url).path in _HOME_PATHS and urlsplit(url).path not in _HOME_PATHS
