"""What a target's options leave out of a crawl, or add to it (rule P2): `CommonOptions` as the walk sees them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tasks.pipeline.adapters.base import Item
from tasks.pipeline.extract import ZONE
from tasks.pipeline.ports import Journal


class Wishes:
    """Judges items before they are read. Adapters of others may have options without any of these."""

    def __init__(self, options: Any, journal: Journal, *, refetch: bool = False) -> None:
        self._journal = journal
        #: known bodies are read too, and so is what was given up (rule J11)
        self.refetch = refetch
        self._since = getattr(options, "since", None)
        self._days = getattr(options, "refetch_after_days", None)
        self._most: int | None = getattr(options, "max_items", None)
        is_first = (self._most is not None or bool(getattr(options, "mark_known", False))) and journal.is_first()
        #: unknown items become known without being read
        self.marks = is_first and bool(getattr(options, "mark_known", False))
        #: how many items may still be taken; None: any number
        self.left: int | None = max(0, self._most - journal.count()) if is_first and self._most is not None else None

    @property
    def may_skip_list(self) -> bool:
        """Whether an unchanged list page leaves nothing to do: no article on it is to be read again."""
        return not self.refetch and self._days is None

    @property
    def is_full(self) -> bool:
        """Whether no further item may be taken."""
        return self.left == 0

    def took(self) -> None:
        """Note that an item was stored, or is to be once it can be read."""
        if self.left is not None:
            self.left = max(0, self.left - 1)

    def is_older(self, item: Item) -> bool:
        """Tell whether an item is dated before `since`; one without a date is not."""
        moment = item.published_at or item.changed_at
        if self._since is None or moment is None:
            return False
        # a date without a zone was read in the site's, which only the adapter knows: the day is the moment's own
        return bool((moment if moment.utcoffset() else moment.astimezone(ZONE)).date() < self._since)

    def are_older(self, items: Sequence[Item]) -> bool:
        """Tell whether a page is dated before `since` from its first to its last item, pinned ones aside."""
        counting = [item for item in items if not item.pinned]
        return bool(counting) and all(self.is_older(item) for item in counting)

    def again(self, urls: Collection[str]) -> set[str]:
        """Return those of the known URLs that are to be read once more."""
        if self.refetch:
            return self._journal.stale(list(urls), 0.0)
        return set() if self._days is None else self._journal.stale(list(urls), float(self._days))
