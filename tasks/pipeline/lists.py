"""The list pages of one walk: reading them, and what happened to their rows between two of them (rules P2, P3, P4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.pipeline.adapters.base import Item, ListPage
from tasks.pipeline.diskset import DiskSet
from tasks.pipeline.items import Items
from tasks.pipeline.place import OpenPage, fingerprint
from tasks.pipeline.ports import Journal
from tasks.pipeline.reader import NOTHING, Reader, Unchanged, Unread
from tasks.pipeline.tally import Tally
from tasks.pipeline.target import CrawlResult


class Lists:
    """Opens list pages, and keeps what tells one from another."""

    def __init__(self, reader: Reader, items: Items, journal: Journal, result: CrawlResult, tally: Tally) -> None:
        self._reader, self._items, self._journal = reader, items, journal
        self._result, self._progress, self._tally = result, result.progress, tally
        self.fingerprints = DiskSet()
        self.frame: frozenset[str] = frozenset()
        #: the URL of the page before
        self.before = ""
        #: the page before was read so long ago that rows may have moved to it unseen
        self.is_old = False
        self.is_unread = False
        #: the first page says that it is as a complete crawl has read it
        self.is_unchanged = False
        self._is_missing = False

    def open(
        self, page: int, url: str, kept: Mapping[str, Any] | None, *, is_promised: bool, may_skip: bool
    ) -> OpenPage | None:
        """Read a list page; None at the end of the list, or if it stays unread, which the result then says.

        A page that a link led to was promised: if it is not there, that is no end of the list. `may_skip`: if the page
        is unchanged, nothing of it is wanted (see `is_unchanged`).
        """
        read = self._read(page, url, kept, is_promised=is_promised, may_skip=may_skip)
        if read is None:
            return self._behind_end(page, url, kept) if self._is_missing else None
        source, listing = read
        moved_from, moved = self._look_back(listing, kept)
        if not (listing.items or listing.goes_on or moved):
            self._tally.ended_empty(page, listing, self.frame, self._journal)
            return None
        if listing.items and not listing.goes_on and not moved and fingerprint(listing.items) in self.fingerprints:
            self._tally.ended()
            return None
        self._progress.pages += 1
        return OpenPage(page, source, listing, moved, moved_from)

    def _behind_end(self, page: int, url: str, kept: Mapping[str, Any] | None) -> OpenPage | None:
        """End the list in front of a page that is not there; its rows may have moved to the page before meanwhile."""
        self._is_missing, nothing = False, ListPage(())
        moved_from, moved = self._look_back(nothing, kept)
        if not moved:
            self._tally.ended()
            return None
        return OpenPage(page, url, nothing, moved, moved_from)

    def _read(
        self, page: int, url: str, kept: Mapping[str, Any] | None, *, is_promised: bool, may_skip: bool
    ) -> tuple[str, ListPage] | None:
        try:
            self._reader.admit(url)
            if self._progress.steps["prepare"] == "running":
                self._progress.step("prepare", "done")
                self._progress.step("list", "running")
                self._journal.progressed(self._progress)
            since = self._journal.list_validators(url) if may_skip else NOTHING
            fetched, listing = self._reader.list_page(url, kept, since)
            if page == 1:
                self._keep_validators(url, listing, fetched.validators)
            return fetched.final_url, listing
        except Unchanged:
            self.is_unchanged = True
            return None
        except Unread as unread:
            self._is_missing = page > 1 and unread.status in (404, 410) and not is_promised
            if not self._is_missing:
                self.is_unread = True
                self._result.lower("partial", f"list page {page} could not be read: {unread.reason}")
            return None
        finally:
            self._progress.bytes = self._reader.received

    def _keep_validators(self, url: str, listing: ListPage, found: Any) -> None:
        """Keep what the first page gave, if a crawl would end behind it when nothing is new (rule P4)."""
        is_alone = bool(listing.is_last) and not (listing.goes_on or listing.has_rest)
        if found != NOTHING and any(not item.pinned for item in listing.items) and (listing.is_sorted or is_alone):
            self._result.validators = {"url": url, "etag": found.etag, "last_modified": found.last_modified}

    def _look_back(self, listing: ListPage, kept: Mapping[str, Any] | None) -> tuple[str, tuple[Item, ...]]:
        """Read the page before once more if rows went away meanwhile: the first of this page moved to it (rule P2).

        A list that tells its total says so. With one that does not, rows may have gone between two attempts: the first
        page of an attempt that goes on behind a checkpoint costs one more request, unless it begins with a row that this
        job has stored: what stood above that one was met before it (public report W09). Returns where
        the page was read from and those of its rows that were not met before, behind the first that was. Those above it
        are new: they are left to the next crawl, which would end at them if they were stored and others were not.
        """
        gone, is_old = self._tally.went_away(listing), self.is_old and listing.total is None
        self.is_old = False
        top = next((item for item in listing.items if not item.pinned), None)
        is_old = is_old and not (top is not None and self._journal.is_mine(top.url))
        if not (gone or is_old) or not self.before:
            return "", ()
        try:
            fetched, again = self._reader.list_page(self.before, kept)
        except Unread as unread:
            self._result.lower("partial", f"rows moved to a page that could not be read again: {unread.reason}")
            return "", ()
        finally:
            self._progress.bytes = self._reader.received
        if not gone and fingerprint(again.items) in self.fingerprints:
            return "", ()
        moved = self._items.behind_first_met(again.items)
        has_changed = listing.total is not None and again.total != listing.total
        if moved is None or has_changed or gone > len(again.items):
            self._result.lower("partial", f"{gone or 'some'} rows went away while the list was walked: some may have been passed")
            return "", ()
        return fetched.final_url, moved
