"""What a fetch brings home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from config.lazy import lazy
from tasks.pipeline import spool
from tasks.pipeline.charset import decode
from tasks.pipeline.ports import Validators

#: of a longer body, which is a file, the firewall's signs are looked for in the beginning alone
_MOST_BYTES_JUDGED = 2_000_000
_PACKED = b"\x1f\x8b"


@dataclass(frozen=True)
class FetchedPage:
    """A response with its whole body, decompressed; a long one that is read in pieces has its beginning in `body`, and all
    of it in `file` (see `open`).

    `url` is what was asked for, `final_url` what answered after the redirects, `hops` the URLs on the way. `headers`
    have lower-case names, `cookies` are the names that this response set. If a redirect was not followed, `status`
    is the redirect's, `location` where it led, and `stopped` why it was not (``outside``, ``private``, ``robots``).
    `max_bytes` is how long the body might have been. `reading` is for the adapter that walks a page in parts: what it
    has open between two of them.
    """

    url: str
    final_url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    hops: tuple[str, ...] = ()
    cookies: tuple[str, ...] = ()
    location: str = ""
    stopped: str = ""
    received: int = 0
    file: BinaryIO | None = field(default=None, repr=False, compare=False)
    max_bytes: int | None = None
    reading: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def open(self) -> BinaryIO:
        """Return the whole body for reading from its first byte on; only one reader at a time."""
        return spool.opened(self.body, self.file)

    def close(self) -> None:
        """Give up the file, and what is open of it; the beginning stays."""
        self.reading.clear()
        if self.file is not None:
            self.file.close()

    @property
    def is_success(self) -> bool:
        """Whether the status says that this is the content that was asked for."""
        return 200 <= self.status < 300

    @property
    def validators(self) -> Validators:
        """What it gave for asking again; a page behind redirects gives nothing for the URL that was asked for."""
        if self.hops:
            return Validators()
        return Validators(self.headers.get("etag", ""), self.headers.get("last-modified", ""))

    @property
    def content_type(self) -> str:
        """The media type and its parameters as the server named them."""
        return self.headers.get("content-type", "")

    @lazy
    def decoded(self) -> tuple[str, str]:
        """Text and charset."""
        return decode(self.body, self.content_type)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.decoded[0]

    @property
    def beginning(self) -> str:
        """The text as far as a firewall could speak in it: a packed file has none, and of a huge one it is the start."""
        if self.body.startswith(_PACKED):
            return ""
        if len(self.body) <= _MOST_BYTES_JUDGED:
            return self.text
        return decode(self.body[: spool.BEGINNING], self.content_type)[0]

    @property
    def charset(self) -> str:
        """The charset that the text was read with."""
        return self.decoded[1]

    @property
    def is_markup(self) -> bool:
        """Whether it can be an HTML or XML page; a server that names no type is given the benefit of the doubt."""
        kind = self.content_type.partition(";")[0].strip().lower()
        head = self.body[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
        if kind in ("", "text/plain", "application/octet-stream"):
            return head[:1] == b"<"
        return "html" in kind or "xml" in kind
