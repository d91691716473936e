"""Where exactly a walk was parked, as its checkpoint keeps it (rule R6).

With an interval longer than `park_after` an attempt ends after each list page and each item. What the next one must
know is more than the page: the items of the open page that are done with, the firewall's last word, and whether the
outcome is lowered already. A place is JSON-able: {"walk", "opened", "handled", "settled", "held", "firewall"},
and "kept" if the adapter keeps something; "over" if the list is walked and only items that were given up are left to try,
"old" if so much time has passed since the page before that its rows may have moved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from tasks.pipeline.adapters.base import ArticleParts, Item, ListPage
from tasks.pipeline.ports import Article, Validators

_LISTING = tuple(one.name for one in fields(ListPage) if one.name != "items")
_ITEM = tuple(one.name for one in fields(Item))
_PARTS = tuple(one.name for one in fields(ArticleParts))
_MOMENTS = frozenset({"published_at", "changed_at"})


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
        listing = {name: getattr(self.listing, name) for name in _LISTING}
        return {
            "page": self.page, "source": self.source, "moved": _rows(self.moved), "moved_from": self.moved_from,
            "listing": listing | {"frame": sorted(self.listing.frame)}, "items": _rows(self.listing.items)}

    @classmethod
    def restored(cls, document: Mapping[str, Any]) -> OpenPage:
        """Return the page of which `document` is the form."""
        told = document["listing"]
        listing = ListPage(items=_items(document["items"]), **(told | {"frame": frozenset(told["frame"])}))
        return cls(document["page"], document["source"], listing, _items(document["moved"]), document["moved_from"])


def fingerprint(items: tuple[Item, ...]) -> str:
    """Return what two list pages with the same items have in common, in whatever order."""
    return hashlib.sha256("\n".join(sorted(item.url for item in items)).encode()).hexdigest()[:16]


def article_kept(article: Article) -> dict[str, Any]:
    """Return the JSON-able form of an article that is not stored yet."""
    return asdict(article) | {"published_at": article.published_at.isoformat() if article.published_at else None}


def article_restored(document: Mapping[str, Any]) -> Article:
    """Return the article of which `document` is the form."""
    return Article(**{**document, "published_at": _moment(document["published_at"]),
                      "validators": Validators(**document.get("validators", {}))})


def after_block(place: Mapping[str, Any]) -> dict[str, Any]:
    """Return the place as a walk goes on there once the firewall has objected: it reads the list page again.

    If that answers, what answers 403 among its items is forbidden and no block (rule C1). The place holds no row of
    signs: the block itself is the first of one (`Firewall.expect`). An article whose body was another's is read once more,
    because it may have been the block page.
    """
    held = place.get("held")
    handled = [url for url in place.get("handled", ()) if held is None or url != held["url"]]
    return {**place, "opened": None, "handled": handled, "held": None, "firewall": {}, "old": True}


def _rows(items: tuple[Item, ...]) -> list[dict[str, Any]]:
    return [{name: _plain(value) for name in _ITEM if (value := getattr(item, name))} for item in items]


def _plain(value: Any) -> Any:
    if isinstance(value, ArticleParts):
        return {name: _plain(getattr(value, name)) for name in _PARTS}
    return value.isoformat() if isinstance(value, datetime) else value


def _items(rows: list[dict[str, Any]]) -> tuple[Item, ...]:
    return tuple(Item(**_with_moments(row)) for row in rows)


def _with_moments(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {name: _moment(value) if name in _MOMENTS else value for name, value in row.items()}
    if found.get("parts"):
        found["parts"] = ArticleParts(**_with_moments(found["parts"]))
    return found


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
