"""Walks one target, page by page and item by item (rules P2, P3). `crawl` is the pipeline's front door."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from config.errors import PermanentJobError
from tasks.pipeline.adapters import find
from tasks.pipeline.adapters.base import Adapter, Item, ListPage
from tasks.pipeline.fetcher import Fetcher
from tasks.pipeline.items import Items
from tasks.pipeline.opened import kept, restored
from tasks.pipeline.ports import Gate, Journal
from tasks.pipeline.reader import Reader, Unread
from tasks.pipeline.target import CrawlResult, StartPoint, TargetSpec
from tasks.pipeline.urls import canonical

#: so many marks of a list page's frame travel in the checkpoint
_MOST_MARKS = 40


def crawl(spec: TargetSpec, start: StartPoint, fetcher: Fetcher, journal: Journal, gate: Gate) -> CrawlResult:
    """Walk a target once from `start` and return what came of it (complete, partial or truncated).

    Raises HostCooldown at a block at once; PermanentJobError for an unknown adapter, bad options or a list page that
    robots.txt forbids; Parked if robots.txt cannot be had; and whatever the gate raises.
    """
    try:
        adapter = find(spec.adapter)
        options = adapter.Options.model_validate(dict(spec.options))
    except LookupError as error:
        raise PermanentJobError(str(error)) from error
    except ValidationError as error:
        raise PermanentJobError(f"options of {spec.target_code}: {error}") from error
    return _Walk(spec, start, adapter, options, Reader(spec, adapter, options, fetcher, journal, gate), journal, gate).run()


class _Walk:
    def __init__(
        self, spec: TargetSpec, start: StartPoint, adapter: Adapter, options: Any, reader: Reader, journal: Journal,
        gate: Gate,
    ) -> None:
        self._spec, self._start, self._adapter, self._options = spec, start, adapter, options
        self._reader, self._journal, self._gate = reader, journal, gate
        self._result = CrawlResult(last_completed_page=start.after_page)
        self._progress = self._result.progress
        self._items = Items(spec, reader, journal, gate, self._result)
        self._fingerprints = {str(start.state["fingerprint"])} if start.state.get("fingerprint") else set()
        self._frame = frozenset(str(mark) for mark in start.state.get("frame", ()))
        self._visited: set[str] = set()
        self._before = ""
        self._rows = 0
        self._total: int | None = None

    def run(self) -> CrawlResult:
        page, state = self._start.after_page + 1, dict(self._start.state)
        if page > 1 and self._adapter.list_url(page, self._options, state) is None:
            # No link to the page behind the checkpoint is known: only the beginning leads there.
            page, state, self._result.last_completed_page = 1, {}, 0
        self._progress.step("prepare", "done")
        self._progress.step("list", "running")
        self._progress.step("items", "running")
        while (following := self._page(page, state)) is not None:
            page, state = page + 1, following
        for step in ("list", "items"):
            self._progress.step(step, "failed" if self._result.outcome == "partial" else "done")
        self._progress.step("finish", "done")
        self._result.robots = dict(self._reader.robots.decisions)
        return self._result

    def _page(self, page: int, state: Mapping[str, Any]) -> dict[str, Any] | None:
        """Walk one list page; returns the next one's state, None at the end of the walk."""
        self._gate.stop_point()
        address = self._adapter.list_url(page, self._options, state)
        if address is None:
            return None
        try:
            url = canonical(address, self._spec.base_url)
        except ValueError as error:
            raise PermanentJobError(f"list page {page} of {self._spec.target_code}: {error}") from error
        read = self._opened(page) or self._read(page, url)
        if read is None:
            return None
        source, listing = read
        if not listing.items:
            self._end_at_empty(page, listing)
            return None
        fingerprint = _fingerprint(listing.items)
        if fingerprint in self._fingerprints:
            return None
        self._fingerprints.add(fingerprint)
        self._visited.update((url, source))
        self._frame = self._frame or listing.frame
        self._look_back(listing)
        self._before = url
        self._count(page, listing)
        self._journal.page_opened(kept(page, source, listing))
        is_behind = self._items.walk(listing.items, source)
        following = {"next": listing.next_url, "fingerprint": fingerprint, "frame": sorted(self._frame)[:_MOST_MARKS]}
        self._journal.page_done(page, following, self._progress)
        self._result.pages += 1
        self._result.last_completed_page = page
        return None if self._ends(page, listing, is_behind) else following

    def _opened(self, page: int) -> tuple[str, ListPage] | None:
        """Return the page that an earlier attempt was parked in the middle of, if this is it."""
        opened = self._start.opened
        return restored(opened) if opened is not None and opened.get("page") == page else None

    def _read(self, page: int, url: str) -> tuple[str, ListPage] | None:
        """Read a list page; None if there is none or it stays unread, which the result then says."""
        try:
            fetched, listing = self._reader.list_page(url)
            return fetched.final_url, listing
        except Unread as unread:
            if page > 1 and unread.status in (404, 410):
                self._end_of_rows()
            else:
                self._result.lower("partial", f"list page {page} could not be read: {unread.reason}")
            return None
        finally:
            self._progress.bytes = self._reader.received

    def _look_back(self, listing: ListPage) -> None:
        """Read the page before once more if rows went away meanwhile: the first of this page moved to it (rule P2)."""
        if listing.total is None or self._total is None or listing.total >= self._total or not self._before:
            return
        try:
            fetched, again = self._reader.list_page(self._before)
        except Unread as unread:
            self._result.lower("partial", f"rows moved to a page that could not be read again: {unread.reason}")
            return
        self._items.walk(again.items, fetched.final_url)

    def _count(self, page: int, listing: ListPage) -> None:
        self._rows += len(listing.items)
        self._total = listing.total if listing.total is not None else self._total
        self._progress.current_page = page
        if listing.pages_total is not None:
            self._progress.pages_total = listing.pages_total
        elif self._total is not None and self._progress.pages_total is None:
            self._progress.pages_total = -(-self._total // len(listing.items))
        self._journal.progressed(self._progress)

    def _ends(self, page: int, listing: ListPage, is_behind: bool) -> bool:
        """Tell whether the walk is over behind this page, and lower the outcome if rows are left."""
        if is_behind and not self._start.force:
            self._result.reached_frontier = True
            return True
        if listing.is_last or (listing.next_url is not None and listing.next_url in self._visited):
            if listing.is_window:
                self._result.lower("truncated", "the site serves only a window of its list")
            return True
        most = getattr(self._options, "max_pages", None)
        if most is not None and page >= most:
            if not self._has_all():
                self._result.lower("truncated", f"max_pages {most} reached")
            return True
        return False

    def _end_at_empty(self, page: int, listing: ListPage) -> None:
        """Judge a list page without items: the end, or a page that is not the list's (rule P3, public report W14)."""
        if page == 1:
            if self._journal.count() > 0:
                self._result.lower("partial", "suspiciously empty: the list had items before")
            return
        if self._frame and 3 * len(self._frame & listing.frame) < len(self._frame):
            self._result.lower("partial", f"list page {page} is not the list's: no items, and nothing else of it")
            return
        self._end_of_rows()

    def _end_of_rows(self) -> None:
        """The list ends by an empty page or a 404; it is only a window if it had promised more rows."""
        if self._is_short(slack=max(1, self._rows // max(1, self._result.pages))):
            self._result.lower("truncated", f"the list ended after {self._rows} of {self._total} rows")

    def _is_short(self, slack: int) -> bool:
        """Tell whether clearly fewer rows came than the list promised; rows may have moved while it was walked."""
        return self._is_whole_walk() and self._total is not None and self._rows + slack <= self._total

    def _has_all(self) -> bool:
        return self._is_whole_walk() and self._total is not None and self._rows >= self._total

    def _is_whole_walk(self) -> bool:
        return self._result.last_completed_page == self._result.pages


def _fingerprint(items: tuple[Item, ...]) -> str:
    return hashlib.sha256("\n".join(sorted(item.url for item in items)).encode()).hexdigest()[:16]
