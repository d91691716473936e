"""What a walk asks of each item of a page, looked up for the whole page at the first question.

Nobody else stores for a target while an attempt of it is current, and every commit of another one is refused (rule J7):
what was looked up holds until this attempt itself writes something, which it tells here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from models.queries import crawling

T = TypeVar("T")


class Ask(Protocol):
    """Reads, as often as it takes."""

    def __call__(self, question: Callable[[Connection], T], /) -> T:
        """Return the answer."""


class Ahead:
    """Answers for one attempt of one target; what does not concern the page's items is asked each time."""

    def __init__(self, ask: Ask, target_code: str) -> None:
        self._ask, self._target = ask, target_code
        self._urls: tuple[str, ...] = ()
        self._page = frozenset[str]()
        self._read_at: dict[str, list[str]] | None = None
        self._failed: set[str] | None = None

    def opened(self, urls: Sequence[str]) -> None:
        """Take the items of the page that is walked next."""
        self._urls = tuple(dict.fromkeys(urls))
        self._page = frozenset(self._urls)
        self.forget()

    def forget(self) -> None:
        """Look up anew: something else was written than a new article."""
        self._read_at = self._failed = None

    def stored(self, url: str, final_url: str, *, is_external: bool) -> None:
        """Take what was just stored."""
        if self._read_at is not None and not is_external and final_url in self._page:
            self._read_at.setdefault(final_url, []).append(url)
        if self._failed is not None:
            self._failed.discard(url)

    def stored_from(self, final_url: str, url: str) -> str | None:
        """Return the URL of another article of the target that was read at `final_url`, None without one."""
        if final_url not in self._page:
            found = self._ask(lambda conn: crawling.read_at(conn, self._target, [final_url]))
        else:
            if self._read_at is None:
                self._read_at = self._ask(lambda conn: crawling.read_at(conn, self._target, self._urls))
            found = self._read_at
        return next((other for other in found.get(final_url, ()) if other != url), None)

    def is_failed(self, url: str) -> bool:
        """Tell whether the item at a URL could not be read so far."""
        if url not in self._page:
            return bool(self._ask(lambda conn: crawling.failed_among(conn, self._target, [url])))
        if self._failed is None:
            self._failed = self._ask(lambda conn: crawling.failed_among(conn, self._target, self._urls))
        return url in self._failed
