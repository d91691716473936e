"""Reads sitemap files bit by bit: gzip or not, XML or lines of addresses, never as one tree (rule P4)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lxml import etree

from tasks.pipeline.adapters.base import CutOff, WrongShape
from tasks.pipeline.extract import normalise, parse_date

#: a sitemap may have so many bytes, unpacked
MOST_BYTES = 60_000_000
_BIT = 65_536
_GZIP = b"\x1f\x8b"
#: what may stand in front of a document, though it must not
_BEFORE = b"\xef\xbb\xbf \t\r\n"
_ROOT = re.compile(rb"<(?:[\w.-]+:)?(?:urlset|sitemapindex)[\s>/]")
#: the protocol allows so many files in an index
MOST_IN_INDEX = 50_000


@dataclass(frozen=True)
class Entry:
    """An address, with what a sitemap says of it."""

    url: str
    changed_at: datetime | None = None
    published_at: datetime | None = None
    title: str = ""


@dataclass(frozen=True)
class Part:
    """Some entries of a file; `is_index`: they are files themselves; `has_rest`: more follow in this file."""

    entries: tuple[Entry, ...]
    is_index: bool
    has_rest: bool


def read_part(body: bytes, start: int, count: int) -> Part:
    """Return up to `count` entries of a file from number `start` on; of an index all of them in one.

    Raises WrongShape if it is no sitemap or too large, CutOff if its end is missing.
    """
    head = next(_bits(body), b"").lstrip(_BEFORE)
    if not head:
        raise WrongShape("an empty file")
    if not head.startswith(b"<"):
        return _of_lines(body, start, count)
    entries: list[Entry] = []
    is_index = False
    for number, element in enumerate(_elements(body)):
        if number == 0 and (is_index := _local(element) == "sitemap"):
            start, count = 0, MOST_IN_INDEX
        if number >= start + count:
            return Part(tuple(entries), is_index, True)
        if number >= start and (entry := _entry(element)) is not None:
            entries.append(entry)
        _forget(element)
    return Part(tuple(entries), is_index, False)


def _bits(body: bytes) -> Iterator[bytes]:
    """Yield a file unpacked, a bit at a time."""
    if not body.startswith(_GZIP):
        if len(body) > MOST_BYTES:
            raise WrongShape(f"more than {MOST_BYTES} bytes")
        yield from (body[at : at + _BIT] for at in range(0, len(body), _BIT))
        return
    packed, unpacked = zlib.decompressobj(wbits=31), 0
    waiting = body
    try:
        while waiting and not packed.eof:
            bit = packed.decompress(waiting, _BIT)
            waiting = packed.unconsumed_tail
            unpacked += len(bit)
            if unpacked > MOST_BYTES:
                raise WrongShape(f"more than {MOST_BYTES} bytes when unpacked")
            yield bit
    except zlib.error as error:
        raise WrongShape(f"cannot be unpacked: {error}") from error
    if not packed.eof:
        raise CutOff("the packed file has no end")


def _elements(body: bytes) -> Iterator[Any]:
    """Yield the elements of the entries; raises WrongShape or CutOff."""
    # entities are not resolved and nothing is loaded: a file from outside decides neither memory nor connections
    parser = etree.XMLPullParser(events=("end",), tag=("{*}url", "{*}sitemap"), resolve_entities=False, no_network=True,
                                 load_dtd=False)
    is_first = True
    try:
        for bit in _bits(body):
            if is_first and not _ROOT.search(bit):
                raise WrongShape(f"no sitemap: {bit[:80]!r}")
            parser.feed(bit.lstrip(_BEFORE) if is_first else bit)
            is_first = False
            for _event, element in parser.read_events():
                if element.getparent().getparent() is None:
                    yield element
        _close(parser)
    except etree.XMLSyntaxError as error:
        raise WrongShape(f"no XML: {error}") from error


def _close(parser: Any) -> None:
    """End the document: all of it was well-formed so far, so what is missing is its end."""
    try:
        parser.close()
    except etree.XMLSyntaxError as error:
        raise CutOff(f"the file has no end: {error}") from error


def _entry(element: Any) -> Entry | None:
    texts: dict[str, str] = {}
    for child in element:
        texts.setdefault(_local(child), (child.text or "").strip())
        if _local(child) == "news":
            texts.update({f"news {_local(one)}": (one.text or "").strip() for one in child})
    if not texts.get("loc"):
        return None
    return Entry(texts["loc"], parse_date(texts.get("lastmod")), parse_date(texts.get("news publication_date")),
                 normalise(texts.get("news title", "")))


def _forget(element: Any) -> None:
    """Drop an entry that was read, and what stood before it: the tree stays small."""
    element.clear()
    parent = element.getparent()
    while parent[0] is not element:
        del parent[0]


def _local(element: Any) -> str:
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def _of_lines(body: bytes, start: int, count: int) -> Part:
    lines = [line.strip() for line in b"".join(_bits(body)).decode("utf-8-sig", "replace").splitlines() if line.strip()]
    if not all(line.startswith(("http://", "https://")) for line in lines):
        raise WrongShape("neither XML nor lines of addresses")
    return Part(tuple(Entry(line) for line in lines[start : start + count]), False, len(lines) > start + count)
