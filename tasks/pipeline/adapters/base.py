"""What an adapter is: the knowledge of one kind of site, as a small module (rule P1). See docs/adapters.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Any, Protocol, runtime_checkable

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tasks.pipeline.page import FetchedPage
from tasks.pipeline.urls import bare_host, host_key


class WrongShape(Exception):
    """The page is not what the adapter reads: an error page, another format, another schema. Never "no items"."""


class CutOff(WrongShape):
    """The page is what the adapter reads, but its end is missing: an error of the transport, not of the site's schema."""


class NoSuchList(Exception):
    """The site answers well and has no list such as the options name: they are wrong, and trying again does not help."""


def _host(name: str) -> str:
    """Take a host, with its port if need be, as `urls.host_key` writes it."""
    if "/" in name or host_key(f"http://{name}") != name or not bare_host(name).strip("*?."):
        raise ValueError("must be a host in lower case, such as static.example.org, without scheme and path")
    return name


class CommonOptions(BaseModel):
    """What every target may say, whatever reads it (rule P2).

    For first crawls, until one has ended complete: `max_items` to take at most (the newest), `mark_known` to take what
    is listed as known without reading it. `since`: nothing older is taken, ever. `refetch_after_days`: what was read so
    long ago is read again when it is met. `max_pages` are walked at most. `allowed_hosts` are fetched from beside the
    group's own (rule P3): ``static.example.org``, ``static.example.org:8080``, or a glob, which stands for every port.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    since: date | None = None
    max_items: int | None = Field(default=None, ge=1)
    mark_known: bool = False
    refetch_after_days: int | None = Field(default=None, ge=1)
    max_pages: int | None = Field(default=None, ge=1)
    allowed_hosts: tuple[Annotated[str, AfterValidator(_host)], ...] = ()


@dataclass(frozen=True)
class ArticleParts:
    """What an article page says; `found` tells whether the expected content was there (None: nothing to go by).

    `facts` are whatever else is known of it, JSON-able: dates by name, document numbers, attachments.
    """

    title: str
    published_at: datetime | None
    text: str
    found: bool | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Item:
    """A row of a list page. `url` is canonical; `pinned` rows never end a crawl (rule P2).

    `own_id` is the site's own name of it, `changed_at` when it changed last, by the list. `parts`: the list gives the
    article whole, nothing is fetched. `facts`: see `ArticleParts`.
    """

    url: str
    title: str = ""
    published_at: datetime | None = None
    own_id: str | None = None
    pinned: bool = False
    changed_at: datetime | None = None
    parts: ArticleParts | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ListPage:
    """What a list page says.

    `next_url`: where the next page is, absolute; `is_last`: the page says that nothing follows (None: it does not
    say). `total` is the number of rows of the whole list, `pages_total` of its pages, where known. `frame` are marks
    of the page around its items, by which an empty page of the list is told from some other page.

    `served`: so many rows of `total` lie on this page and those before it, exactly; a list that ends before its total
    is not whole then: a window if at least `window` rows came, else something is missing. `lacks`: so many rows should
    be on this page and are not. `is_window`: the list is a part of a longer one; `joins`: its latest part, which is
    whole if it reaches back to something that an earlier crawl stored.

    Of adapters that keep something (see `Keeping`): `kept` is what they need for the next page. `goes_on`: another page
    follows for certain, though this one may be without items or repeat one. `has_rest`: it is in this very file.
    `is_sorted` False: there is no order, so that known items say nothing of those behind them.
    """

    items: tuple[Item, ...]
    next_url: str | None = None
    is_last: bool | None = None
    total: int | None = None
    pages_total: int | None = None
    is_window: bool = False
    frame: frozenset[str] = frozenset()
    served: int | None = None
    window: int | None = None
    lacks: int = 0
    kept: Mapping[str, Any] | None = None
    goes_on: bool = False
    has_rest: bool = False
    is_sorted: bool = True
    joins: bool = False


class Adapter(Protocol):
    """Reads lists and articles of one kind of site. Stateless: `state` is a checkpoint's, and JSON-able.

    A target's options may have the fields of `CommonOptions`; the walk asks for them by name. An adapter may also have
    `max_list_bytes`, the size that its list pages may have, and `reads_in_pieces` (True): its list pages may be as long
    as a sitemap, and it reads them with `FetchedPage.open`, because `body` holds just the beginning of a long one.
    """

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
        """Return the rows of a list page; raises WrongShape if it is none, CutOff if it is not whole."""

    def parse_article(self, page: FetchedPage, item: Item, options: Any) -> ArticleParts:
        """Return title, publication time and text of an article page; raises WrongShape if it is none."""


@runtime_checkable
class Keeping(Protocol):
    """What an adapter has beside that if it must know something of the site before the first list page, or go on
    knowing something from one page to the next.

    `kept` is a JSON-able mapping that travels in the checkpoint; it begins as {"base_url": …}, and stands as
    ``state["kept"]`` in what `list_url` is given.
    """

    def prepare(self, options: Any, kept: Mapping[str, Any]) -> str | None:
        """Return the address of the page to learn from next, None as soon as `kept` is enough."""

    def learn(self, page: FetchedPage, options: Any, kept: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `kept` with what a page of `prepare` says; raises WrongShape, or NoSuchList.

        A page that is not there (404, 410) is given too; whoever needs it raises WrongShape.
        """

    def read_list(self, page: FetchedPage, options: Any, kept: Mapping[str, Any]) -> ListPage:
        """Do as `parse_list` does, knowing `kept`; the page's own `kept` is for the next one."""

    def pass_by(self, options: Any, kept: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what to go on with behind a page that stayed unread; None: the walk ends there."""
