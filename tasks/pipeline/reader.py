"""Reads one list page or one article: up to three tries at interval pace, each answer judged first (rules C1, P3, P4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from config.errors import PermanentJobError
from tasks.pipeline.adapters.base import (
    Adapter,
    ArticleParts,
    CutOff,
    Item,
    Keeping,
    ListPage,
    NoSuchList,
    WrongShape,
)
from tasks.pipeline.extract import normalise
from tasks.pipeline.fetcher import Fetcher, FetchFailed
from tasks.pipeline.firewall import Firewall
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.ports import Gate, Journal, Validators
from tasks.pipeline.robots import HostUnreachable, Robots
from tasks.pipeline.target import TargetSpec
from tasks.pipeline.urls import host_key

TRIES = 3
NOTHING = Validators()
_NOT_MODIFIED = 304
#: a later try may succeed
_TRANSIENT = frozenset({"timeout", "reset", "unreachable", "truncated", "malformed", "undecodable"})
#: so much of a row's title must stand on the article's page
_TITLE_CHARS = 12

T = TypeVar("T")


class Unchanged(Exception):
    """A list page says that it is as it was when a crawl that ended complete has read it."""


class Unread(Exception):
    """A page or an item could not be read.

    `again`: another try may help now. `settled`: it will stay so (gone, forbidden, robots), which makes no crawl
    partial. `status` is the answer's, None without one.
    """

    def __init__(self, reason: str, *, again: bool = False, settled: bool = False, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.again, self.settled, self.status = reason, again, settled, status


@dataclass(frozen=True)
class ReadItem:
    """An article that was read; `is_twin`: its body is another article's, which the next answer has to clear up.

    `parts` None: its redirect leads out of the group, to `page.location`, or it is `unchanged` since it was stored.
    """

    page: FetchedPage
    parts: ArticleParts | None
    is_twin: bool = False
    unchanged: bool = False


class Reader:
    """The reading side of one walk; raises HostCooldown at a block, and sends nothing more then."""

    def __init__(
        self, spec: TargetSpec, adapter: Adapter, options: Any, fetcher: Fetcher, journal: Journal, gate: Gate
    ) -> None:
        self._spec, self._adapter, self._options = spec, adapter, options
        self._fetcher, self._journal = fetcher, journal
        self.scope = spec.scope
        self.firewall = Firewall(spec, lone_403_is_weak=journal.is_lone_403_weak())
        self.robots = Robots(fetcher, journal, gate, spec, self.firewall)
        #: bytes received, over all pages and tries
        self.received = 0
        #: the list page of which only a part was walked so far
        self._unfinished: FetchedPage | None = None

    def list_page(
        self, url: str, kept: Mapping[str, Any] | None = None, since: Validators = NOTHING
    ) -> tuple[FetchedPage, ListPage]:
        """Return a list page, fetched and parsed; raises Unread, or PermanentJobError if robots.txt forbids it.

        The next part of the file that was read last is not fetched again. Raises Unchanged if the page is as it was
        when it gave the validators `since`.
        """
        begun, self._unfinished = self._unfinished, None
        if begun is not None and begun.url == url:
            page, (rest, trouble) = begun, self._parsed(lambda: self._listing(begun, kept))
            if rest is None:
                begun.close()
                raise Unread(trouble)
            listing = rest
        else:
            if begun is not None:
                begun.close()
            self.admit(url)
            page, listing = _tries(lambda: self._list_once(
                url, lambda page: self._listing(page, kept), lambda listing: bool(listing.items) or listing.goes_on, since,
                in_pieces=getattr(self._adapter, "reads_in_pieces", False)))
        if listing.has_rest:
            self._unfinished = page
        else:
            page.close()
        return page, listing

    def holds(self, url: str) -> bool:
        """Tell whether the next part of what was read last is there: no request is needed for it."""
        return self._unfinished is not None and self._unfinished.url == url

    def close(self) -> None:
        """Give up the list page of which only a part was walked."""
        if self._unfinished is not None:
            self._unfinished.close()

    def learned(self, url: str, kept: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what an adapter that prepares keeps behind the page at `url`; raises as `list_page` does."""
        adapter = self._adapter
        assert isinstance(adapter, Keeping)
        self.admit(url)
        if urlsplit(url).path == "/robots.txt":
            return adapter.learn(self.robots.page(url), self._options, kept)
        return _tries(lambda: self._list_once(
            url, lambda page: adapter.learn(page, self._options, kept), lambda _learned: True))[1]

    def admit(self, url: str) -> None:
        """Ask robots.txt about a list page; raises PermanentJobError if it forbids it, Unread if it does not answer, or
        if the page lies where the crawl may not go.
        """
        if not self.scope.covers(url):
            raise Unread(f"{host_key(url)} lies outside of the group and of the target's allowed hosts")
        if not _tries(lambda: self.allowed(url)):
            raise PermanentJobError(f"robots.txt of {host_key(url)} disallows the list page {url}")

    def _listing(self, page: FetchedPage, kept: Mapping[str, Any] | None) -> ListPage:
        if isinstance(self._adapter, Keeping):
            return self._adapter.read_list(page, self._options, kept or {})
        return self._adapter.parse_list(page, self._options)

    def allowed(self, url: str) -> bool:
        """Tell whether robots.txt allows a URL; raises Unread if its host does not answer at all."""
        try:
            return self.robots.allowed(url)
        except HostUnreachable as error:
            raise Unread(str(error), again=True) from error

    def item(self, item: Item, since: Validators = NOTHING) -> ReadItem:
        """Return an article, fetched and parsed, or that it is as it was when it gave `since`; raises Unread."""
        return _tries(lambda: self._item_once(item, since))

    def _list_once(
        self, url: str, parse: Callable[[FetchedPage], T], has_expected: Callable[[T], bool],
        since: Validators = NOTHING, *, in_pieces: bool = False,
    ) -> tuple[FetchedPage, T]:
        page = self._fetch(url, getattr(self._adapter, "max_list_bytes", None), since, in_pieces=in_pieces)
        try:
            return page, self._judged(page, url, parse, has_expected, since)
        except BaseException:
            page.close()
            raise

    def _judged(
        self, page: FetchedPage, url: str, parse: Callable[[FetchedPage], T], has_expected: Callable[[T], bool],
        since: Validators,
    ) -> T:
        """Return what an adapter makes of a list page that has come, unless the firewall speaks in it."""
        if page.status == _NOT_MODIFIED and since != NOTHING:
            self.firewall.judge(page, has_expected=True)
            raise Unchanged(url)
        if page.is_success:
            self._journal.list_answered(url)
        if page.stopped:
            raise Unread(f"redirects to {page.location} ({page.stopped})", status=page.status)
        listing, trouble = self._parsed(lambda: parse(page)) if page.is_success else (None, "")
        verdict = self.firewall.judge(page, has_expected=listing is not None and has_expected(listing))
        if verdict is None and listing is not None and not page.body.strip():
            listing, trouble = None, "wrong shape: an empty body"
        if verdict is None and listing is not None:
            return listing
        trouble = trouble or f"status {page.status}"
        raise Unread(trouble, again=_may_pass(page.status) or verdict is not None, status=page.status)

    def _parsed(self, parse: Callable[[], T]) -> tuple[T | None, str]:
        """Return what an adapter makes of a page, or None and why it makes nothing of it."""
        try:
            return parse(), ""
        except NoSuchList as error:
            raise PermanentJobError(f"{self._spec.target_code}: {error}") from error
        except CutOff as error:
            return None, f"cut off: {error}"
        except WrongShape as error:
            return None, f"wrong shape: {error}"
        except Exception as error:
            return None, _stumbled(error)

    def _item_once(self, item: Item, since: Validators) -> ReadItem:
        page = self._fetch(item.url, since=since)
        if page.status == _NOT_MODIFIED and since != NOTHING:
            self.firewall.judge(page, has_expected=True)
            return ReadItem(page, None, unchanged=True)
        if page.stopped:
            if page.stopped == "outside":
                return ReadItem(page, None)
            raise Unread(f"{page.stopped}: redirects to {page.location}", settled=True, status=page.status)
        if page.status == 403 and self._journal.forbidden(item.url):
            self._journal.mark_forbidden(item.url)
            raise Unread("forbidden: 403 again while its list page answers", settled=True, status=403)
        parts, trouble = self._parse(page, item)
        verdict = self.firewall.judge(page, has_expected=_has_expected(page, item, parts), is_article=True)
        is_twin = verdict is not None and verdict.rule == "twin_body"
        if verdict is not None and not is_twin:
            raise Unread(f"status {page.status}, {verdict.rule}", again=page.status != 403, status=page.status)
        if page.status in (404, 410):
            raise Unread(f"gone: status {page.status}", settled=True, status=page.status)
        if not page.is_success:
            raise Unread(f"status {page.status}", again=page.status >= 500, status=page.status)
        if parts is None:
            raise Unread(trouble, settled=trouble.startswith("not a page"), status=page.status)
        return ReadItem(page, parts, is_twin)

    def _parse(self, page: FetchedPage, item: Item) -> tuple[ArticleParts | None, str]:
        if not page.is_success:
            return None, ""
        if page.body and not page.is_markup and "json" not in page.content_type:
            return None, f"not a page but {page.content_type or 'something without a type'}"
        parts, trouble = self._parsed(lambda: self._adapter.parse_article(page, item, self._options))
        if parts is None:
            return None, trouble
        return (parts, "") if normalise(parts.text) else (None, "no readable text")

    def _fetch(
        self, url: str, max_bytes: int | None = None, since: Validators = NOTHING, *, in_pieces: bool = False
    ) -> FetchedPage:
        try:
            page = self._fetcher.fetch(url, scope=self.scope, max_bytes=max_bytes, inspect=self._inspect,
                                       conditions=since.headers, in_pieces=in_pieces)
        except FetchFailed as error:
            self.firewall.judge_failure(error)
            raise Unread(str(error), again=error.kind in _TRANSIENT, settled=error.kind == "private") from error
        self.received += page.received
        return page

    def _inspect(self, hop: FetchedPage) -> str:
        """Judge a redirect before it is followed, and ask robots.txt about where it leads."""
        self.firewall.judge_hop(hop)
        return "" if self.allowed(hop.location) else "robots"


def _tries(once: Callable[[], T]) -> T:
    """Try up to three times; the gate keeps the pace. Raises the last Unread."""
    for left in range(TRIES - 1, -1, -1):
        try:
            return once()
        except Unread as unread:
            if not unread.again or left == 0:
                raise
    raise AssertionError("unreachable")


def _stumbled(error: Exception) -> str:
    """Tell of a page that an adapter could not cope with: one such page must not end the crawl of all others."""
    return f"the adapter failed: {type(error).__name__}: {error}"[:500]


def _may_pass(status: int) -> bool:
    """Tell whether a list page with this answer may be itself on the next try: errors of the server, wrong shapes."""
    return status >= 500 or 200 <= status < 300


def _has_expected(page: FetchedPage, item: Item, parts: ArticleParts | None) -> bool:
    """Tell whether an article's page holds what was expected: its text, or at least the title that led there."""
    if parts is None:
        return False
    if parts.found is not None:
        return parts.found
    title = "".join(normalise(item.title).rstrip(".…").split())[:_TITLE_CHARS]
    return bool(title) and title in "".join(page.text.split())
