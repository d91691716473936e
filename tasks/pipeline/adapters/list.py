"""The adapter for ordinary sites: list pages of links, described by CSS or XPath selectors (rule P1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from tasks.pipeline.adapters.base import ArticleParts, CommonOptions, Item, ListPage, WrongShape
from tasks.pipeline.adapters.webpage import article_of, document_of
from tasks.pipeline.extract import normalise, parse_date
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.selectors import Document, Selector, SelectorText, compiled, text_of
from tasks.pipeline.urls import canonical

#: selectors of a row and of the list page; so much of what they find is shown
_IN_ROWS, _ON_PAGE, _SHOWN = ("link", "title", "date", "pinned"), ("next", "total"), 200
_DIGITS = re.compile(r"\d[\d,]*")


class ListOptions(CommonOptions):
    """How a site's lists and articles are read.

    `list_url` may hold ``{page}``: its number is `first_page` on the first page and one more on each further one;
    `first_url` is the first page's address where that differs. Selectors inside `item`: `link`, `title`, `date`,
    `pinned` (it matches on pinned rows). Selectors of the list page: `next`, `total`; of the article: `content`.
    """

    list_url: str = Field(min_length=1)
    item: SelectorText = Field(min_length=1)
    link: SelectorText
    first_page: int = 1
    first_url: str | None = None
    title: SelectorText | None = None
    date: SelectorText | None = None
    content: SelectorText | None = None
    next: SelectorText | None = None
    pinned: SelectorText | None = None
    total: SelectorText | None = None


class ListAdapter:
    """Reads list pages and articles with the selectors of `ListOptions`."""

    name = "list"
    Options = ListOptions

    def list_url(self, page: int, options: ListOptions, state: Mapping[str, Any]) -> str | None:
        """Return the address of a list page: the link that the page before gave, else the numbered address."""
        if page > 1 and (given := state.get("next")):
            return str(given)
        if page == 1 and options.first_url:
            return options.first_url
        if "{page}" in options.list_url:
            return options.list_url.replace("{page}", str(options.first_page + page - 1))
        return options.list_url if page == 1 else None

    def parse_list(self, page: FetchedPage, options: ListOptions) -> ListPage:
        """Return the rows of a list page; raises WrongShape if it is no HTML, or if none of its rows has a link."""
        document = document_of(page)
        nodes = [node for node in compiled(options.item).nodes(document.root) if hasattr(node, "iter")]
        rows = [_item(node, options, document.base, page.charset) for node in nodes]
        if rows and not any(rows):
            raise WrongShape(f"{len(rows)} rows match `item`, but none of them has a `link`")
        next_url, is_last = _next(document, options, page.charset)
        total = _number(compiled(options.total).value(document.root)) if options.total else None
        return ListPage(
            items=tuple(row for row in rows if row is not None), next_url=next_url, is_last=is_last, total=total,
            frame=_frame(document.root, nodes),
        )

    def parse_article(self, page: FetchedPage, item: Item, options: ListOptions) -> ArticleParts:
        """Return title, time and text; the extraction library finds the text that no selector does."""
        return article_of(page, item, options.content)

    def found(self, listed: FetchedPage | None, article: FetchedPage | None, options: ListOptions) -> dict[str, Any]:
        """Return how often each selector matches on a list page, or an article, and what it says first (rule P7)."""
        told: dict[str, Any] = {}
        if listed is not None:
            root = document_of(listed).root
            rows = [node for node in compiled(options.item).nodes(root) if hasattr(node, "iter")]
            told["item"] = {"found": len(rows), "text": normalise(text_of(rows[0]))[:_SHOWN] if rows else ""}
            inside = {name: source for name in _IN_ROWS if (source := getattr(options, name)) is not None}
            told |= {name: _says([_inside(source)] * len(rows), rows) for name, source in inside.items()}
            on_page = {name: source for name in _ON_PAGE if (source := getattr(options, name)) is not None}
            told |= {name: _says([compiled(source)], [root]) for name, source in on_page.items()}
        if article is not None and options.content is not None:
            told["content"] = _says([compiled(options.content)], [document_of(article).root])
        return told


ADAPTER = ListAdapter()


def _says(selectors: list[Selector], roots: list[Any]) -> dict[str, Any]:
    values = [value for selector, root in zip(selectors, roots, strict=True) if (value := selector.value(root)) is not None]
    return {"found": len(values), "text": normalise(values[0])[:_SHOWN] if values else ""}


def _item(node: Any, options: ListOptions, base: str, charset: str) -> Item | None:
    """Read a row; None if it links nowhere that can be fetched (headings, separators, script links)."""
    link = _inside(options.link)
    address = link.link(node)
    if not address or address.startswith("#"):
        return None
    try:
        url = canonical(address, base, charset)
    except ValueError:
        return None
    return Item(
        url=url,
        title=_title(node, options, link),
        published_at=parse_date(_inside(options.date).value(node)) if options.date else None,
        pinned=options.pinned is not None and _inside(options.pinned).first(node) is not None,
    )


def _inside(source: str) -> Selector:
    """Return a selector for use inside a row, where ``//a`` can only mean ``.//a``."""
    return compiled(f".{source}" if source.startswith("//") else source)


def _title(node: Any, options: ListOptions, link: Selector) -> str:
    if options.title is not None:
        return normalise(_inside(options.title).value(node) or "")
    found: Any = link.first(node)
    anchor = found if hasattr(found, "iter") else node
    # Long titles are often cut in the text and whole in the attribute.
    shown, whole = normalise(text_of(anchor)), normalise(anchor.get("title") or "")
    return whole if len(whole) > len(shown) else shown


def _next(document: Document, options: ListOptions, charset: str) -> tuple[str | None, bool | None]:
    if options.next is None:
        return None, None if "{page}" in options.list_url else True
    address = compiled(options.next).link(document.root)
    if not address or address.startswith("#"):
        return None, True
    try:
        return canonical(address, document.base, charset), False
    except ValueError:
        return None, True


def _frame(root: Any, items: list[Any]) -> frozenset[str]:
    """Return the named elements of a page that are not inside its items."""
    inside = {inner for item in items for inner in item.iter()}
    marks = set()
    for element in root.iter():
        name = (element.get("class") or element.get("id")) if isinstance(element.tag, str) else None
        if name and element not in inside:
            marks.add(f"{element.tag}.{normalise(name)}")
    return frozenset(marks)


def _number(text: str | None) -> int | None:
    found = _DIGITS.search(text or "")
    return None if found is None else int(found.group().replace(",", ""))
