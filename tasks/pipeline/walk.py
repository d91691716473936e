"""Walks one target, page by page and item by item (rules P2, P3). `crawl` is the pipeline's front door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from config.errors import Parked, PermanentJobError
from tasks.pipeline.adapters import find
from tasks.pipeline.adapters.base import Adapter, Keeping, ListPage
from tasks.pipeline.diskset import DiskSet
from tasks.pipeline.fetcher import Fetcher
from tasks.pipeline.items import Items
from tasks.pipeline.lists import Lists
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
    walk = _Walk(spec, start, adapter, options, Reader(spec, adapter, options, fetcher, journal, gate), journal, gate)
    try:
        return walk.run()
    finally:
        walk.close()


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
        self._visited = DiskSet()
        self._tally = Tally(self._result)
        self._lists = Lists(reader, self._items, journal, self._result, self._tally)
        #: the list is walked; what is left are items that were given up
        self._is_over = False
        #: what an adapter that keeps something keeps, as of the page that is open or comes next; None: nothing yet
        self._kept: dict[str, Any] | None = None
        self._opened: OpenPage | None = None

    def close(self) -> None:
        """Give up what the walk holds in temporary files."""
        for one in (self._reader, self._items, self._lists.fingerprints, self._visited):
            one.close()

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
            while not self._is_over:
                following = self._page(page, state)
                if following is None:
                    self._is_over = True
                else:
                    page, state = page + 1, following
            self._items.try_again(self._journal.due_again())
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
            self._lists.fingerprints.add(str(state["fingerprint"]))
        self._lists.frame = frozenset(str(mark) for mark in state.get("frame", ()))
        walked = place.get("walk") or state.get("walk") or {}
        self._result.outcome = walked.get("outcome", "complete")
        self._result.reasons = list(walked.get("reasons", ()))
        self._lists.before = walked.get("before", "")
        # parked just for the interval, no more time has passed than between two pages of one attempt
        self._lists.is_old = self._start.after_page > 0 and (not place or bool(place.get("old")))
        self._result.validators = walked.get("validators")
        self._is_over = bool(place.get("over"))
        self._tally.recall(walked)
        self._items.met_known = bool(walked.get("met_known"))
        self._progress.pages_total = walked.get("pages_total")
        self._result.troubles = dict(walked.get("troubles") or {})
        self._items.recall(place)
        self._reader.firewall.recall(place.get("firewall") or {})
        if self._start.blocked:
            self._reader.firewall.expect()
        self._opened = OpenPage.restored(place["opened"]) if place.get("opened") else None

    def _walked(self) -> dict[str, Any]:
        """Return the JSON-able form of what an attempt that goes on has to know of the walk so far."""
        return {"outcome": self._result.outcome, "reasons": list(self._result.reasons), "before": self._lists.before,
                **self._tally.document(), "pages_total": self._progress.pages_total, "met_known": self._items.met_known,
                "troubles": dict(self._result.troubles), "validators": self._result.validators}

    def _place(self) -> dict[str, Any]:
        """Return where the walk is (see `tasks.pipeline.place`)."""
        opened = self._opened
        kept = {} if self._kept is None else {"kept": self._kept}
        return {"walk": self._walked(), "opened": opened.document() if opened else None, **kept, "over": self._is_over,
                "firewall": self._reader.firewall.document(), **self._items.document(opened.urls if opened else ())}

    def _page(self, page: int, state: Mapping[str, Any]) -> dict[str, Any] | None:
        """Walk one list page; returns the next one's state, None at the end of the walk."""
        is_open = self._opened is not None and self._opened.page == page
        address = self._adapter.list_url(page, self._options, state)
        url = None if address is None else self._url(address, f"list page {page}")
        self._gate.stop_point(sends=not (is_open or (url is not None and self._reader.holds(url))))
        if url is None:
            return None
        if not is_open:
            self._opened = self._lists.open(
                page, url, self._kept, is_promised=bool(state.get("next") or state.get("goes_on")), may_skip=self._may_skip(page))
        opened = self._opened
        if opened is None:
            self._result.reached_frontier = self._result.reached_frontier or self._lists.is_unchanged
            return self._pass_by(state)
        for step, status in (("prepare", "done"), ("list", "running"), ("items", "running")):
            self._progress.step(step, status)
        listing, mark = opened.listing, fingerprint(opened.listing.items)
        self._lists.fingerprints.update([mark] if listing.items else [])
        self._visited.update((url, opened.source))
        self._lists.frame = self._lists.frame or listing.frame
        self._count(page, listing)
        if opened.moved:
            self._items.walk(opened.moved, opened.moved_from)
        is_behind = self._items.walk(listing.items, opened.source)
        self._journal.listed(self._items.marks((*opened.moved, *listing.items)))
        self._lists.before = url
        if self._items.is_bound:
            self._result.remark("max_items reached: the older items are not taken")
            return None
        return self._close(page, listing, is_behind, mark)

    def _may_skip(self, page: int) -> bool:
        """Tell whether nothing is left to do if this list page is unchanged: an incremental crawl begins (rule P4)."""
        return page == 1 and not self._start.force and self._wishes.may_skip_list

    def _url(self, address: str, what: str) -> str:
        try:
            return canonical(address, self._spec.base_url)
        except ValueError as error:
            raise PermanentJobError(f"{what} of {self._spec.target_code}: {error}") from error

    def _pass_by(self, state: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the state behind a page that stayed unread, None at the end of the walk."""
        if not (self._lists.is_unread and isinstance(self._adapter, Keeping)):
            return None
        kept = self._adapter.pass_by(self._options, self._kept or {})
        if kept is None:
            return None
        self._kept, self._lists.is_unread = dict(kept), False
        return {**state, "kept": self._kept}

    def _close(self, page: int, listing: ListPage, is_behind: bool, mark: str) -> dict[str, Any] | None:
        """Set the checkpoint behind a page; returns the next one's state, None at the end of the walk."""
        self._tally.walked(page, listing)
        self._opened = None
        if listing.kept is not None:
            self._kept = dict(listing.kept)
        following = {"next": listing.next_url, "goes_on": listing.goes_on, "kept": self._kept, "walk": self._walked(),
                     "fingerprint": mark, "frame": sorted(self._lists.frame)[:_MOST_MARKS]}
        self._journal.page_done(page, following, self._progress)
        self._result.pages += 1
        self._result.last_completed_page = page
        return None if self._ends(page, listing, is_behind) else following

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
