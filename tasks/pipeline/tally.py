"""How many rows a list promised and how many came: by that an end of a list is told from a hole (rule P3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.pipeline.adapters.base import ListPage
from tasks.pipeline.ports import Journal
from tasks.pipeline.target import CrawlResult


class Tally:
    """Counts over the whole walk, earlier attempts included; lowers the outcome of `result` where rows are missing."""

    def __init__(self, result: CrawlResult) -> None:
        self._result = result
        #: rows and number of the pages that were walked whole
        self.rows, self.pages = 0, 0
        self.total: int | None = None
        self._served: int | None = None
        self._window: int | None = None

    def document(self) -> dict[str, Any]:
        """Return the JSON-able form."""
        return {"rows": self.rows, "pages": self.pages, "total": self.total, "served": self._served,
                "window": self._window}

    def recall(self, document: Mapping[str, Any]) -> None:
        """Go on counting where an earlier attempt stopped."""
        self.rows, self.pages = document.get("rows", 0), document.get("pages", 0)
        self.total, self._served = document.get("total"), document.get("served")
        self._window = document.get("window")

    def promised(self, listing: ListPage) -> None:
        """Take what a page says of the whole list."""
        self.total = listing.total if listing.total is not None else self.total
        self._window = listing.window if listing.window is not None else self._window

    def walked(self, page: int, listing: ListPage) -> None:
        """Count a page that was walked whole."""
        self.rows += len(listing.items)
        self.pages += 1
        self._served = listing.served if listing.served is not None else self._served
        if listing.lacks:
            self._result.lower("partial", f"list page {page} lacks {listing.lacks} of its rows")

    def went_away(self, listing: ListPage) -> int:
        """Return by how many rows the list has become shorter since the page before."""
        return 0 if listing.total is None or self.total is None else max(0, self.total - listing.total)

    def ended(self) -> None:
        """Judge an end by an empty page, a 404 or a repeated page: the list is whole unless it had promised more.

        A list that counts its rows exactly is a window if it ends where such windows do, otherwise something is
        missing. One that does not count so may be short by a page: rows move while it is walked.
        """
        if self._served is not None and self.total is not None:
            if self._served < self.total:
                is_window = self._window is not None and self._served >= self._window
                self._result.lower("truncated" if is_window else "partial",
                                   f"the list ended after {self._served} of {self.total} rows")
            return
        slack = max(1, self.rows // max(1, self.pages))
        if self._is_whole_walk() and self.total is not None and self.rows + slack <= self.total:
            self._result.lower("truncated", f"the list ended after {self.rows} of {self.total} rows")

    def ended_empty(self, page: int, listing: ListPage, frame: frozenset[str], journal: Journal) -> None:
        """Judge a list page without items: the end, or a page that is not the list's (public report W14).

        `frame` are the marks of the list's pages, as far as they are known.
        """
        if page == 1:
            if journal.count() > 0:
                self._result.lower("partial", "suspiciously empty: the list had items before")
            else:
                # an empty list is whole; a selector that matches nothing looks the same, so somebody should look
                self._result.remark("the first list page has no items: is the list empty, or `item` wrong?")
            return
        if frame and 3 * len(frame & listing.frame) < len(frame):
            self._result.lower("partial", f"list page {page} is not the list's: no items, and nothing else of it")
            return
        self.promised(listing)
        self.ended()

    def has_all(self) -> bool:
        """Tell whether as many rows came as the list has."""
        return self._is_whole_walk() and self.total is not None and self.rows >= self.total

    def _is_whole_walk(self) -> bool:
        return self._result.last_completed_page == self.pages
