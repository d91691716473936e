"""Reads sitemap files piece by piece: gzip or not, XML or lines of addresses (rule P4).

Neither the file nor a tree of it is ever in memory: pieces go in at one end, entries come out at the other, and what
the parser says beside them is dropped as it comes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import Any, BinaryIO
from xml.parsers import expat

from tasks.pipeline.adapters.base import CutOff, WrongShape
from tasks.pipeline.charset import decode
from tasks.pipeline.extract import normalise, parse_date
from tasks.pipeline.pieces import unpacked

#: a sitemap may have so many bytes, unpacked
MOST_BYTES = 60_000_000
#: what may stand in front of a document, though it must not
_BEFORE = b"\xef\xbb\xbf \t\r\n"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_LINE_ENDS = re.compile(r"[\r\n]+")
#: files that say so hold more characters than these have
_TOO_SMALL = frozenset({"gb2312", "gbk"})
_WANTED, _WANTED_OF_NEWS = frozenset({"loc", "lastmod"}), frozenset({"publication_date", "title"})
#: the protocol allows so many files in an index, and addresses of a fourth of this
MOST_IN_INDEX, _MOST_CHARS = 50_000, 8_192
#: the parser holds every name, and each piece of markup until its end has come
_MOST_NAMES, _MOST_HELD = 1_000, 1_000_000
#: how a well-formed beginning ends
_CUT_OFF = frozenset(expat.errors.codes[text] for text in (
    expat.errors.XML_ERROR_NO_ELEMENTS, expat.errors.XML_ERROR_UNCLOSED_TOKEN, expat.errors.XML_ERROR_PARTIAL_CHAR,
    expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION, expat.errors.XML_ERROR_ASYNC_ENTITY))


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


class SitemapFile:
    """A file that is read from its beginning to its end; `at` is the number of the entry that comes next.

    `max_bytes` is its limit when unpacked, `content_type` what the server called it.
    """

    def __init__(self, source: BinaryIO, content_type: str = "", max_bytes: int = MOST_BYTES) -> None:
        self._rows = _Rows()
        self._entries = _entries(unpacked(source, max_bytes), self._rows, content_type)
        #: read already, to know that something follows
        self._ahead: list[Entry | None] = []
        self.at = 0

    def skip(self, count: int) -> None:
        """Pass entries by; raises as `part` does."""
        self._take(count)

    def part(self, count: int) -> Part:
        """Return the next entries, at most `count`; of an index all of them.

        Raises WrongShape if it is no sitemap or too large, CutOff if its end is missing.
        """
        if not self._ahead:
            self._ahead = list(islice(self._entries, 1))
        found = self._take(MOST_IN_INDEX if self._rows.is_index else count)
        self._ahead += islice(self._entries, 1 - len(self._ahead))
        return Part(tuple(entry for entry in found if entry is not None), bool(self._rows.is_index), bool(self._ahead))

    def _take(self, count: int) -> list[Entry | None]:
        found = self._ahead[:count]
        del self._ahead[:count]
        found += islice(self._entries, count - len(found))
        self.at += len(found)
        return found


def _entries(pieces: Iterator[bytes], rows: _Rows, content_type: str) -> Iterator[Entry | None]:
    """Yield the entries of a file, None for one without an address."""
    head = b""
    for piece in pieces:
        if head := piece if piece.startswith(_WIDE) else piece.lstrip(_BEFORE):
            break
    if not head:
        raise WrongShape("an empty file")
    if head.startswith((b"<", *_WIDE)):
        yield from _of_xml(head, pieces, rows, content_type)
    else:
        yield from _of_lines(head, pieces)


def _of_xml(piece: bytes, pieces: Iterator[bytes], rows: _Rows, content_type: str) -> Iterator[Entry | None]:
    decoder = codecs.getincrementaldecoder(_charset(piece, content_type))("strict")
    parser = rows.parser()
    fed = 0
    try:
        for number, one in enumerate(chain((piece,), pieces)):
            if number > 1 and not rows.has_begun:
                raise WrongShape("no sitemap: nothing but a preamble")
            text = decoder.decode(one) if number else decoder.decode(one).lstrip("\ufeff \t\r\n")
            fed += len(text.encode())
            parser.Parse(text)
            if fed - parser.CurrentByteIndex > _MOST_HELD:
                raise WrongShape("a single piece of markup is too long")
            yield from rows.handed_on()
    except (expat.ExpatError, UnicodeError) as error:
        # what stands in front of the fault was read well
        yield from rows.handed_on()
        raise WrongShape(f"no XML: {error}") from error
    try:
        parser.Parse(decoder.decode(b"", final=True), True)
    except expat.ExpatError as error:
        if error.code not in _CUT_OFF:
            raise WrongShape(f"no XML: {error}") from error
        raise CutOff(f"the file has no end: {error}") from error
    except UnicodeError as error:
        raise CutOff(f"the file has no end: {error}") from error
    yield from rows.handed_on()


def _charset(head: bytes, content_type: str) -> str:
    """Return the charset to read a file with, judged by its first piece up to the last element that is whole."""
    found = decode(head[: head.rfind(b"<")] or head, content_type)[1]
    return "gb18030" if found.lower() in _TOO_SMALL else found


class _Rows:
    """What the parser tells of: gathers the texts of one entry after the other, and forgets everything else."""

    def __init__(self) -> None:
        self.has_begun = False
        #: what the first entry is: an address of a file, or of a page
        self.is_index: bool | None = None
        self._depth = 0
        self._done: list[Entry | None] = []
        self._texts: dict[str, str] = {}
        #: the entry that is open, the element of it whose text comes, and that text so far
        self._is_in_entry = self._is_in_news = False
        self._names: set[str] = set()
        self._name = ""
        self._text: list[str] = []
        self._length = 0

    def handed_on(self) -> list[Entry | None]:
        """Return the entries that are complete, each once."""
        done, self._done = self._done, []
        return done

    def parser(self) -> Any:
        """Return a parser that tells what it reads to this object."""
        # a table of names would grow with the file
        parser = expat.ParserCreate("utf-8", None, None)
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.EntityDeclHandler = self._data, self._declared
        return parser

    def _declared(self, name: str, _is_parameter: bool, value: str | None, *_where: str | None) -> None:
        """Hear of an entity. Those of other files are never loaded; a file's own could make it any size."""
        if value is not None:
            raise WrongShape(f"no sitemap: it declares the entity {name[:80]}")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        """Hear that an element begins; raises WrongShape at the root of another document."""
        self._keep()
        self._names.update((tag, *attributes))
        if len(self._names) > _MOST_NAMES:
            raise WrongShape("no sitemap: too many names of elements and attributes")
        self._depth += 1
        local = _local(tag)
        if self._depth == 1:
            if local not in ("urlset", "sitemapindex"):
                raise WrongShape(f"no sitemap but <{local[:80]}>")
            self.has_begun = True
        elif self._depth == 2:
            self._is_in_entry, self._texts = local in ("url", "sitemap"), {}
            if self._is_in_entry and self.is_index is None:
                self.is_index = local == "sitemap"
        elif self._is_in_entry and self._depth == 3:
            self._name, self._is_in_news = local if local in _WANTED else "", local == "news"
        elif self._is_in_news and self._depth == 4:
            self._name = f"news {local}" if local in _WANTED_OF_NEWS else ""

    def _data(self, text: str) -> None:
        """Hear some of the text of the element that began last."""
        if self._name:
            self._length += len(text)
            # what is too long for an address or a title is none
            if self._length > _MOST_CHARS:
                self._text = []
            else:
                self._text.append(text)

    def _end(self, _tag: str) -> None:
        """Hear that an element ends."""
        self._keep()
        if self._depth == 2 and self._is_in_entry:
            self._done.append(_entry(self._texts))
            self._is_in_entry = False
        elif self._depth == 3:
            self._is_in_news = False
        self._depth -= 1

    def _keep(self) -> None:
        """Keep the text of an element as it stands in front of its first child, or of its end."""
        if self._name:
            self._texts.setdefault(self._name, "".join(self._text).strip())
        self._name, self._text, self._length = "", [], 0


def _entry(texts: dict[str, str]) -> Entry | None:
    if not texts.get("loc"):
        return None
    return Entry(texts["loc"], parse_date(texts.get("lastmod")), parse_date(texts.get("news publication_date")),
                 normalise(texts.get("news title", "")))


def _local(tag: str) -> str:
    return tag.rpartition(":")[2].lower()


def _of_lines(head: bytes, pieces: Iterator[bytes]) -> Iterator[Entry]:
    decoder, rest = codecs.getincrementaldecoder("utf-8")("replace"), ""
    for piece in chain((head,), pieces):
        *lines, rest = _LINE_ENDS.split(rest + decoder.decode(piece))
        yield from _addresses(lines)
        if len(rest) > _MOST_CHARS:
            raise WrongShape("neither XML nor lines of addresses")
    yield from _addresses([rest + decoder.decode(b"", final=True)])


def _addresses(lines: list[str]) -> Iterator[Entry]:
    for line in filter(None, map(str.strip, lines)):
        if not line.startswith(("http://", "https://")):
            raise WrongShape("neither XML nor lines of addresses")
        yield Entry(line)
