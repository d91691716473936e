"""What all pages share: a part that is made anew every second or two, and sent only where it has changed.

The markup of the live part holds moments, never seconds that pass: browsers count those. So it stays the same as long as
the database does, and a browser that has it already is answered 304, in a hundred bytes.
"""

from __future__ import annotations

import gzip
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from zoneinfo import ZoneInfo

from tornado.web import HTTPError

from config.errors import BadInput
from console.flower import reads
from console.flower.desk import SHARED_SEC
from console.flower.handlers import PageHandler
from console.flower.pages import words
from console.flower.pages.words import Words

#: the query argument that asks for the live part alone
PART = "live"
#: what a browser may do with our pages: whatever a site calls its articles, no script of its own runs, nobody else is asked
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
          "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
_WORTH_PACKING = 1_400
_FUNCTIONS = {name: getattr(words, name) for name in (
    "address", "brief", "cause", "lines", "number", "pace", "part", "percent", "query", "readable", "shortfalls", "size",
    "spark")}


@dataclass(frozen=True)
class _Live:
    """The live part as the frame holds it: where it comes from, when it was read, and what the time is, in seconds."""

    markup: bytes
    version: str
    read: str
    clock: str
    every_ms: int
    source: str


class LivePage(PageHandler, ABC):
    """A page of ours: `template` is its frame, `live_template` the part that is kept up to date.

    A subclass answers `view` with the values of both; ``at`` and ``age_sec`` in them say what moment they are of.
    """

    template, live_template = "ratelane.html", ""
    title, eyebrow = "", ""

    def set_default_headers(self) -> None:
        """Let browsers run and fetch nothing but ours."""
        super().set_default_headers()
        self.set_header("Content-Security-Policy", POLICY)

    @abstractmethod
    async def view(self, *names: str) -> dict[str, Any]:
        """Return what the templates of the page show; raises HTTPError for what there is not."""

    async def read(self, read: Callable[..., dict[str, Any]], **options: Any) -> dict[str, Any]:
        """Return what is read for everybody who looks at the same; raises the 400 that says what cannot be read."""
        try:
            return await self.shared(read, **options) or {}
        except BadInput as error:
            raise HTTPError(400, str(error)) from error

    async def get(self, *names: str) -> None:
        """Send the page, or its live part if that has changed."""
        if any("\0" in name for name in names):
            raise HTTPError(404, "no name has such a character")
        head = await self.read(reads.head)
        view = await self.view(*names)
        older = min((head, view), key=lambda one: datetime.fromisoformat(one["at"]))
        values = self.values(head, datetime.fromisoformat(view["at"])) | view
        markup = self.render_string(self.live_template, **values)
        version = f'"{sha256(markup).hexdigest()[:20]}"'
        read_at = datetime.fromisoformat(older["at"]).timestamp()
        clock = read_at + older["age_sec"]
        if self.get_query_argument(PART, ""):
            self.set_header("X-Ratelane-Read", f"{read_at:.3f}")
            self.set_header("X-Ratelane-Clock", f"{clock:.3f}")
            self._send_part(markup, version)
            return
        self.render(self.template, **values, live=_Live(
            markup, version, f"{read_at:.3f}", f"{clock:.3f}", round(SHARED_SEC * 1000), self.here(**{PART: "1"})))

    def values(self, head: Mapping[str, Any], at: datetime) -> dict[str, Any]:
        """Return what every template of ours may use; `at` is the moment of what the page shows."""
        return _FUNCTIONS | {
            "words": Words(ZoneInfo(head["zone"]), at), "head": head, "counts": head["counts"], "fleet": head["fleet_pause"],
            "title": self.title, "heading": self.title, "eyebrow": self.eyebrow, "tab": self.tab, "may_act": self.may_act,
            "page": self.root, "here": self.here, "asset": self.asset, "api": self.root("/api/ratelane")}

    def here(self, **changed: str | int | None) -> str:
        """Return the address of this page with some of its query arguments changed, or left out (None, "")."""
        kept = {name: values[-1].decode("utf-8", "replace") for name, values in self.request.query_arguments.items()}
        wanted = {name: str(value) for name, value in (kept | {PART: ""} | changed).items() if value not in (None, "")}
        return f"{self.request.path}?{words.query(wanted)}" if wanted else self.request.path

    def compute_etag(self) -> None:
        """Return none: versions are of the live part, before it is packed."""

    def _send_part(self, markup: bytes, version: str) -> None:
        self.set_header("ETag", version)
        if self.request.headers.get("If-None-Match") == version:
            self.set_status(304)
            return
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Vary", "Accept-Encoding")
        if len(markup) > _WORTH_PACKING and "gzip" in self.request.headers.get("Accept-Encoding", ""):
            self.set_header("Content-Encoding", "gzip")
            markup = gzip.compress(markup, 4)
        self.write(markup)
