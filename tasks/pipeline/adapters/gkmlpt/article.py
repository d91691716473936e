"""A document of a gkmlpt site, and the pages of other templates that its lists lead to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import lxml.html
from lxml import etree

from tasks.pipeline.adapters.base import ArticleParts, Item, WrongShape
from tasks.pipeline.extract import article_text, normalise, parse_date
from tasks.pipeline.jsliteral import value_of
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.selectors import Document, compiled, text_of
from tasks.pipeline.urls import canonical

_CONTENT = "div.article-content"
#: where pages outside of gkmlpt have their text
_OTHER_TEMPLATES = ("div.news_cont_d_wrap", "div.tyxxy_main", "#zoomcon")


def parts(page: FetchedPage, item: Item, selector: str | None) -> ArticleParts:
    """Return what a page says of a document, its attachments named at the end of the text.

    Raises WrongShape if the page is one of gkmlpt and has its content neither in the page nor in its script.
    """
    if not page.is_markup:
        raise WrongShape(f"not an HTML page but {page.content_type or 'something without a type'}")
    document = Document(page.text, page.final_url)
    is_own = "/gkmlpt/content/" in urlsplit(page.final_url).path
    text, found = _text(document, page, selector, is_own)
    labels = _labels(document)
    attachments = _attachments(document, item)
    return ArticleParts(
        title=item.title or normalise(compiled("h1.title").value(document.root) or _meta(document, "ArticleTitle")),
        published_at=item.published_at or parse_date(labels.get("发布日期") or _meta(document, "PubDate")),
        text=_with_attachments(text, attachments), found=found,
        facts={**item.facts, "attachments": attachments, **({"labels": labels} if labels else {})})


def _text(document: Document, page: FetchedPage, selector: str | None, is_own: bool) -> tuple[str, bool | None]:
    """Return the text, and whether it stood where it was expected (None: nowhere in particular)."""
    there = False
    for one in (selector,) if selector else (_CONTENT, *(() if is_own else _OTHER_TEMPLATES)):
        value = compiled(one).value(document.root)
        there = there or value is not None
        if value:
            return value, True
    if detail := _detail(page.text):
        return detail, True
    if there:
        return "", True
    if is_own:
        raise WrongShape("neither the content of a document nor DETAIL")
    return article_text(page.text), None


def _detail(text: str) -> str:
    """Return the text of the copy that a page's script holds; "" if there is none."""
    try:
        detail = value_of("DETAIL", text)
    except (LookupError, ValueError):
        try:
            # other parts of DETAIL may be expressions
            detail = {"content": value_of("content", text[text.index("DETAIL"):])}
        except (LookupError, ValueError):
            return ""
    content = detail.get("content") if isinstance(detail, dict) else None
    if not isinstance(content, str) or not content.strip():
        return ""
    try:
        return text_of(lxml.html.fragment_fromstring(content, create_parent="div"))
    except (etree.ParserError, ValueError):
        return ""


def _labels(document: Document) -> dict[str, str]:
    """Return the table of a document's particulars, whose labels have blanks inside."""
    found = {}
    for cell in compiled("div.classify td").nodes(document.root):
        label, value = cell.find(".//label"), cell.find(".//span")
        if label is not None and value is not None:
            found["".join(text_of(label).split()).strip(":：")] = normalise(text_of(value))
    return {label: value for label, value in found.items() if value}


def _attachments(document: Document, item: Item) -> list[dict[str, str]]:
    """Return name and URL of every attachment, those of the list's row first."""
    found: dict[str, dict[str, str]] = {}
    for one in item.facts.get("attachments") or ():
        if isinstance(one, Mapping) and one.get("url"):
            found[str(one["url"])] = {"name": str(one.get("name") or ""), "url": str(one["url"])}
    for link in compiled("a.nfw-cms-attachment").nodes(document.root):
        try:
            url = canonical(str(link.get("href") or ""), document.base)
        except ValueError:
            continue
        found.setdefault(url, {"name": normalise(text_of(link) or str(link.get("alt") or "")), "url": url})
    return list(found.values())


def _with_attachments(text: str, attachments: list[dict[str, str]]) -> str:
    if not attachments:
        return text
    lines = [f"- {one['name']} {one['url']}".replace("-  ", "- ") for one in attachments]
    return "\n".join([*([text] if text else []), "附件：", *lines])


def _meta(document: Document, name: str) -> str:
    found: Any = compiled(f'meta[name="{name}"]').first(document.root)
    return "" if found is None else str(found.get("content") or "")
