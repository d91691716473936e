"""One look at a target: its first list page, one article, and what was found in them (rule P7). Nothing is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from config.errors import HostCooldown, Parked, PermanentJobError
from tasks.pipeline.adapters import find
from tasks.pipeline.adapters.base import Adapter, Item, Keeping, ListPage
from tasks.pipeline.extract import hash_of
from tasks.pipeline.fetcher import Fetcher
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.ports import Gate, Journal
from tasks.pipeline.reader import Reader, Unread
from tasks.pipeline.target import TargetSpec
from tasks.pipeline.urls import canonical

#: so many rows, and so much of a text, are shown
MOST_ITEMS, MOST_CHARS = 20, 500
#: nobody learns from more pages than this before the first list page
_MOST_PREPARED = 10


@dataclass
class Sight:
    """What was seen. `unreachable`: nobody answered at all; `blocked`: the firewall objected; `trouble`: why no more."""

    items: tuple[Item, ...] = ()
    listing: ListPage | None = None
    page: FetchedPage | None = None
    article: dict[str, Any] = field(default_factory=dict)
    selectors: dict[str, Any] = field(default_factory=dict)
    robots: dict[str, str] = field(default_factory=dict)
    trouble: str = ""
    unreachable: bool = False
    blocked: HostCooldown | None = None

    def document(self) -> dict[str, Any]:
        """Return the JSON-able part of the check's document; `blocked` stays what was raised, for the job's end."""
        listing, page = self.listing, self.page
        return {
            "robots": self.robots, "charset": "" if page is None else page.charset,
            "items": [_row(item) for item in self.items[:MOST_ITEMS]], "article": self.article,
            "list": None if listing is None or page is None else {
                "url": page.url, "status": page.status, "rows": len(listing.items), "total": listing.total,
                "pages_total": listing.pages_total, "next_url": listing.next_url, "is_last": listing.is_last,
                "is_window": listing.is_window},
            "selectors": self.selectors, "trouble": self.trouble, "unreachable": self.unreachable,
            "blocked": self.blocked}


def look(spec: TargetSpec, fetcher: Fetcher, journal: Journal, gate: Gate) -> Sight:
    """Fetch the first list page and its first article, each request at the gate, and tell what was found.

    What stands in the way is told too, but for what the gate raises.
    """
    seen = Sight()
    try:
        adapter = find(spec.adapter)
        options = adapter.Options.model_validate(dict(spec.options))
    except (LookupError, ValidationError) as error:
        seen.trouble = f"options of {spec.target_code}: {error}"
        return seen
    reader = Reader(spec, adapter, options, fetcher, journal, gate)
    try:
        _look(seen, spec, adapter, options, reader)
    except Unread as unread:
        seen.trouble = unread.reason
        seen.unreachable = seen.page is None and unread.status is None and not unread.reason.startswith("wrong shape")
    except PermanentJobError as error:
        seen.trouble = str(error)
    except HostCooldown as objection:
        seen.blocked, seen.trouble = objection, "the site's firewall objected"
    except Parked as parked:
        if parked.reason != "robots_unreachable":
            raise
        seen.trouble, seen.unreachable = parked.detail, True
    finally:
        reader.close()
    seen.robots = dict(reader.robots.decisions)
    return seen


def _look(seen: Sight, spec: TargetSpec, adapter: Adapter, options: Any, reader: Reader) -> None:
    kept: dict[str, Any] | None = None
    if isinstance(adapter, Keeping):
        kept = {"base_url": spec.base_url}
        for _ in range(_MOST_PREPARED):
            if (address := adapter.prepare(options, kept)) is None:
                break
            kept = dict(reader.learned(canonical(address, spec.base_url), kept))
    address = adapter.list_url(1, options, {} if kept is None else {"kept": kept})
    if address is None:
        seen.trouble = "the adapter knows no first list page"
        return
    seen.page, seen.listing = reader.list_page(canonical(address, spec.base_url), kept)
    seen.items = seen.listing.items
    found = getattr(adapter, "found", None)
    seen.selectors = found(seen.page, None, options) if found is not None else {}
    item = next((one for one in seen.items if not one.pinned and (one.parts or reader.scope.covers(one.url))), None)
    if item is None:
        seen.trouble = "no row leads to an article of this site" if seen.items else "the list page has no rows"
        return
    _article(seen, item, adapter, options, reader)


def _article(seen: Sight, item: Item, adapter: Adapter, options: Any, reader: Reader) -> None:
    if item.parts is not None:
        parts, charset, status = item.parts, "", None
    else:
        if not reader.allowed(item.url):
            seen.trouble = f"robots.txt disallows the article {item.url}"
            return
        read = reader.item(item)
        if read.parts is None:
            seen.trouble = f"the article redirects out of the group, to {read.page.location}"
            return
        parts, charset, status = read.parts, read.page.charset, read.page.status
        found = getattr(adapter, "found", None)
        seen.selectors |= found(None, read.page, options) if found is not None else {}
    seen.article = {
        "url": item.url, "status": status, "charset": charset, "title": parts.title,
        "published_at": parts.published_at.isoformat() if parts.published_at else None,
        "text": parts.text[:MOST_CHARS], "chars": len(parts.text), "sha256": hash_of(parts.text),
        "facts": sorted(parts.facts)}


def _row(item: Item) -> dict[str, Any]:
    return {"url": item.url, "title": item.title, "own_id": item.own_id, "pinned": item.pinned,
            "published_at": item.published_at.isoformat() if item.published_at else None}


def estimate(seen: Sight, options: Any, gap_sec: float) -> dict[str, Any]:
    """Return what a first full crawl would take: ``{"pages", "items", "requests", "seconds", "gap_sec", "per_page_sec"}``.

    Numbers that the list does not tell are None; then `per_page_sec` says what each of its pages costs.
    """
    listing, rows = seen.listing, len(seen.items)
    total = None if listing is None else listing.total
    pages = None if listing is None else listing.pages_total
    if pages is None and listing is not None and rows:
        pages = -(-total // rows) if total is not None else 1 if listing.is_last else None
    items = total if total is not None else pages * rows if pages is not None else None
    most_pages, most_items = (getattr(options, name, None) for name in ("max_pages", "max_items"))
    if pages is not None and most_pages is not None and pages > most_pages:
        pages, items = most_pages, most_pages * rows
    if items is not None and most_items is not None:
        items = min(items, most_items)
    bodies = items if not any(item.parts for item in seen.items) else 0
    requests = None if pages is None or bodies is None else pages + bodies
    return {"pages": pages, "items": items, "requests": requests,
            "seconds": None if requests is None else round(requests * gap_sec, 1), "gap_sec": gap_sec,
            "per_page_sec": round((1 + rows) * gap_sec, 1)}
