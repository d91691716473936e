"""Long files, packed or not, as pieces that are never all in memory (rule P4)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO

from tasks.pipeline.adapters.base import CutOff, WrongShape

_PIECE = 65_536
_GZIP = b"\x1f\x8b"


def unpacked(source: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield a file unpacked, a piece at a time; raises WrongShape if there is too much of it."""
    first = source.read(_PIECE)
    is_packed, length = first.startswith(_GZIP), 0
    for piece in _gunzipped(first, source) if is_packed else _plain(first, source):
        length += len(piece)
        if length > most:
            raise WrongShape(f"more than {most} bytes{' when unpacked' if is_packed else ''}")
        yield piece


def _plain(piece: bytes, source: BinaryIO) -> Iterator[bytes]:
    while piece:
        yield piece
        piece = source.read(_PIECE)


def _gunzipped(waiting: bytes, source: BinaryIO) -> Iterator[bytes]:
    """Yield what gzip has packed; files that were packed one by one and put together are one file."""
    packed = zlib.decompressobj(wbits=31)
    try:
        while waiting := waiting or source.read(_PIECE):
            if piece := packed.decompress(waiting, _PIECE):
                yield piece
            waiting = packed.unconsumed_tail
            if packed.eof:
                waiting = packed.unused_data or source.read(_PIECE)
                if not waiting.startswith(_GZIP):
                    return
                packed = zlib.decompressobj(wbits=31)
    except zlib.error as error:
        raise WrongShape(f"cannot be unpacked: {error}") from error
    raise CutOff("the packed file has no end")
