"""Selectors of `sites.yaml`: CSS, or XPath when it begins like one; ``sel@attr`` takes an attribute (rule P1)."""

from __future__ import annotations

import re
import threading
from typing import Annotated, Any

import lxml.html
from cssselect import SelectorError
from lxml import etree
from lxml.cssselect import CSSSelector
from pydantic import AfterValidator

from config.lazy import lazy

#: a thread keeps so many selectors: those of some tens of targets
_MOST_COMPILED = 256
_ATTRIBUTE = re.compile(r"^(?P<rest>.*?)@(?P<attribute>[A-Za-z_:][-\w:.]*)$", re.DOTALL)
_XML_HEAD = re.compile(r"^\s*<\?xml[^>]*\?>", re.IGNORECASE)
_NUL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


class Selector:
    """A compiled selector. ``""`` or ``.`` is the node itself. Raises ValueError if it cannot be read."""

    def __init__(self, source: str) -> None:
        self.source, self.attribute = source, ""
        rest = source.strip()
        self.is_xpath = rest.startswith(("/", "./", "xpath:", "("))
        if self.is_xpath:
            rest = rest.removeprefix("xpath:").strip()
        elif found := _ATTRIBUTE.match(rest):
            rest, self.attribute = found["rest"].strip(), found["attribute"]
        self._find = self._compile(rest)

    def _compile(self, rest: str) -> Any:
        try:
            if self.is_xpath:
                return etree.XPath(rest)
            return None if rest in ("", ".") else CSSSelector(rest, translator="html")
        except (etree.XPathError, SelectorError) as error:
            raise ValueError(f"cannot read the selector {self.source!r}: {error}") from error

    def nodes(self, root: Any) -> list[Any]:
        """Return what matches below `root`, in document order: elements, or texts where an XPath selects them."""
        if self._find is None:
            return [root]
        found = self._find(root)
        return found if isinstance(found, list) else [str(found)]

    def first(self, root: Any) -> Any | None:
        """Return the first match, None if there is none."""
        return next(iter(self.nodes(root)), None)

    def value(self, root: Any) -> str | None:
        """Return the first match's text, or its attribute if the selector names one; None without a match."""
        node = self.first(root)
        if node is None:
            return None
        if not isinstance(node, etree._Element):
            return str(node).strip()
        if self.attribute:
            given = node.get(self.attribute)
            return None if given is None else str(given).strip()
        return text_of(node)

    def link(self, root: Any) -> str | None:
        """Return the first match's address: its attribute, its own `href`, or that of the first link inside it."""
        node = self.first(root)
        if not isinstance(node, etree._Element) or self.attribute:
            return self.value(root)
        inner = node if node.get("href") is not None else next(iter(node.iterfind(".//*[@href]")), None)
        return None if inner is None else str(inner.get("href")).strip()


class _Tools(threading.local):
    """What lxml lets only one thread use at a time: each thread has its own, and none waits for another's page."""

    def __init__(self) -> None:
        self.parser = lxml.html.HTMLParser()
        self.compiled: dict[str, Selector] = {}


_tools = _Tools()


def compiled(source: str) -> Selector:
    """Return the selector, compiled once for the thread."""
    found = _tools.compiled.get(source)
    if found is None:
        if len(_tools.compiled) >= _MOST_COMPILED:
            _tools.compiled.clear()
        found = _tools.compiled[source] = Selector(source)
    return found


class Document:
    """A page as a tree; an empty page is an empty document."""

    def __init__(self, markup: str, url: str) -> None:
        self._markup, self._url = markup, url

    @lazy
    def root(self) -> Any:
        """The root element."""
        markup = _XML_HEAD.sub("", _NUL.sub("", self._markup))
        try:
            return lxml.html.document_fromstring(markup, parser=_tools.parser)
        except (etree.ParserError, ValueError):
            return lxml.html.document_fromstring("<html><body></body></html>", parser=_tools.parser)

    @lazy
    def base(self) -> str:
        """The URL that links are relative to."""
        from tasks.pipeline.urls import join

        given = self.root.find(".//base[@href]")
        return self._url if given is None else join(self._url, str(given.get("href")))


def text_of(node: Any) -> str:
    """Return the text of an element as a reader sees it: blocks on lines of their own, scripts and styles left out."""
    lines: list[str] = []
    for piece in _pieces(node):
        if piece == "\n":
            lines.append("")
        elif lines:
            lines[-1] += piece
        else:
            lines.append(piece)
    return "\n".join(line for line in (" ".join(raw.split()) for raw in lines) if line)


_UNSEEN = frozenset({"script", "style", "noscript", "template", "head"})
_BLOCKS = frozenset(
    {"p", "div", "br", "li", "ul", "ol", "tr", "table", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "dl",
     "dt", "dd", "blockquote", "pre", "hr", "header", "footer"}
)


def _pieces(node: Any) -> list[str]:
    pieces: list[str] = []
    stack: list[tuple[str, Any]] = [("open", node)]
    while stack:
        step, what = stack.pop()
        if step == "text":
            pieces.append(what)
            continue
        if not isinstance(what.tag, str) or what.tag in _UNSEEN:
            continue
        edge = "\n" if what.tag in _BLOCKS else " " if what.tag in ("td", "th") else ""
        stack.append(("text", edge))
        for child in reversed(what):
            stack.append(("text", child.tail or ""))
            stack.append(("open", child))
        stack.append(("text", what.text or ""))
        stack.append(("text", edge))
    return pieces


def _is_selector(source: str) -> str:
    Selector(source)
    return source


#: an option that holds a selector: one that cannot be read is refused where the options are
SelectorText = Annotated[str, AfterValidator(_is_selector)]
