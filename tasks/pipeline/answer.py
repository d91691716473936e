"""One answer from the wire: its status and headers at once, its body piece by piece, unpacked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import httpx2

from config.lazy import lazy

#: how a body may be packed, and what the client library unpacks by itself
ASKED_FOR, _UNPACKED = frozenset({"gzip", "deflate"}), frozenset({"gzip", "deflate", "br", "zstd"})


class Answer:
    """A response whose body is still to be read from `pieces`; `close` it, or its connection is never used again.

    To close it gives the connection back if the body was read to its end, and hangs up otherwise.
    """

    def __init__(
        self, status: int, raw_headers: list[tuple[bytes, bytes]], pieces: Iterable[bytes], close: Callable[[], None]
    ) -> None:
        self.status, self.raw_headers, self._pieces, self.close = status, raw_headers, pieces, close
        #: bytes of the body that have come, as they were packed
        self.received = 0

    @lazy
    def headers(self) -> dict[str, str]:
        """The headers by lower-case names; several of one name are joined by a comma and a blank."""
        found: dict[str, str] = {}
        for name, value in self._pairs:
            found[name] = f"{found[name]}, {value}" if name in found else value
        return found

    @lazy
    def _pairs(self) -> list[tuple[str, str]]:
        charset = _charset(self.raw_headers)
        return [(name.decode(charset).lower(), value.decode(charset)) for name, value in self.raw_headers]

    def all_of(self, name: str) -> list[str]:
        """Return the values of each header called `name` (in lower case), in their order."""
        return [value for found, value in self._pairs if found == name]

    def packings(self) -> list[str]:
        """Return how the body is packed, one layer after the other; what cannot be unpacked here is left out."""
        words = (word.strip().lower() for value in self.all_of("content-encoding") for word in value.split(","))
        return [word for word in words if word in _UNPACKED]

    def body(self) -> Iterator[bytes]:
        """Give the body's pieces; raises httpx2.DecodingError, and what the connection raises."""
        pieces = self._packed()
        if not self.packings():
            return pieces
        # the client library's own response unpacks; it is given what it needs for that alone
        headers = [("content-encoding", value) for value in self.all_of("content-encoding")]
        return httpx2.Response(self.status, headers=headers, stream=_Pieces(pieces)).iter_bytes()

    def _packed(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.received += len(piece)
            yield piece


class _Pieces(httpx2.SyncByteStream):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


def _charset(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return what headers are written in: one that holds for all of them."""
    whole = b"".join(name + value for name, value in headers)
    for charset in ("ascii", "utf-8"):
        try:
            whole.decode(charset)
        except UnicodeDecodeError:
            continue
        return charset
    return "iso-8859-1"
