"""A body on its way from the wire: short ones in memory, long ones in a temporary file that has no name (rule P4)."""

from __future__ import annotations

import errno
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from config.errors import Parked

#: so much of a body is held in memory; of a longer one this much is its beginning, by which it is judged
IN_MEMORY, BEGINNING = 1_000_000, 100_000
#: the disk is looked at again after so long
_AGAIN_SEC = 60.0
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


def no_room(detail: object) -> Parked:
    """Return what a crawl stops with that has no room for its temporary files: it goes on when there is some (D5)."""
    return Parked("storage", _AGAIN_SEC, f"temporary files: {detail}")


@contextmanager
def _with_room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise no_room(error) from error


class Spool:
    """Takes a body piece by piece. With `to_file`, what is longer than `IN_MEMORY` goes to a file.

    The file is gone as soon as it is closed, or its process ends in whatever way: it never has a name, or loses it at once.
    """

    def __init__(self, *, to_file: bool) -> None:
        self._to_file = to_file
        self._held = bytearray()
        self.size = 0
        self.file: BinaryIO | None = None

    def write(self, piece: bytes) -> None:
        """Take the next piece; raises Parked if the disk is full."""
        self.size += len(piece)
        if self._to_file and self.size > IN_MEMORY:
            with _with_room():
                self._write_to_file(piece)
        else:
            self._held += piece

    def _write_to_file(self, piece: bytes) -> None:
        if self.file is None:
            self.file = tempfile.TemporaryFile(prefix="ratelane-")  # noqa: SIM115 - whoever reads it closes it
            self.file.write(self._held)
            self._held += piece[:BEGINNING]
            del self._held[BEGINNING:]
        self.file.write(piece)

    def body(self, most: int | None = None) -> bytes:
        """Return the body, at most `most` bytes of it; of one in a file, which is complete then, its beginning."""
        if self.file is not None:
            with _with_room():
                self.file.flush()
        return bytes(memoryview(self._held)[:most])

    def close(self) -> None:
        """Give the file up; what has not reached it is not wanted."""
        if self.file is not None:
            with suppress(OSError):
                self.file.close()


def opened(body: bytes, file: BinaryIO | None) -> BinaryIO:
    """Return a body, or the file that holds it, for reading from its first byte on."""
    if file is None:
        return io.BytesIO(body)
    file.seek(0)
    return file
