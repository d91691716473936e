"""A list page in the middle of which an attempt was parked, as its checkpoint keeps it (rule R6).

With an interval longer than `park_after` an attempt ends after each request. Without this it would read the same list
page for ever and never come to an item.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tasks.pipeline.adapters.base import Item, ListPage


def kept(page: int, final_url: str, listing: ListPage) -> dict[str, Any]:
    """Return the JSON-able form of list page number `page`, which was read from `final_url`."""
    return {
        "page": page, "final_url": final_url, "next_url": listing.next_url, "is_last": listing.is_last,
        "total": listing.total, "pages_total": listing.pages_total, "is_window": listing.is_window,
        "frame": sorted(listing.frame),
        "items": [[item.url, item.title, item.published_at.isoformat() if item.published_at else None, item.own_id,
                   item.pinned] for item in listing.items]}


def restored(document: Mapping[str, Any]) -> tuple[str, ListPage]:
    """Return where the page was read from, and the page, of what `kept` returned."""
    items = tuple(
        Item(url=url, title=title, published_at=datetime.fromisoformat(at) if at else None, own_id=own_id, pinned=pinned)
        for url, title, at, own_id, pinned in document["items"])
    listing = ListPage(
        items=items, next_url=document["next_url"], is_last=document["is_last"], total=document["total"],
        pages_total=document["pages_total"], is_window=document["is_window"], frame=frozenset(document["frame"]))
    return document["final_url"], listing
