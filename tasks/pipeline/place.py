"""Where exactly a walk was parked, as its checkpoint keeps it (rule R6).

With an interval longer than `park_after` an attempt ends after each list page and each item. What the next one must
know is more than the page: the items of the open page that are done with, the firewall's last word, and whether the
outcome is lowered already. A place is JSON-able: {"walk", "opened", "handled", "settled", "held", "firewall"}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tasks.pipeline.adapters.base import Item, ListPage
from tasks.pipeline.ports import Article


@dataclass(frozen=True)
class OpenPage:
    """A list page whose items are being walked, read from `source`.

    `moved` are the rows of the page before, read once more from `moved_from`, if rows went away meanwhile.
    """

    page: int
    source: str
    listing: ListPage
    moved: tuple[Item, ...] = ()
    moved_from: str = ""

    @property
    def urls(self) -> set[str]:
        """The items of the page."""
        return {item.url for item in (*self.moved, *self.listing.items)}

    def document(self) -> dict[str, Any]:
        """Return the JSON-able form."""
        listing = self.listing
        return {
            "page": self.page, "source": self.source, "moved": _rows(self.moved), "moved_from": self.moved_from,
            "next_url": listing.next_url, "is_last": listing.is_last, "total": listing.total,
            "pages_total": listing.pages_total, "is_window": listing.is_window, "frame": sorted(listing.frame),
            "items": _rows(listing.items)}

    @classmethod
    def restored(cls, document: Mapping[str, Any]) -> OpenPage:
        """Return the page of which `document` is the form."""
        listing = ListPage(
            items=_items(document["items"]), next_url=document["next_url"], is_last=document["is_last"],
            total=document["total"], pages_total=document["pages_total"], is_window=document["is_window"],
            frame=frozenset(document["frame"]))
        return cls(document["page"], document["source"], listing, _items(document["moved"]), document["moved_from"])


def article_kept(article: Article) -> dict[str, Any]:
    """Return the JSON-able form of an article that is not stored yet."""
    return asdict(article) | {"published_at": article.published_at.isoformat() if article.published_at else None}


def article_restored(document: Mapping[str, Any]) -> Article:
    """Return the article of which `document` is the form."""
    return Article(**{**document, "published_at": _moment(document["published_at"])})


def after_block(place: Mapping[str, Any]) -> dict[str, Any]:
    """Return the place as a walk goes on there once the firewall has objected: it reads the list page again.

    If that answers, what answers 403 among its items is forbidden and no block (rule C1). A new row of signs begins,
    and an article whose body was another's is read once more, because it may have been the block page.
    """
    held = place.get("held")
    handled = [url for url in place.get("handled", ()) if held is None or url != held["url"]]
    return {**place, "opened": None, "handled": handled, "held": None, "firewall": {}}


def _rows(items: tuple[Item, ...]) -> list[list[Any]]:
    return [[item.url, item.title, item.published_at.isoformat() if item.published_at else None, item.own_id,
             item.pinned] for item in items]


def _items(rows: list[list[Any]]) -> tuple[Item, ...]:
    return tuple(Item(url=url, title=title, published_at=_moment(at), own_id=own_id, pinned=pinned)
                 for url, title, at, own_id, pinned in rows)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
