"""A page of rows of the gkmlpt API: what is on it, whether it is the page that was asked for, and what is left."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from tasks.pipeline.adapters.base import CutOff, Item, ListPage, WrongShape
from tasks.pipeline.extract import ZONE, normalise, parse_date
from tasks.pipeline.jsliteral import json_of
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.urls import canonical, host_key

if TYPE_CHECKING:
    from tasks.pipeline.adapters.gkmlpt import GkmlptOptions

#: every date that a row may have; the first that is there stands in for a missing one
DATES = ("create_time", "display_publish_time", "first_publish_time", "created_at", "date")
_FACTS = ("type", "identifier", "document_number", "publisher", "keywords", "classify_main_name", "is_expired",
          "is_abolished")
_CODE_UNIT = re.compile(r"%u([0-9a-fA-F]{4})")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_MOBILE = re.compile(r"/mpost_(\d+\.html)$")
#: epoch values of this size count milliseconds
_MILLISECONDS = 100_000_000_000


def listing(page: FetchedPage, options: GkmlptOptions, column: int | None) -> ListPage:
    """Return the rows of an answer of the API; raises WrongShape or CutOff.

    An answer to another page than the one that was asked for, as some sites give behind the end, has no rows.
    """
    found = _document(page)
    total, articles = _number(found.get("total"), "total"), found["articles"]
    _check_column(found, column)
    page_number, size = _asked(page.url), options.page_size
    before = (page_number - 1) * size
    offset = _number(found.get("offset", before), "offset")
    if page_number == 1 and (offset != before or (total > 0 and not articles)):
        raise WrongShape(f"another schema: the first page begins at row {offset} of {total} and has {len(articles)}")
    if offset != before or not articles:
        return ListPage(items=(), is_last=before >= total, total=total, window=options.window)
    items = [_item(row, page.final_url, options.date_field) for row in articles]
    return ListPage(
        items=tuple(item for item in items if item is not None), is_last=before + size >= total, total=total,
        pages_total=-(-total // size), served=min(total, before + size), window=options.window,
        lacks=max(0, min(size, total - before) - len(articles)))


def _document(page: FetchedPage) -> dict[str, Any]:
    if page.text.lstrip()[:1] in ("<", ""):
        raise WrongShape(f"{page.content_type or 'a page'} instead of JSON")
    try:
        found = json_of(page.text)
    except ValueError as error:
        raise (CutOff if "cut off" in str(error) else WrongShape)(str(error)) from error
    articles = found.get("articles") if isinstance(found, dict) else None
    if not isinstance(articles, list) or not all(isinstance(row, dict) for row in articles):
        raise WrongShape(f"another schema: no rows in `articles` but {str(found)[:80]}")
    return dict(found)


def _number(value: Any, name: str) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal():
        raise WrongShape(f"another schema: `{name}` is {value!r}")
    return int(text)


def _check_column(found: Mapping[str, Any], column: int | None) -> None:
    """Refuse the rows of another column, which a site may answer with instead of an error."""
    told = found.get("classify")
    answered = told.get("id") if isinstance(told, dict) else None
    if column and answered is not None and str(answered) != str(column):
        raise WrongShape(f"the rows are those of column {answered}, not of {column}")


def _asked(url: str) -> int:
    """Return the number of the page that a URL asks for; page 0 is page 1."""
    text = parse_qs(urlsplit(url).query).get("page", ["1"])[0]
    return max(1, int(text)) if text.isdecimal() else 1


def _item(row: Mapping[str, Any], source: str, date_field: str) -> Item | None:
    """Read a row; None if it links nowhere that can be fetched."""
    own_id = str(row.get("id") or "").strip()
    address = str(row.get("url") or "").strip() or str(row.get("post_url") or "").strip()
    if not address and own_id.isdecimal() and row.get("type") != "url":
        address = _content_path(int(own_id), source)
    try:
        url = site_url(address, source)
    except ValueError:
        return None
    dates = {name: moment for name in DATES if (moment := _moment(row.get(name))) is not None}
    facts = {name: row[name] for name in _FACTS if row.get(name)}
    return Item(
        url=url, title=title_of(str(row.get("title") or "")), own_id=own_id or None,
        published_at=dates.get(date_field) or next(iter(dates.values()), None),
        facts={**facts, "dates": {name: moment.isoformat() for name, moment in dates.items()},
               "attachments": _attachments(row.get("attachment"), source)})


def site_url(address: str, source: str) -> str:
    """Return the one spelling of an address on a list read from `source`; raises ValueError if it is none.

    The mobile page of a document is the document, and a host that serves the list is asked as it was for the list,
    whether a row says http or https.
    """
    if not address:
        raise ValueError("no address")
    parts = urlsplit(canonical(address, source))
    listed = urlsplit(source)
    scheme = listed.scheme if host_key(urlunsplit(parts)) == host_key(source) else parts.scheme
    return urlunsplit((scheme, parts.netloc, _MOBILE.sub(r"/post_\1", parts.path), parts.query, ""))


def _content_path(own_id: int, source: str) -> str:
    base = urlsplit(source).path.partition("/gkmlpt/")[0]
    return f"{base}/gkmlpt/content/{own_id // 1_000_000}/{own_id // 1_000}/post_{own_id}.html"


def title_of(raw: str) -> str:
    """Return a title as a reader sees it: without tags, entities and ``%uXXXX`` escapes."""
    plain = _CODE_UNIT.sub(lambda found: chr(int(found.group(1), 16)), raw)
    plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return normalise(html.unescape(_TAG.sub(" ", html.unescape(plain) if "&lt;" in plain else plain)))


def _moment(value: Any) -> datetime | None:
    """Read a date: seconds since 1970, or wall time of the site; 0 and nothing are none."""
    text = str(value or "").strip()
    if not text.isdecimal():
        return parse_date(text, ZONE)
    seconds = int(text) / 1000 if int(text) >= _MILLISECONDS else int(text)
    try:
        return datetime.fromtimestamp(seconds, ZONE) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _attachments(value: Any, source: str) -> list[dict[str, str]]:
    found = []
    for one in value if isinstance(value, list) else []:
        if not isinstance(one, dict) or not one.get("url"):
            continue
        try:
            url = canonical(str(one["url"]), source)
        except ValueError:
            continue
        found.append({"name": title_of(str(one.get("name") or "")), "url": url})
    return found
