"""The adapter for sites of the platform `gkmlpt` (government information of Guangdong): its JSON API of rows (rule P1).

One host may carry many such sites, each under a path of its own with a site id (SID) of its own; the index page tells
it, and the tree of columns. Rows come 100 a page from page 1 on: page 0 is the same as page 1 and is never asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from tasks.pipeline.adapters.base import ArticleParts, CommonOptions, Item, ListPage
from tasks.pipeline.adapters.gkmlpt import article, index, rows
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.selectors import SelectorText


class GkmlptOptions(CommonOptions):
    """Which column of which site is read, and how.

    `column` is the number of a column, its name, or its path of names (``政策/通知公告``); 0 is the whole site.
    `prefix` is the path of the site on its host, if the site's base URL does not name it. `sid` is the site's id: given
    together with a number as `column` no index page is needed. `date_field` is the date that counts as the time of
    publication, the others stand in for a missing one. `content` is a selector of the text. A list that ends before
    its `total` and at or behind `window` rows is served in part only; one that ends earlier is incomplete.
    """

    column: int | str
    prefix: str | None = None
    sid: str | None = None
    date_field: Literal["create_time", "date", "created_at", "display_publish_time", "first_publish_time"] = "create_time"
    content: SelectorText | None = None
    page_size: int = Field(default=100, ge=1)
    window: int = Field(default=1000, ge=1)


class GkmlptAdapter:
    """Reads rows from the JSON API, after the index page has told where they are."""

    name = "gkmlpt"
    Options = GkmlptOptions

    def prepare(self, options: GkmlptOptions, kept: Mapping[str, Any]) -> str | None:
        """Return the address of the index page as long as the SID is not known."""
        if "sid" in kept or (options.sid and index.number(options.column) is not None):
            return None
        return f"{index.home(kept['base_url'], options.prefix)}/gkmlpt/index"

    def learn(self, page: FetchedPage, options: GkmlptOptions, kept: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what is kept with SID and column; raises WrongShape if the index does not tell, NoSuchList."""
        return {**kept, "sid": index.site_id(page.text), "column": index.column(page.text, options.column)}

    def pass_by(self, options: GkmlptOptions, kept: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """End the walk at a page that stays unread: what lies behind it cannot be told from what it holds."""
        return None

    def list_url(self, page: int, options: GkmlptOptions, state: Mapping[str, Any]) -> str | None:
        """Return the address of a page of rows; None as long as the site is not known."""
        kept = state.get("kept") or {}
        sid = kept.get("sid") or options.sid
        if not sid or "base_url" not in kept:
            return None
        column = kept.get("column", options.column)
        return f"{index.home(kept['base_url'], options.prefix)}/gkmlpt/api/all/{column}?page={page}&sid={sid}"

    def parse_list(self, page: FetchedPage, options: GkmlptOptions) -> ListPage:
        """Return the rows of a page; raises WrongShape, and CutOff for JSON without an end."""
        return rows.listing(page, options, index.number(options.column))

    def read_list(self, page: FetchedPage, options: GkmlptOptions, kept: Mapping[str, Any]) -> ListPage:
        """Return the rows of a page of the column that was found; raises as `parse_list` does."""
        return rows.listing(page, options, kept.get("column", index.number(options.column)))

    def parse_article(self, page: FetchedPage, item: Item, options: GkmlptOptions) -> ArticleParts:
        """Return title, time, text with attachments, and facts; raises WrongShape if the content is not there."""
        return article.parts(page, item, options.content)


ADAPTER = GkmlptAdapter()
