"""Walks one target, page by page and item by item (rules P2, P3). `crawl` is the pipeline's front door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from config.errors import Parked, PermanentJobError
from tasks.pipeline.adapters import find
from tasks.pipeline.adapters.base import Adapter, Item, Keeping, ListPage
from tasks.pipeline.fetcher import Fetcher
from tasks.pipeline.items import Items
from tasks.pipeline.place import OpenPage, fingerprint
from tasks.pipeline.ports import Gate, Journal
from tasks.pipeline.reader import Reader, Unread
from tasks.pipeline.tally import Tally
from tasks.pipeline.target import CrawlResult, StartPoint, TargetSpec
from tasks.pipeline.urls import canonical
from tasks.pipeline.wishes import Wishes

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
        self._wishes = Wishes(options, journal, refetch=start.refetch)
        self._items = Items(spec, reader, journal, gate, self._result, self._wishes)
        self._fingerprints: set[str] = set()
        self._frame: frozenset[str] = frozenset()
        self._visited: set[str] = set()
        self._tally = Tally(self._result)
        #: the URL of the page before
        self._before = ""
        self._is_unread = False
        #: what an adapter that keeps something keeps, as of the page that is open or comes next; None: nothing yet
        self._kept: dict[str, Any] | None = None
        self._opened: OpenPage | None = None

    def run(self) -> CrawlResult:
        page, state, place = self._start.after_page + 1, dict(self._start.state), dict(self._start.place or {})
        self._kept = place.get("kept") or state.get("kept")
        is_keeping = isinstance(self._adapter, Keeping)
        if page > 1 and not is_keeping and self._adapter.list_url(page, self._options, state) is None:
            # No link to the page behind the checkpoint is known: only the beginning leads there.
            page, state, place, self._result.last_completed_page = 1, {}, {}, 0
        self._recall(state, place)
        self._progress.step("prepare", "running")
        self._journal.begins(self._progress)
        self._reader.robots.on_ask = lambda: self._journal.progressed(self._progress)
        try:
            if not self._prepare():
                return self._end()
            state |= {"kept": self._kept} if is_keeping else {}
            while (following := self._page(page, state)) is not None:
                page, state = page + 1, following
        except Parked:
            self._journal.stopped(self._place())
            raise
        return self._end()

    def _prepare(self) -> bool:
        """Read what the adapter has to know before the first list page; tells whether it knows it now."""
        if not isinstance(self._adapter, Keeping):
            return True
        kept = self._kept or {"base_url": self._spec.base_url}
        try:
            while (address := self._adapter.prepare(self._options, kept)) is not None:
                self._gate.stop_point()
                kept = dict(self._reader.learned(self._url(address, "the page to learn from"), kept))
                self._kept = kept
        except Unread as unread:
            self._result.lower("partial", f"the site could not be made out: {unread.reason}", step="prepare")
            return False
        finally:
            self._progress.bytes = self._reader.received
        self._kept = kept
        return True

    def _end(self) -> CrawlResult:
        troubles = self._result.troubles
        for step in ("prepare", "list", "items"):
            trouble = troubles.get(step)
            if "prepare" in troubles and step != "prepare":
                self._progress.step(step, "skipped", "the site could not be made out")
            else:
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
        self._before = walked.get("before", "")
        self._tally.recall(walked)
        self._items.met_known = bool(walked.get("met_known"))
        self._progress.pages_total = walked.get("pages_total")
        self._result.troubles = dict(walked.get("troubles") or {})
        self._items.recall(place)
        self._reader.firewall.recall(place.get("firewall") or {})
        self._opened = OpenPage.restored(place["opened"]) if place.get("opened") else None

    def _walked(self) -> dict[str, Any]:
        """Return the JSON-able form of what an attempt that goes on has to know of the walk so far."""
        return {"outcome": self._result.outcome, "reasons": list(self._result.reasons), "before": self._before,
                **self._tally.document(), "pages_total": self._progress.pages_total, "met_known": self._items.met_known,
                "troubles": dict(self._result.troubles)}

    def _place(self) -> dict[str, Any]:
        """Return where the walk is (see `tasks.pipeline.place`)."""
        opened = self._opened
        kept = {} if self._kept is None else {"kept": self._kept}
        return {"walk": self._walked(), "opened": opened.document() if opened else None, **kept,
                "firewall": self._reader.firewall.document(), **self._items.document(opened.urls if opened else ())}

    def _page(self, page: int, state: Mapping[str, Any]) -> dict[str, Any] | None:
        """Walk one list page; returns the next one's state, None at the end of the walk."""
        is_open = self._opened is not None and self._opened.page == page
        self._gate.stop_point(sends=not is_open)
        address = self._adapter.list_url(page, self._options, state)
        if address is None:
            return None
        url = self._url(address, f"list page {page}")
        if not is_open:
            self._opened = self._open(page, url, is_promised=bool(state.get("next") or state.get("goes_on")))
        opened = self._opened
        if opened is None:
            return self._pass_by(state)
        for step, status in (("prepare", "done"), ("list", "running"), ("items", "running")):
            self._progress.step(step, status)
        listing, mark = opened.listing, fingerprint(opened.listing.items)
        self._fingerprints.update([mark] if listing.items else [])
        self._visited.update((url, opened.source))
        self._frame = self._frame or listing.frame
        self._count(page, listing)
        if opened.moved:
            self._items.walk(opened.moved, opened.moved_from)
        is_behind = self._items.walk(listing.items, opened.source)
        self._before = url
        if self._items.is_bound:
            self._result.remark("max_items reached: the older items are not taken")
            return None
        return self._close(page, listing, is_behind, mark)

    def _url(self, address: str, what: str) -> str:
        try:
            return canonical(address, self._spec.base_url)
        except ValueError as error:
            raise PermanentJobError(f"{what} of {self._spec.target_code}: {error}") from error

    def _pass_by(self, state: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the state behind a page that stayed unread, None at the end of the walk."""
        if not (self._is_unread and isinstance(self._adapter, Keeping)):
            return None
        kept = self._adapter.pass_by(self._options, self._kept or {})
        if kept is None:
            return None
        self._kept, self._is_unread = dict(kept), False
        return {**state, "kept": self._kept}

    def _open(self, page: int, url: str, *, is_promised: bool) -> OpenPage | None:
        """Read a list page; None at the end of the list, or if it stays unread, which the result then says."""
        read = self._read(page, url, is_promised)
        if read is None:
            return None
        source, listing = read
        moved_from, moved = self._look_back(listing)
        if not (listing.items or listing.goes_on or moved):
            self._tally.ended_empty(page, listing, self._frame, self._journal)
            return None
        if listing.items and not listing.goes_on and fingerprint(listing.items) in self._fingerprints:
            self._tally.ended()
            return None
        self._progress.pages += 1
        return OpenPage(page, source, listing, moved, moved_from)

    def _close(self, page: int, listing: ListPage, is_behind: bool, mark: str) -> dict[str, Any] | None:
        """Set the checkpoint behind a page; returns the next one's state, None at the end of the walk."""
        self._tally.walked(page, listing)
        self._opened = None
        if listing.kept is not None:
            self._kept = dict(listing.kept)
        following = {"next": listing.next_url, "goes_on": listing.goes_on, "kept": self._kept, "walk": self._walked(),
                     "fingerprint": mark, "frame": sorted(self._frame)[:_MOST_MARKS]}
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
            fetched, listing = self._reader.list_page(url, self._kept)
            return fetched.final_url, listing
        except Unread as unread:
            if page > 1 and unread.status in (404, 410) and not is_promised:
                self._tally.ended()
            else:
                self._is_unread = True
                self._result.lower("partial", f"list page {page} could not be read: {unread.reason}")
            return None
        finally:
            self._progress.bytes = self._reader.received

    def _look_back(self, listing: ListPage) -> tuple[str, tuple[Item, ...]]:
        """Read the page before once more if rows went away meanwhile: the first of this page moved to it (rule P2).

        Returns where it was read from and its rows from the first on that was met before. Those above are new: they
        are left to the next crawl, which would end at them if they were stored and others above or below were not.
        """
        gone = self._tally.went_away(listing)
        if not gone or not self._before:
            return "", ()
        try:
            fetched, again = self._reader.list_page(self._before, self._kept)
        except Unread as unread:
            self._result.lower("partial", f"rows moved to a page that could not be read again: {unread.reason}")
            return "", ()
        finally:
            self._progress.bytes = self._reader.received
        first = self._items.first_met(again.items)
        if first is None or again.total != listing.total or gone > len(again.items):
            self._result.lower("partial", f"{gone} rows went away while the list was walked: some may have been passed")
            return "", ()
        return fetched.final_url, again.items[first:]

    def _count(self, page: int, listing: ListPage) -> None:
        self._tally.promised(listing)
        self._progress.current_page = page
        if listing.pages_total is not None:
            self._progress.pages_total = listing.pages_total
        elif self._tally.total is not None and listing.items and self._progress.pages_total is None:
            self._progress.pages_total = -(-self._tally.total // len(listing.items))
        self._journal.progressed(self._progress)

    def _ends(self, page: int, listing: ListPage, is_behind: bool) -> bool:
        """Tell whether the walk is over behind this page, and lower the outcome if rows are left."""
        if is_behind and listing.is_sorted and not self._start.force:
            self._result.reached_frontier = True
            return True
        if listing.is_sorted and self._wishes.are_older(listing.items):
            return True
        if not (listing.items or listing.goes_on):
            self._tally.ended()
            return True
        if listing.is_last or (listing.next_url is not None and listing.next_url in self._visited):
            if listing.is_window and not (listing.joins and self._items.met_known):
                self._result.lower("truncated", "the site serves only a window of its list")
            return True
        most = getattr(self._options, "max_pages", None)
        if most is not None and page >= most:
            if not self._tally.has_all():
                self._result.lower("truncated", f"max_pages {most} reached")
            return True
        return False
