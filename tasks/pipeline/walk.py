"""Walks one target, page by page and item by item (rules P2, P3). `crawl` is the pipeline's front door."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from config.errors import Parked, PermanentJobError
from tasks.pipeline.adapters import find
from tasks.pipeline.adapters.base import Adapter, Item, ListPage
from tasks.pipeline.fetcher import Fetcher
from tasks.pipeline.items import Items
from tasks.pipeline.place import OpenPage
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
        self._fingerprints: set[str] = set()
        self._frame: frozenset[str] = frozenset()
        self._visited: set[str] = set()
        #: the URL of the page before; rows and number of the pages that were walked whole, by earlier attempts too
        self._before, self._rows, self._pages = "", 0, 0
        self._total: int | None = None
        self._opened: OpenPage | None = None

    def run(self) -> CrawlResult:
        page, state, place = self._start.after_page + 1, dict(self._start.state), dict(self._start.place or {})
        if page > 1 and self._adapter.list_url(page, self._options, state) is None:
            # No link to the page behind the checkpoint is known: only the beginning leads there.
            page, state, place, self._result.last_completed_page = 1, {}, {}, 0
        self._recall(state, place)
        self._progress.step("prepare", "running")
        self._journal.begins(self._progress)
        self._reader.robots.on_ask = lambda: self._journal.progressed(self._progress)
        try:
            while (following := self._page(page, state)) is not None:
                page, state = page + 1, following
        except Parked:
            self._journal.stopped(self._place())
            raise
        self._progress.step("prepare", "done")
        for step in ("list", "items"):
            trouble = self._result.troubles.get(step)
            self._progress.step(step, "failed" if trouble else "done", trouble or "")
        self._progress.step("finish", "running")
        self._result.robots = dict(self._reader.robots.decisions)
        return self._result

    def _recall(self, state: Mapping[str, Any], place: Mapping[str, Any]) -> None:
        """Go on with what a checkpoint, or the place of a parked attempt, holds of the walk so far."""
        if state.get("fingerprint"):
            self._fingerprints.add(str(state["fingerprint"]))
        self._frame = frozenset(str(mark) for mark in state.get("frame", ()))
        walked = place.get("walk") or state.get("walk") or {}
        self._result.outcome = walked.get("outcome", "complete")
        self._result.reasons = list(walked.get("reasons", ()))
        self._before, self._rows = walked.get("before", ""), walked.get("rows", 0)
        self._pages, self._total = walked.get("pages", 0), walked.get("total")
        self._progress.pages_total = walked.get("pages_total")
        self._result.troubles = dict(walked.get("troubles") or {})
        self._items.recall(place)
        self._reader.firewall.recall(place.get("firewall") or {})
        self._opened = OpenPage.restored(place["opened"]) if place.get("opened") else None

    def _walked(self) -> dict[str, Any]:
        """Return the JSON-able form of what an attempt that goes on has to know of the walk so far."""
        return {"outcome": self._result.outcome, "reasons": list(self._result.reasons), "before": self._before,
                "rows": self._rows, "pages": self._pages, "total": self._total, "troubles": dict(self._result.troubles),
                "pages_total": self._progress.pages_total}

    def _place(self) -> dict[str, Any]:
        """Return where the walk is (see `tasks.pipeline.place`)."""
        opened = self._opened
        return {"walk": self._walked(), "opened": opened.document() if opened else None,
                "firewall": self._reader.firewall.document(), **self._items.document(opened.urls if opened else ())}

    def _page(self, page: int, state: Mapping[str, Any]) -> dict[str, Any] | None:
        """Walk one list page; returns the next one's state, None at the end of the walk."""
        is_open = self._opened is not None and self._opened.page == page
        self._gate.stop_point(sends=not is_open)
        address = self._adapter.list_url(page, self._options, state)
        if address is None:
            return None
        try:
            url = canonical(address, self._spec.base_url)
        except ValueError as error:
            raise PermanentJobError(f"list page {page} of {self._spec.target_code}: {error}") from error
        if not is_open:
            self._opened = self._open(page, url, is_promised=bool(state.get("next")))
        opened = self._opened
        if opened is None:
            return None
        for step, status in (("prepare", "done"), ("list", "running"), ("items", "running")):
            self._progress.step(step, status)
        listing, fingerprint = opened.listing, _fingerprint(opened.listing.items)
        self._fingerprints.add(fingerprint)
        self._visited.update((url, opened.source))
        self._frame = self._frame or listing.frame
        self._count(page, listing)
        if opened.moved:
            self._items.walk(opened.moved, opened.moved_from)
        is_behind = self._items.walk(listing.items, opened.source)
        self._before = url
        return self._close(page, listing, is_behind, fingerprint)

    def _open(self, page: int, url: str, *, is_promised: bool) -> OpenPage | None:
        """Read a list page; None at the end of the list, or if it stays unread, which the result then says."""
        read = self._read(page, url, is_promised)
        if read is None:
            return None
        source, listing = read
        if not listing.items:
            self._end_at_empty(page, listing)
            return None
        if _fingerprint(listing.items) in self._fingerprints:
            return None
        self._progress.pages += 1
        moved_from, moved = self._look_back(listing)
        return OpenPage(page, source, listing, moved, moved_from)

    def _close(self, page: int, listing: ListPage, is_behind: bool, fingerprint: str) -> dict[str, Any] | None:
        """Set the checkpoint behind a page; returns the next one's state, None at the end of the walk."""
        self._rows += len(listing.items)
        self._pages += 1
        self._opened = None
        following = {"next": listing.next_url, "fingerprint": fingerprint, "frame": sorted(self._frame)[:_MOST_MARKS],
                     "walk": self._walked()}
        self._journal.page_done(page, following, self._progress)
        self._result.pages += 1
        self._result.last_completed_page = page
        return None if self._ends(page, listing, is_behind) else following

    def _read(self, page: int, url: str, is_promised: bool) -> tuple[str, ListPage] | None:
        """Read a list page; None if there is none or it stays unread, which the result then says.

        A page that a link led to was promised: if it is not there, that is no end of the list.
        """
        try:
            self._reader.admit(url)
            if self._progress.steps["prepare"] == "running":
                self._progress.step("prepare", "done")
                self._progress.step("list", "running")
                self._journal.progressed(self._progress)
            fetched, listing = self._reader.list_page(url)
            return fetched.final_url, listing
        except Unread as unread:
            if page > 1 and unread.status in (404, 410) and not is_promised:
                self._end_of_rows()
            else:
                self._result.lower("partial", f"list page {page} could not be read: {unread.reason}")
            return None
        finally:
            self._progress.bytes = self._reader.received

    def _look_back(self, listing: ListPage) -> tuple[str, tuple[Item, ...]]:
        """Read the page before once more if rows went away meanwhile: the first of this page moved to it (rule P2).

        Returns where it was read from and its rows.
        """
        if listing.total is None or self._total is None or listing.total >= self._total or not self._before:
            return "", ()
        try:
            fetched, again = self._reader.list_page(self._before)
        except Unread as unread:
            self._result.lower("partial", f"rows moved to a page that could not be read again: {unread.reason}")
            return "", ()
        finally:
            self._progress.bytes = self._reader.received
        return fetched.final_url, again.items

    def _count(self, page: int, listing: ListPage) -> None:
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
            else:
                # an empty list is whole; a selector that matches nothing looks the same, so somebody should look
                self._result.reasons.append("the first list page has no items: is the list empty, or `item` wrong?")
            return
        if self._frame and 3 * len(self._frame & listing.frame) < len(self._frame):
            self._result.lower("partial", f"list page {page} is not the list's: no items, and nothing else of it")
            return
        self._end_of_rows()

    def _end_of_rows(self) -> None:
        """The list ends by an empty page or a 404; it is only a window if it had promised more rows."""
        if self._is_short(slack=max(1, self._rows // max(1, self._pages))):
            self._result.lower("truncated", f"the list ended after {self._rows} of {self._total} rows")

    def _is_short(self, slack: int) -> bool:
        """Tell whether clearly fewer rows came than the list promised; rows may have moved while it was walked."""
        return self._is_whole_walk() and self._total is not None and self._rows + slack <= self._total

    def _has_all(self) -> bool:
        return self._is_whole_walk() and self._total is not None and self._rows >= self._total

    def _is_whole_walk(self) -> bool:
        return self._result.last_completed_page == self._pages


def _fingerprint(items: tuple[Item, ...]) -> str:
    return hashlib.sha256("\n".join(sorted(item.url for item in items)).encode()).hexdigest()[:16]
