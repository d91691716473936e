"""Text, hashes and dates out of pages (rules P1, P2)."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from email.utils import parsedate_to_datetime
from zoneinfo import ZoneInfo

#: dates without a zone are read in this one
ZONE = ZoneInfo("Asia/Shanghai")

_MOMENT = re.compile(
    r"(?<!\d)(?P<year>(?:19|20)\d{2})\s*[-/.年]\s*(?P<month>\d{1,2})\s*[-/.月]\s*(?P<day>\d{1,2})(?!\d)\s*[日号]?"
    r"(?:[T\s]*(?P<hour>\d{1,2})\s*[:：时]\s*(?P<minute>\d{1,2})(?:\s*[:：分]\s*(?P<second>\d{1,2}))?(?:\.\d+)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?)?"
)
_COMPACT = re.compile(r"(?<!\d)(?P<year>(?:19|20)\d{2})(?P<month>\d{2})(?P<day>\d{2})(?!\d)")
_LETTER_MONTH = re.compile(
    r"(?:[A-Za-z]{3,9},?\s+)?\d{1,2}\s+[A-Za-z]{3,9}\s+\d{4}(?:\s+\d{1,2}:\d{2}(?::\d{2})?(?:\s+(?:[+-]\d{4}|[A-Z]{1,4}))?)?"
)


def normalise(text: str) -> str:
    """Return the text with every run of blanks (also wide and zero-width ones) as one space, none at the ends."""
    return " ".join(text.replace("\u200b", " ").replace("\ufeff", " ").split())


def hash_of(text: str) -> str:
    """Return the SHA-256 of the normalised text, in hex."""
    return hashlib.sha256(normalise(text).encode("utf-8", "replace")).hexdigest()


def article_text(markup: str) -> str:
    """Return the main text of a page as the extraction library sees it; "" if it finds none."""
    # The import costs half a second and most sites have a content selector.
    from trafilatura import extract

    return extract(markup, include_comments=False, include_tables=True, favor_recall=True) or ""


def parse_date(text: str | None, zone: ZoneInfo = ZONE) -> datetime | None:
    """Return the first moment that a text names, aware; None if it names none.

    Read are 2026-11-30, 2026/11/30, 2026.11.30, 2026年11月30日, 20261130 (each with or without a time), ISO 8601 and
    RFC 2822. Without a zone in the text it is wall time in `zone`.
    """
    if not text:
        return None
    found = _MOMENT.search(text)
    if found is not None:
        return _moment(found, zone)
    found = _COMPACT.search(text)
    if found is not None and (moment := _moment(found, zone)) is not None:
        return moment
    return _with_month_name(text, zone)


def _moment(found: re.Match[str], zone: ZoneInfo) -> datetime | None:
    parts = found.groupdict()
    numbers = [int(parts.get(name) or 0) for name in ("year", "month", "day", "hour", "minute", "second")]
    try:
        if offset := parts.get("zone"):
            sign = "+00:00" if offset in ("Z", "UTC", "GMT") else offset
            return datetime.fromisoformat("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}".format(*numbers) + sign)
        return datetime(*numbers, tzinfo=zone)  # type: ignore[misc, arg-type]
    except ValueError:
        return None


def _with_month_name(text: str, zone: ZoneInfo) -> datetime | None:
    found = _LETTER_MONTH.search(text)
    if found is None:
        return None
    try:
        moment = parsedate_to_datetime(found.group() if ":" in found.group() else f"{found.group()} 00:00:00")
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
