"""HTTP/1.1 as it goes over a connection: a request out, its answer in. Errors are httpcore2's.

llhttp reads what is written as it should be. Whatever it does not take for the head of a final answer (another protocol,
folded or bare lines, lengths that contradict each other, interim answers, heads without end) h11 reads from its first byte
on and has the last word, so that each odd answer is what it is to the client library, or fails as it does there.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import httpcore2
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from config.clock import monotonic
from tasks.pipeline.answer import Answer

#: after this many idle seconds the site has hung up itself
IDLE_SEC = 60.0
_MOST_IDLE = 10
_READ_BYTES = 65_536
#: so much may come that is neither a whole head nor a piece of a body: what httpcore2 allows h11
_MOST_UNMADE = 100 * 1024
_BEGINNING = (b"HTTP/1.1 ", b"HTTP/1.0 ")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_NAME = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")
_VALUE = re.compile(rb"(?:[^\x00\s]+(?:[ \t]+[^\x00\s]+)*)?")
_Headers = list[tuple[bytes, bytes]]
_Place = tuple[bytes, bytes, int]


class Asked(NamedTuple):
    """A request: where it goes, what ``Host`` says of that (`name`), and its other headers."""

    scheme: bytes
    host: bytes
    port: int | None
    target: bytes
    name: bytes
    headers: _Headers

    def as_library(self) -> httpcore2.Request:
        """Return it as the client library knows it."""
        url = httpcore2.URL(scheme=self.scheme, host=self.host, port=self.port, target=self.target)
        return httpcore2.Request("GET", url, headers=[(b"Host", self.name), *self.headers])


class Wires:
    """A crawl's connections; those that may take another request are kept."""

    def __init__(self, backend: httpcore2.NetworkBackend, context: ssl.SSLContext) -> None:
        self._backend, self._context = backend, context
        self._idle: dict[_Place, _Wire] = {}
        #: the headers that were written last, and how
        self._written: tuple[_Headers, bytes] = ([], b"")

    def ask(self, asked: Asked) -> Answer:
        """Send a request and return the answer as soon as its headers have come; `Answer.close` gives its wire back."""
        if asked.scheme not in (b"http", b"https"):
            raise httpcore2.UnsupportedProtocol(f"no way to speak {asked.scheme.decode('ascii', 'replace')!r}")
        lines = self._lines(asked)
        place = asked.scheme, asked.host, asked.port or (443 if asked.scheme == b"https" else 80)
        kept = self._idle.pop(place, None)
        if kept is not None and not kept.is_good():
            kept.close()
            kept = None
        wire = kept or _Wire(self._connect(*place))
        try:
            return wire.ask(asked, lines, lambda: self._give_back(place, wire))
        except BaseException:
            wire.close()
            raise

    def _lines(self, asked: Asked) -> bytes:
        """Return a request as it is written; raises httpcore2.LocalProtocolError if it held more lines than it has."""
        if self._written[0] is not asked.headers:
            self._written = asked.headers, b"".join(_line(name, value) for name, value in asked.headers)
        if not _TARGET.fullmatch(asked.target):
            raise httpcore2.LocalProtocolError("Illegal target characters")
        return b"GET %b HTTP/1.1\r\n%b%b\r\n" % (asked.target, _line(b"Host", asked.name), self._written[1])

    def _connect(self, scheme: bytes, host: bytes, port: int) -> httpcore2.NetworkStream:
        name = host.decode("ascii")
        stream = self._backend.connect_tcp(name, port)
        if scheme == b"http":
            return stream
        self._context.set_alpn_protocols(["http/1.1"])
        return stream.start_tls(self._context, name)

    def _give_back(self, place: _Place, wire: _Wire) -> None:
        if not wire.rest():
            wire.close()
            return
        if (other := self._idle.pop(place, None)) is not None:
            other.close()
        self._idle[place] = wire
        if len(self._idle) > _MOST_IDLE:
            self._idle.pop(next(iter(self._idle))).close()

    def close(self) -> None:
        """Close every connection that is kept."""
        while self._idle:
            self._idle.popitem()[1].close()


def _line(name: bytes, value: bytes) -> bytes:
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise httpcore2.LocalProtocolError(f"Illegal header {name!r}")
    return b"%b: %b\r\n" % (name, value)


class _Reading:
    """What llhttp has made of an answer so far; it calls the methods that begin with ``on``."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget the answer before."""
        self.headers: _Headers = []
        self.heads, self.pieces = 0, list[bytes]()
        #: the body is whole; and something came behind it
        self.is_over = self.has_more = False

    def on_message_begin(self) -> None:
        self.has_more = self.is_over

    def on_header(self, name: bytes, value: bytes) -> None:
        # those behind the head belong to a body in chunks
        if not self.heads:
            self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        self.heads += 1

    def on_body(self, piece: bytes) -> None:
        if not self.is_over:
            self.pieces.append(piece)

    def on_message_complete(self) -> None:
        self.is_over = True


class _Wire:
    """One connection, which takes one request after the other."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream, self._idle_since = stream, 0.0
        self._reading = _Reading()
        self._parser = HttpResponseParser(self._reading)
        # servers of old pad the length of a chunk with blanks
        self._parser.set_dangerous_leniencies(lenient_spaces_after_chunk_size=True)
        self._stays = self._until_closed = False

    def ask(self, asked: Asked, lines: bytes, give_back: Callable[[], None]) -> Answer:
        """Send a request's `lines` and return the answer, which is closed by `give_back`."""
        try:
            self._stream.write(lines)
        except httpcore2.WriteError:
            # a server may answer and hang up before it has read everything: its answer can still be read
            pass
        self._reading.begin()
        seen = b""
        while not self._reading.heads:
            more = self._stream.read(_READ_BYTES)
            seen += more
            if not (more and seen.startswith(_BEGINNING) and self._takes(more) and len(seen) <= _MOST_UNMADE):
                return self._by_h11(asked, seen)
        status = self._parser.get_status_code()
        if self._reading.heads > 1 or self._reading.has_more or status < 200 or not self._can_frame(status, seen):
            return self._by_h11(asked, seen)
        return Answer(status, self._reading.headers, self._body(), give_back)

    def _takes(self, data: bytes) -> bool:
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            return False
        return True

    def _can_frame(self, status: int, head: bytes) -> bool:
        """Find out where the body ends and whether the connection stays; tells whether it is said plainly."""
        is_chunked = has_length = is_closing = False
        for name, value in self._reading.headers:
            match name.lower():
                case b"transfer-encoding":
                    if is_chunked or value != b"chunked":
                        return False
                    is_chunked = True
                case b"content-length":
                    has_length = True
                case b"connection":
                    is_closing = is_closing or b"close" in value.lower()
        self._until_closed = not (is_chunked or has_length or status in (204, 304))
        self._stays = not (is_closing or self._until_closed) and head.startswith(_BEGINNING[0])
        return True

    def _body(self) -> Iterator[bytes]:
        reading, unmade = self._reading, 0
        while True:
            pieces, reading.pieces = reading.pieces, []
            yield from pieces
            if reading.is_over:
                return
            data = self._stream.read(_READ_BYTES)
            unmade = len(data) if pieces else unmade + len(data)
            if not data:
                if self._until_closed:
                    return
                raise httpcore2.RemoteProtocolError("peer closed connection without sending complete message body")
            if not self._takes(data):
                self._stays = False
                yield from reading.pieces
                if not reading.is_over:
                    raise httpcore2.RemoteProtocolError("illegal chunk")
                return
            if unmade > _MOST_UNMADE and not reading.pieces:
                raise httpcore2.RemoteProtocolError("no end of a chunk's beginning")

    def _by_h11(self, asked: Asked, seen: bytes) -> Answer:
        """Have the client library read what was `seen` and what follows; the connection takes no further request."""
        library = asked.as_library()
        found = httpcore2.HTTP11Connection(library.url.origin, _Replayed(self._stream, seen)).handle_request(library)
        assert isinstance(found.stream, Iterable)
        return Answer(found.status, found.headers, found.stream, self.close)

    def rest(self) -> bool:
        """Tell whether another request may come, and note since when the connection is idle."""
        self._idle_since = monotonic()
        return self._stays and self._reading.is_over and not self._reading.has_more

    def is_good(self) -> bool:
        """Tell whether an idle connection may still be used: nothing comes from it, not even its end."""
        return monotonic() - self._idle_since <= IDLE_SEC and not self._stream.get_extra_info("is_readable")

    def close(self) -> None:
        """Hang up."""
        self._stream.close()


class _Replayed(httpcore2.NetworkStream):
    """A connection over which the request has gone, and whose answer has begun."""

    def __init__(self, inner: httpcore2.NetworkStream, seen: bytes) -> None:
        self._inner, self._seen = inner, seen

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._seen:
            found, self._seen = self._seen[:max_bytes], self._seen[max_bytes:]
            return found
        return self._inner.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write nothing: the request is on its way."""

    def close(self) -> None:
        self._inner.close()
