"""The items of a list page: which are known, which are fetched, and what is stored of each (rules P2, P3, P5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from tasks.pipeline.adapters.base import ArticleParts, Item
from tasks.pipeline.diskset import DiskSet
from tasks.pipeline.extract import hash_of
from tasks.pipeline.marks import mark_of
from tasks.pipeline.place import article_kept, article_restored
from tasks.pipeline.ports import Article, FailedItem, Gate, Journal, Validators
from tasks.pipeline.reader import NOTHING, Reader, ReadItem, Unread
from tasks.pipeline.target import CrawlResult, TargetSpec
from tasks.pipeline.urls import canonical
from tasks.pipeline.wishes import Wishes

_HOME_PATHS = frozenset({"", "/", "/index.html", "/index.htm", "/index.shtml", "/index.jsp", "/index.php", "/index.aspx"})


class Items:
    """Handles each item of a walk once, however often it is met."""

    def __init__(
        self, spec: TargetSpec, reader: Reader, journal: Journal, gate: Gate, result: CrawlResult, wishes: Wishes
    ) -> None:
        self._spec, self._reader, self._journal, self._gate = spec, reader, journal, gate
        self._wishes = wishes
        self._result, self._progress = result, result.progress
        self._handled, self._settled = DiskSet(), DiskSet()
        #: an article whose body is another's, until the next answer tells a copy from a block page
        self._held: Article | None = None
        #: known items that were to be read again and could not be
        self._unread: set[str] = set()
        #: something was met that an earlier job has stored
        self.met_known = False
        #: no more items may be taken, though there are more
        self.is_bound = False

    def document(self, urls: Collection[str]) -> dict[str, Any]:
        """Return the JSON-able form of what is done with of the items `urls` (see `tasks.pipeline.place`)."""
        return {"handled": sorted(self._handled.of(urls)), "settled": sorted(self._settled.of(urls)),
                "held": None if self._held is None else article_kept(self._held)}

    def recall(self, place: Mapping[str, Any]) -> None:
        """Go on where an earlier attempt was parked."""
        self._handled.update(place.get("handled", ()))
        self._settled.update(place.get("settled", ()))
        held = place.get("held")
        self._held = None if held is None else article_restored(held)

    def close(self) -> None:
        """Forget what was handled."""
        self._handled.close()
        self._settled.close()

    def behind_first_met(self, items: Sequence[Item]) -> tuple[Item, ...] | None:
        """Return the items that were never met and stand behind one that was handled or is known; None: none was met.

        Pinned ones count as neither.
        """
        urls = [item.url for item in items]
        met = self._handled.of(urls) | self._journal.known(urls)
        first = next((at for at, item in enumerate(items) if item.url in met and not item.pinned), None)
        return None if first is None else tuple(item for item in items[first:] if item.url not in met)

    def walk(self, items: Sequence[Item], source: str) -> bool:
        """Handle the items of a page; tells whether all of them lay behind the frontier (rule P2).

        Pinned items do not count, nor do items that are settled without a body (gone, forbidden, robots).
        """
        urls = [item.url for item in items]
        self._journal.opened(urls)
        known, done = self._journal.known(urls), self._handled.of(urls)
        behind = self._journal.behind(list(known))
        fresh = known - behind - done
        own = self._journal.own([url for url in dict.fromkeys(urls) if url in fresh])
        old = known - own - done
        again = self._wishes.again(old) | self._changed([item for item in items if item.url in old])
        resting = set() if self._wishes.refetch else self._journal.resting(urls) - known
        left_alone = known | resting
        asked = {item.url for item in items if self._is_read(item, left_alone)
                 or (item.url in again and item.parts is None)}
        self._progress.items_left = len(asked - done)
        for item in items:
            is_done, is_new = item.url in done, item.url not in known
            self._gate.stop_point(sends=not is_done and item.url in asked)
            if is_done:
                continue
            if item.url in resting or (is_new and self._wishes.is_older(item)):
                self._settled.add(item.url)
            elif is_new and self._wishes.is_full:
                self.is_bound = True
                break
            elif is_new:
                self._take(item, source)
            elif item.url not in own:
                self._meet(item, source, is_stale=item.url in again)
            done.add(item.url)
            self._handled.add(item.url)
        self._release()
        settled = self._settled.of(urls)
        counting = [item.url for item in items if not item.pinned and item.url not in settled]
        return bool(counting) and all(url in behind for url in counting)

    def _changed(self, items: Sequence[Item]) -> set[str]:
        """Return those of the known items that their list says something new of, and that this job has not read yet."""
        changed = self._journal.changed({item.url: mark_of(item) for item in items})
        return self._journal.stale(list(changed), 0.0) if changed else set()

    def marks(self, items: Sequence[Item]) -> dict[str, str]:
        """Return the mark of each item of a page that was walked, empty of what has to be looked at once more."""
        return {item.url: "" if item.url in self._unread else mark_of(item) for item in items}

    def _is_read(self, item: Item, known: Collection[str]) -> bool:
        """Tell whether a request is made for an item."""
        return (item.url not in known and item.parts is None and not self._wishes.marks
                and not self._wishes.is_older(item) and self._reader.scope.covers(item.url))

    def _meet(self, item: Item, source: str, *, is_stale: bool) -> None:
        """Count a known item; if it is to be read again, its text as it is now is told to the journal."""
        self._progress.items_known += 1
        self.met_known = True
        if not is_stale:
            return
        if item.parts is not None:
            self._journal.refreshed(self._article(item, source, item.parts, None), self._progress)
            return
        try:
            read = self._read(item, source, self._journal.article_validators(item.url))
        except Unread as unread:
            self._unread.add(item.url)
            self._result.remark(f"item could not be read again: {item.url}: {unread.reason}")
            return
        if read.unchanged:
            self._journal.unchanged(item.url, self._progress)
        elif read.parts is not None and not read.is_twin:
            self._journal.refreshed(self._article(item, source, read.parts, read), self._progress)

    def _take(self, item: Item, source: str) -> None:
        if self._wishes.marks:
            self._store_title(item, source, "", marked=True)
            return
        if item.parts is not None:
            self._release()
            self._commit(self._article(item, source, item.parts, None))
            return
        if not self._reader.scope.covers(item.url):
            self._store_title(item, source, item.url)
            return
        try:
            read = self._read(item, source)
        except Unread as unread:
            self._fail(item, source, unread)
            return
        if read.parts is None:
            self._store_title(item, source, read.page.location)
        else:
            self._store(item, source, read)

    def try_again(self, items: Sequence[FailedItem]) -> None:
        """Try once more to read items that were given up a while ago and that this walk has not met (rule P3)."""
        for failed in items:
            item = Item(failed.url, failed.title)
            if item.url in self._handled or self._journal.known([item.url]):
                continue
            self._gate.stop_point()
            self._take(item, failed.source_page)
            self._handled.add(item.url)
        self._release()

    def _read(self, item: Item, source: str, since: Validators = NOTHING) -> ReadItem:
        self._progress.items_left = max(0, self._progress.items_left - 1)
        if not self._reader.allowed(item.url):
            raise Unread("robots: disallowed", settled=True)
        try:
            read = self._reader.item(item, since)
        finally:
            self._progress.bytes = self._reader.received
        if read.parts is not None and self._is_home(read.page.final_url, item.url, source):
            raise Unread(f"moved home: {read.page.final_url}", status=read.page.status)
        return read

    def _fail(self, item: Item, source: str, unread: Unread) -> None:
        self._progress.items_failed += 1
        is_given_up = self._journal.failed(item.url, item.title, source, unread.reason, self._progress)
        if unread.settled or is_given_up:
            self._settled.add(item.url)
        else:
            # the next crawl tries it again, and must not find its place taken by an older one
            self._wishes.took()
            self._result.lower("partial", f"item could not be read: {item.url}: {unread.reason}", step="items")

    def _store_title(self, item: Item, source: str, final_url: str, *, marked: bool = False) -> None:
        """Store an item by title and link alone: it lies on another host, or is only marked as known."""
        self._progress.items_external += 1
        self._wishes.took()
        self._journal.store(
            Article(item.url, item.own_id, item.title, item.published_at, "", "", source, final_url, not marked, "",
                    marked=marked, facts=item.facts),
            self._progress,
        )

    def _article(self, item: Item, source: str, parts: ArticleParts, read: ReadItem | None) -> Article:
        """Return what is stored of an item; `read` None: the list gave it whole."""
        final_url = item.url if read is None else read.page.final_url
        return Article(
            url=item.url, own_id=item.own_id, title=parts.title, published_at=parts.published_at, text=parts.text,
            sha256=hash_of(parts.text), source_page=source,
            final_url=final_url if final_url == item.url else canonical(final_url), external=False,
            charset="" if read is None else read.page.charset, facts=parts.facts,
            validators=NOTHING if read is None else read.page.validators)

    def _store(self, item: Item, source: str, read: ReadItem) -> None:
        assert read.parts is not None
        article = self._article(item, source, read.parts, read)
        first = self._first_stored(article)
        if first is not None:
            article = replace(article, text="", alias_of=first)
        if read.is_twin:
            self._held = article
            return
        self._release()
        self._commit(article)

    def _first_stored(self, article: Article) -> str | None:
        """Return the article that this one is already: it lies where this item's redirect ended, or came from there
        (public report W40), or has its text and the site's own id of it (W37).
        """
        url, final_url = article.url, article.final_url
        if (there := self._journal.stored_from(final_url, url)) is not None:
            return there
        if final_url != url and final_url in self._journal.known([final_url]):
            return final_url
        if article.own_id is None:
            return None
        same = self._journal.same_document(article.own_id, article.sha256)
        return None if same == url else same

    def _commit(self, article: Article) -> None:
        if article.alias_of is None:
            self._progress.items_new += 1
            self._wishes.took()
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
