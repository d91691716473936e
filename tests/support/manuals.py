"""Manuals that Debian packages bring as HTML: sites that nobody of ours has written.

The Debian FAQ has one index page and sixteen chapters, in English and in Chinese. What is in it is read here with the
standard library alone, so that two readers that have nothing in common have to agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import yaml

from tests.support.servers import missing

FAQ = Path("/usr/share/doc/debian/FAQ")
_CHAPTER = re.compile(r'<dt><span class="chapter"><a href="([^"#]+)">([^<]+)</a>')
_SECTION = re.compile(r'<h2 class="title"[^>]*>(?:<a [^>]*></a>)?([^<]+)</h2>')


@dataclass(frozen=True)
class Chapter:
    """A page of a manual; `text` is what a reader sees of it, without any blanks."""

    path: str
    title: str
    text: str
    sections: tuple[str, ...]


@dataclass(frozen=True)
class Manual:
    """A manual in one language; `content` is the selector of a chapter's text (None: the text has to be found)."""

    language: str
    index: str
    content: str | None

    @property
    def chapters(self) -> list[Chapter]:
        """Its chapters in their order."""
        return [self._chapter(name, title) for name, title in _CHAPTER.findall(self._read(self.index))]

    def options(self, most: int | None = None) -> dict[str, Any]:
        """Return the adapter options that read it, the first `most` chapters alone if that is given."""
        rows = "div.toc > dl > dt" if most is None else f"//div[@class='toc']/dl/dt[position() <= {most}]"
        found = {"list_url": self.index, "item": rows, "link": "a@href", "content": self.content}
        return {name: value for name, value in found.items() if value is not None}

    def _chapter(self, name: str, title: str) -> Chapter:
        path = f"{self.index.rpartition('/')[0]}/{name}"
        page = self._read(path)
        return Chapter(path, " ".join(title.split()), _Reading.of(page), tuple(_SECTION.findall(page)))

    def _read(self, path: str) -> str:
        return (FAQ / path.lstrip("/")).read_text(encoding="utf-8")


ENGLISH = Manual("en", "/index.en.html", None)
CHINESE = Manual("zh", "/zh-cn/index.zh-cn.html", "div.chapter")


def need_manuals() -> None:
    """Skip the test if the packages are missing; fail it where everything has to be there."""
    for package, manual in (("debian-faq", ENGLISH), ("debian-faq-zh-cn", CHINESE)):
        if not (FAQ / manual.index.lstrip("/")).exists():
            missing(package, where_complete="CI_FULL")


def manuals_yaml(
    urls: Mapping[str, str], manuals: Sequence[Manual], interval_sec: float, most: Mapping[str, int] | None = None
) -> str:
    """Return the text of a sites.yaml: for each site code its URL, with a target ``CODE_LANGUAGE`` for each manual.

    `most` says for some sites how many chapters are listed.
    """
    return yaml.safe_dump({"sites": [
        {"site_code": code, "name": code, "base_url": url, "cms_adapter": "list", "targets": [
            {"target_code": f"{code}_{manual.language}", "name": manual.language, "interval_sec": interval_sec,
             "options": manual.options((most or {}).get(code))} for manual in manuals]}
        for code, url in urls.items()]})


def squeezed(text: str) -> str:
    """Return a text without any blanks."""
    return "".join(text.split())


class _Reading(HTMLParser):
    """The text inside ``<div class="chapter">``."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._pieces: list[str] = []

    @classmethod
    def of(cls, page: str) -> str:
        """Return the chapter's text without blanks."""
        reading = cls()
        reading.feed(page)
        return squeezed("".join(reading._pieces))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "div" and (self._depth or ("class", "chapter") in attrs):
            self._depth += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self._depth:
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        if self._depth:
            self._pieces.append(data)
