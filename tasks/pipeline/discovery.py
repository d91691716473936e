"""Finds pages of a site that look like lists of articles and belong to no target of it (rule S7).

It reads the site's home page and the first list pages of its targets, and then some of the pages that these link to,
never more than `MOST_PAGES` in all: another time it draws others. Links are followed one step, and inside the rate group
alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from tasks.pipeline.adapters import find
from tasks.pipeline.adapters.base import Keeping
from tasks.pipeline.extract import normalise
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.ports import Gate
from tasks.pipeline.selectors import Document, text_of
from tasks.pipeline.urls import Scope, canonical
from tasks.pipeline.visit import NoAnswer, Visitor

#: pages that one discovery of a site asks for, the home page and these many lists of targets among them
MOST_PAGES, MOST_LISTS = 20, 5
#: so many articles of one kind make a list; so long are titles of articles, at least, and names of lists, at most
LEAST_ARTICLES, TITLE_CHARS, NAME_CHARS = 5, 8, 40
#: so many numbered pages of a target's list are known for its own; so many links wait to be looked at
_PAGES_OF_TARGET, _MOST_LINKS = 50, 500
_DIGITS = re.compile(r"\d+")
_FILES = re.compile(r"\.(?:pdf|docx?|xlsx?|pptx?|zip|rar|7z|gz|jpe?g|png|gif|svg|mp[34]|css|js|xml|json|apk|exe)$", re.I)


class Link(NamedTuple):
    """A link of a page inside the group: canonical URL, and what a reader sees of it."""

    url: str
    text: str


@dataclass
class Search:
    """How far a discovery is; JSON-able by `document`, so that an attempt that is parked goes on where it was."""

    starts: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    found: int = 0

    def document(self) -> dict[str, Any]:
        """Return the JSON-able form."""
        return {"starts": self.starts, "asked": self.asked, "links": self.links, "found": self.found}

    @classmethod
    def restored(cls, document: Mapping[str, Any]) -> Search:
        """Return the search of which `document` is the form; an empty one is a new search."""
        return cls(list(document.get("starts", ())), list(document.get("asked", ())), dict(document.get("links", {})),
                   int(document.get("found", 0)))


@dataclass(frozen=True)
class Ground:
    """What is known of the site: its home, its targets' lists, articles and candidates that are stored.

    `lists` are the targets' first list pages, `own` all addresses that are known for list pages of a target.
    `stored` answers which URLs are articles of a target; `candidates` are known ones: url → {"title", "links"}.
    """

    home: str
    lists: Sequence[str]
    own: Collection[str]
    stored: Callable[[Sequence[str]], set[str]]
    candidates: Mapping[str, Mapping[str, Any]]


def lists_of(targets: Sequence[tuple[str, Mapping[str, Any]]], base_url: str) -> tuple[list[str], set[str]]:
    """Return the first list page of each target (adapter, options), and all that are known for a target's own.

    Adapters that have to learn something first, and options that cannot be read, give none.
    """
    firsts, own = list[str](), set[str]()
    for name, given in targets:
        try:
            adapter = find(name)
            options = adapter.Options.model_validate(dict(given))
            if isinstance(adapter, Keeping):
                continue
            addresses = [address for page in range(1, _PAGES_OF_TARGET + 1)
                         if (address := adapter.list_url(page, options, {})) is not None]
            urls = [canonical(address, base_url) for address in addresses]
        except (LookupError, ValueError):
            continue
        firsts += urls[:1]
        own.update(urls)
    return list(dict.fromkeys(firsts)), own


def discover(
    ground: Ground, search: Search, visitor: Visitor, gate: Gate, draw: str, keep: Callable[[list[dict[str, Any]]], None]
) -> None:
    """Go on with a search until it is over; `keep` is given what each page brought: ``{"url", "title", "links"}``.

    `draw` decides which links come first. Raises what `Visitor.page` raises but NoAnswer, and what the gate raises at
    its stop points.
    """
    if not search.starts:
        search.starts = list(dict.fromkeys([ground.home, *ground.lists[:MOST_LISTS]]))
    while (url := _next(search, draw)) is not None:
        gate.stop_point()
        rows = _look(url, ground, search, visitor)
        search.found += 0 if url in search.starts else len(rows)
        search.asked.append(url)
        keep(rows)


def _next(search: Search, draw: str) -> str | None:
    if len(search.asked) >= MOST_PAGES:
        return None
    waiting = [url for url in search.starts if url not in search.asked]
    if waiting:
        return waiting[0]
    links = [url for url in search.links if url not in search.asked]
    return min(links, key=lambda url: hashlib.sha256(f"{draw} {url}".encode()).hexdigest(), default=None)


def _look(url: str, ground: Ground, search: Search, visitor: Visitor) -> list[dict[str, Any]]:
    """Ask for one page; returns the candidates that it is or shows."""
    try:
        page = visitor.page(url, expected=lambda page: bool(links_of(page, visitor.scope)))
    except NoAnswer:
        return []
    if not page.is_success or not page.is_markup:
        return []
    links = links_of(page, visitor.scope)
    if url in search.starts:
        # what stands on a target's own list is an article, however few there are
        return _take(links, article_links(links) if url == ground.home else titled(links), ground, search)
    articles = article_links(links)
    stored = ground.stored(sorted(articles)) if articles else set()
    if len(articles) < LEAST_ARTICLES or 2 * len(stored) >= len(articles):
        return []
    return [{"url": url, "title": search.links.get(url) or _title(page), "links": len(articles)}]


def _take(links: Sequence[Link], articles: Collection[str], ground: Ground, search: Search) -> list[dict[str, Any]]:
    """Keep the links that may lead to lists for later; returns the known candidates among them: they are seen again."""
    names = {link.url: link.text for link in links if link.url not in articles and may_be_list(link)
             and link.url not in ground.own and link.url not in search.starts}
    stored = ground.stored(sorted(names)) if names else set()
    again = [{"url": url, **ground.candidates[url]} for url in names if url in ground.candidates]
    for url, text in names.items():
        if url not in stored and url not in ground.candidates and len(search.links) < _MOST_LINKS:
            search.links.setdefault(url, text)
    return again


def links_of(page: FetchedPage, scope: Scope) -> list[Link]:
    """Return the links of a page that lead into the group, each URL once, with the longest text it is linked by."""
    if not page.is_markup:
        return []
    document, found = Document(page.text, page.final_url), dict[str, str]()
    for node in document.root.iterfind(".//a[@href]"):
        address = str(node.get("href")).strip()
        if not address or address.startswith("#"):
            continue
        try:
            url = canonical(address, document.base, page.charset)
        except ValueError:
            continue
        text = normalise(node.get("title") or "") or normalise(text_of(node))
        if scope.covers(url) and len(text) >= len(found.get(url, "")):
            found[url] = text
    return [Link(url, text) for url, text in found.items()]


def article_links(links: Sequence[Link]) -> set[str]:
    """Return the links that look like articles: the largest group of those with long texts that are spelled alike."""
    groups: dict[str, set[str]] = {}
    for url in titled(links):
        folder, _, name = urlsplit(url).path.rpartition("/")
        ending = name.rpartition(".")[2] if "." in name else ""
        groups.setdefault(f"{_DIGITS.sub('#', folder)}/{ending}", set()).add(url)
    largest = max(groups.values(), key=len, default=set[str]())
    return largest if len(largest) >= LEAST_ARTICLES else set()


def titled(links: Sequence[Link]) -> set[str]:
    """Return the links that may be articles: numbered, or named by several words, and with a text as long as a title."""
    return {link.url for link in links
            if len("".join(link.text.split())) >= TITLE_CHARS and _is_numbered(urlsplit(link.url)) and not _FILES.search(
                urlsplit(link.url).path)}


def _is_numbered(parts: SplitResult) -> bool:
    return bool(_DIGITS.search(f"{parts.path}?{parts.query}")) or parts.path.rpartition("/")[2].count("-") > 1


def may_be_list(link: Link) -> bool:
    """Tell whether a link can lead to a list: it has a short name and leads to no file."""
    return 0 < len(link.text) <= NAME_CHARS and not _FILES.search(urlsplit(link.url).path)


def _title(page: FetchedPage) -> str:
    return normalise(Document(page.text, page.final_url).root.findtext(".//title") or "")[:200]
