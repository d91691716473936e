"""What an adapter is: the knowledge of one kind of site, as a small module (rule P1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pydantic import BaseModel

from tasks.pipeline.page import FetchedPage


class WrongShape(Exception):
    """The page is not what the adapter reads: an error page, another format, another schema. Never "no items"."""


@dataclass(frozen=True)
class Item:
    """A row of a list page. `url` is canonical; `pinned` rows never end a crawl (rule P2)."""

    url: str
    title: str = ""
    published_at: datetime | None = None
    own_id: str | None = None
    pinned: bool = False


@dataclass(frozen=True)
class ListPage:
    """What a list page says.

    `next_url`: where the next page is, absolute; `is_last`: the page says that nothing follows (None: it does not
    say). `total` is the number of rows of the whole list, `pages_total` of its pages, where known. `frame` are marks
    of the page around its items, by which an empty page of the list is told from some other page.
    """

    items: tuple[Item, ...]
    next_url: str | None = None
    is_last: bool | None = None
    total: int | None = None
    pages_total: int | None = None
    is_window: bool = False
    frame: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ArticleParts:
    """What an article page says; `found` tells whether the expected content was there (None: nothing to go by)."""

    title: str
    published_at: datetime | None
    text: str
    found: bool | None = None


class Adapter(Protocol):
    """Reads lists and articles of one kind of site. Stateless: `state` is a checkpoint's, and JSON-able."""

    @property
    def name(self) -> str:
        """What `sites.yaml` calls it."""

    @property
    def Options(self) -> type[BaseModel]:
        """The model that a target's options are checked with."""

    def list_url(self, page: int, options: Any, state: Mapping[str, Any]) -> str | None:
        """Return the address of list page `page` (1 is the first), perhaps relative to the site's base URL.

        None if the page cannot be known (no link to it in `state`) or does not exist.
        """

    def parse_list(self, page: FetchedPage, options: Any) -> ListPage:
        """Return the rows of a list page; raises WrongShape if it is none."""

    def parse_article(self, page: FetchedPage, item: Item, options: Any) -> ArticleParts:
        """Return title, publication time and text of an article page; raises WrongShape if it is none."""
