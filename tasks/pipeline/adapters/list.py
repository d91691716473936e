"""The adapter for ordinary sites: list pages of links, described by CSS or XPath selectors (rule P1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tasks.pipeline.adapters.base import ArticleParts, Item, ListPage, WrongShape
from tasks.pipeline.extract import article_text, normalise, parse_date
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.selectors import Document, Selector, compiled, text_of
from tasks.pipeline.urls import canonical

_DIGITS = re.compile(r"\d[\d,]*")
_META_DATES = ("PubDate", "pubdate", "publishdate", "article:published_time", "og:published_time")
_META_TITLES = ("ArticleTitle", "og:title")


class ListOptions(BaseModel):
    """How a site's lists and articles are read.

    `list_url` may hold ``{page}``: its number is `first_page` on the first page and one more on each further one;
    `first_url` is the first page's address where that differs. Selectors inside `item`: `link`, `title`, `date`,
    `pinned` (it matches on pinned rows). Selectors of the list page: `next`, `total`; of the article: `content`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    list_url: str = Field(min_length=1)
    item: str = Field(min_length=1)
    link: str
    first_page: int = 1
    first_url: str | None = None
    title: str | None = None
    date: str | None = None
    content: str | None = None
    next: str | None = None
    pinned: str | None = None
    total: str | None = None
    max_pages: int | None = Field(default=None, ge=1)

    @field_validator("item", "link", "title", "date", "content", "next", "pinned", "total")
    @classmethod
    def _is_selector(cls, source: str | None) -> str | None:
        if source is not None:
            Selector(source)
        return source


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
        document = _document(page)
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
        document = _document(page)
        chosen = compiled(options.content).value(document.root) if options.content else None
        text = chosen or article_text(page.text)
        return ArticleParts(
            title=item.title or _page_title(document.root),
            published_at=item.published_at or parse_date(_meta(document.root, _META_DATES)),
            text=text,
            found=bool(chosen) if options.content else None,
        )


ADAPTER = ListAdapter()


def _document(page: FetchedPage) -> Document:
    if not page.is_markup:
        raise WrongShape(f"not an HTML page but {page.content_type or 'something without a type'}")
    return Document(page.text, page.final_url)


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


def _meta(root: Any, names: tuple[str, ...]) -> str | None:
    for name in names:
        for element in root.iterfind(".//meta"):
            if name.lower() in ((element.get("name") or "").lower(), (element.get("property") or "").lower()):
                return str(element.get("content") or "")
    return None


def _page_title(root: Any) -> str:
    heading = root.find(".//h1")
    named = _meta(root, _META_TITLES) or (text_of(heading) if heading is not None else "")
    return normalise(named or (root.findtext(".//title") or ""))
