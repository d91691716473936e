"""A fast site that is as long as a test wants: list pages and sitemaps are made from numbers when they are asked for."""

from __future__ import annotations

import gzip
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import String, cast, func, insert, literal, select

from models.articles import articles
from models.base import db_now
from models.db import Database
from tests.support.misbehave import Answer, Request, Server, article_html, list_html, page, serve

PER_PAGE = 20
#: on every so manieth list page the first article of the list stands once more
AGAIN_EVERY = 50
_ROUTE = re.compile(r"/(\w+)/list/(\d+)")
_FILLER = "<changefreq>weekly</changefreq><priority>0.5</priority>"


@dataclass
class LongSite(Server):
    """Columns called by the number of their articles: ``/1000/list/1`` is the first page of one with a thousand."""

    def __post_init__(self) -> None:
        self.routes["*"] = self._anything

    def article(self, column: int, number: int) -> str:
        """Return the URL of an article."""
        return f"{self.url}/{column}/a/{number}"

    def serve_sitemap(self, column: int, *, is_packed: bool) -> int:
        """Serve all articles of a column in one file, packed on its way or not; returns its size in bytes, unpacked."""
        rows = (f"<url><loc>{self.article(column, number)}</loc><lastmod>2026-11-30T08:00:00+08:00</lastmod>{_FILLER}</url>\n"
                for number in range(1, column + 1))
        text = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{"".join(rows)}</urlset>'.encode()
        headers = {"content_encoding": "gzip"} if is_packed else {}
        body = gzip.compress(text, 1) if is_packed else text
        self.routes[f"/{column}/sitemap.xml"] = page(body, charset=None, content_type="application/xml", **headers)
        return len(text)

    def _anything(self, conn: socket.socket, request: Request) -> bool:
        found = _ROUTE.fullmatch(request.path)
        if found is not None:
            answer = self._list(int(found[1]), int(found[2]))
        elif "/a/" in request.path:
            answer = page(article_html(request.path))
        else:
            answer = page("", 404)
        return answer(conn, request)

    @staticmethod
    def _list(column: int, number: int) -> Answer:
        first = (number - 1) * PER_PAGE + 1
        if first > column:
            return page("", 404)
        rows = [f"/{column}/a/{one}" for one in range(first, min(first + PER_PAGE, column + 1))]
        again = [f"/{column}/a/1"] if number % AGAIN_EVERY == 0 else []
        return page(list_html([*again, *rows]))


@contextmanager
def long_site() -> Iterator[LongSite]:
    """Serve one for the length of the block."""
    with serve(LongSite) as site:
        yield site


def store_known(db: Database, target_code: str, base: str, last: int, new_every: int) -> None:
    """Have the articles ``<base>1`` to `last` stored as an interrupted crawl leaves them, but for every so manieth."""
    numbers = select(literal(1).label("n")).cte(recursive=True)
    numbers = numbers.union_all(select(numbers.c.n + 1).where(numbers.c.n < last))
    url = literal(base, String()).concat(cast(numbers.c.n, String()))
    row = select(literal(target_code), literal("long"), url, url, literal("t"), literal("t"), literal(1), db_now())
    names = ["target_code", "site_code", "url", "final_url", "text", "sha256", "generation", "fetched_at"]
    with db.write() as conn:
        conn.execute(insert(articles).from_select(names, row.where(numbers.c.n % new_every != 1)))


def stored_count(db: Database, target_code: str) -> tuple[int, int]:
    """Return how many articles of a target are stored, and how many different URLs they have."""
    with db.read() as conn:
        url = articles.c.url
        found = conn.execute(select(func.count(), func.count(url.distinct())).where(articles.c.target_code == target_code)).one()
    return int(found[0]), int(found[1])
