"""The adapter for RSS and Atom feeds: the latest articles of a site, with or without their text (rules P1, P3).

A feed is a window: what fell out of it between two crawls is not seen. A crawl of one is whole if the window reaches
back to something that an earlier crawl stored, otherwise it is truncated and says so.
"""

from __future__ import annotations

import io
from calendar import timegm
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

import feedparser
import lxml.html
from lxml import etree
from pydantic import Field, field_validator

from tasks.pipeline.adapters.base import ArticleParts, CommonOptions, CutOff, Item, ListPage, WrongShape
from tasks.pipeline.adapters.webpage import article_of
from tasks.pipeline.extract import normalise, parse_date
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.selectors import SelectorText, text_of
from tasks.pipeline.urls import canonical

#: what a whole feed ends with
_ENDS = (b"</rss>", b"</feed>", b"</rdf>", b":rss>", b":feed>", b":rdf>")
_END_BYTES = 1_000


class FeedOptions(CommonOptions):
    """Which feed is read, and how.

    `content` is where the text of an article comes from: its ``page`` (found by `selector`, or by the extraction
    library), or the ``feed`` itself; an entry without text is fetched all the same. Dates that name no zone are wall
    time in `zone`.
    """

    url: str = Field(min_length=1)
    content: Literal["page", "feed"] = "page"
    selector: SelectorText | None = None
    zone: str = "Asia/Shanghai"

    @field_validator("zone")
    @classmethod
    def _is_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (LookupError, ValueError, OSError) as error:
            raise ValueError(f"no time zone is called {name!r}") from error
        return name


class FeedAdapter:
    """Reads a feed, and the pages behind it if it names them."""

    name = "feed"
    Options = FeedOptions

    def list_url(self, page: int, options: FeedOptions, state: Mapping[str, Any]) -> str | None:
        """Return the address of the feed, or of the older part that the part before names."""
        if page == 1:
            return options.url
        return str(state["next"]) if state.get("next") else None

    def parse_list(self, page: FetchedPage, options: FeedOptions) -> ListPage:
        """Return the entries of a feed; raises WrongShape if it is none, CutOff if its end is missing."""
        # A stream and no bytes: bytes may also be the name of a file to the parser.
        found = feedparser.parse(io.BytesIO(page.body), response_headers={
            "content-type": page.content_type, "content-location": page.final_url})
        if not found.get("version"):
            raise WrongShape(f"no feed but {page.content_type or 'something without a type'}")
        if found.get("bozo") and not any(end in page.body[-_END_BYTES:].lower() for end in _ENDS):
            raise CutOff(f"the feed has no end: {found.get('bozo_exception')}"[:300])
        items = [_item(entry, page, options) for entry in found.entries]
        if items and not any(items):
            raise WrongShape(f"none of the {len(items)} entries has a link")
        following = _next(found.feed, page)
        return ListPage(items=tuple(item for item in items if item is not None), next_url=following,
                        is_last=following is None, is_window=True, joins=True)

    def parse_article(self, page: FetchedPage, item: Item, options: FeedOptions) -> ArticleParts:
        """Return title, time and text of the page that an entry leads to."""
        return article_of(page, item, options.selector)


ADAPTER = FeedAdapter()


def _item(entry: Any, page: FetchedPage, options: FeedOptions) -> Item | None:
    """Read an entry; None if it leads nowhere that can be fetched."""
    try:
        url = canonical(str(entry.get("link") or ""), page.final_url)
    except ValueError:
        return None
    if not entry.get("link"):
        return None
    title, zone = _plain(entry.get("title") or ""), ZoneInfo(options.zone)
    published_at = _moment(entry, "published", zone) or _moment(entry, "updated", zone)
    text = _text(entry) if options.content == "feed" else ""
    return Item(
        url=url, title=title, published_at=published_at, own_id=str(entry.get("id") or "")[:200] or None,
        changed_at=_moment(entry, "updated", zone),
        parts=ArticleParts(title, published_at, text, found=True) if text else None)


def _moment(entry: Any, name: str, zone: ZoneInfo) -> datetime | None:
    """Read a date; the parser takes one without a zone for UTC, so that it is only asked for what we cannot read."""
    # the parser's own `get` gives another date for a missing one
    if not (text := str(dict.get(entry, name) or "")):
        return None
    if (moment := parse_date(text, zone)) is not None:
        return moment
    parsed = dict.get(entry, f"{name}_parsed")
    return datetime.fromtimestamp(timegm(parsed), UTC) if parsed else None


def _text(entry: Any) -> str:
    bodies = [str(one.get("value") or "") for one in entry.get("content") or ()]
    return _markup_text(max([*bodies, ""], key=len) or str(entry.get("summary") or ""))


def _plain(markup: str) -> str:
    return normalise(_markup_text(markup))


def _markup_text(markup: str) -> str:
    if not markup.strip():
        return ""
    try:
        return text_of(lxml.html.fragment_fromstring(markup, create_parent="div"))
    except (etree.ParserError, ValueError):
        return normalise(markup)


def _next(feed: Any, page: FetchedPage) -> str | None:
    for link in feed.get("links") or ():
        if link.get("rel") == "next" and link.get("href"):
            try:
                return canonical(str(link["href"]), page.final_url)
            except ValueError:
                return None
    return None
