"""What adapters for ordinary web pages share: a page as a tree, and an article with the meta data that pages carry."""

from __future__ import annotations

from typing import Any

from tasks.pipeline.adapters.base import ArticleParts, Item, WrongShape
from tasks.pipeline.extract import article_text, normalise, parse_date
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.selectors import Document, compiled, text_of

_META_DATES = ("PubDate", "pubdate", "publishdate", "article:published_time", "og:published_time")
_META_TITLES = ("ArticleTitle", "og:title")


def document_of(page: FetchedPage) -> Document:
    """Return a page as a tree; raises WrongShape if it is no HTML."""
    if not page.is_markup:
        raise WrongShape(f"not an HTML page but {page.content_type or 'something without a type'}")
    return Document(page.text, page.final_url)


def article_of(page: FetchedPage, item: Item, content: str | None) -> ArticleParts:
    """Return title, time and text; the extraction library finds the text that no selector does.

    Raises WrongShape if the page is no HTML.
    """
    document = document_of(page)
    chosen = compiled(content).value(document.root) if content else None
    return ArticleParts(
        title=item.title or _title(document.root),
        published_at=item.published_at or parse_date(_meta(document.root, _META_DATES)),
        text=chosen or article_text(page.text), found=bool(chosen) if content else None, facts=item.facts)


def _meta(root: Any, names: tuple[str, ...]) -> str | None:
    for name in names:
        for element in root.iterfind(".//meta"):
            if name.lower() in ((element.get("name") or "").lower(), (element.get("property") or "").lower()):
                return str(element.get("content") or "")
    return None


def _title(root: Any) -> str:
    heading = root.find(".//h1")
    named = _meta(root, _META_TITLES) or (text_of(heading) if heading is not None else "")
    return normalise(named or (root.findtext(".//title") or ""))
