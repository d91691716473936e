"""One demo site: columns with list pages and articles, and ways to change it while it is served."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from console.demo import content
from console.demo.waf import Answer

ROBOTS = "User-agent: *\nDisallow: /private/\n"
_LIST = re.compile(r"/([\w-]+)/index_(\d+)\.html")
_ARTICLE = re.compile(r"/([\w-]+)/art_(\d+)\.html")


class Hold:
    """Requests to a path that are kept waiting until `release`."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def release(self) -> None:
        """Answer those who wait, and everybody after them at once."""
        self.released.set()


class Site:
    """A site called `name` on loopback address `host` (None: the server chooses one), known once it is served.

    `columns` gives the number of articles of each; `pinned` of the oldest ones stand above every list page. With `gbk`
    pages are GBK bytes that only a meta tag explains. `robots` is the text of robots.txt (None: there is none).
    """

    def __init__(
        self, name: str, host: str | None = None, columns: Mapping[str, int] | None = None, *,
        per_page: int = 10, gbk: bool = False, robots: str | None = ROBOTS, pinned: int = 0,
    ) -> None:
        self.name, self.host, self.port = name, host, 0
        self.per_page, self.gbk, self.robots, self.pinned = per_page, gbk, robots, pinned
        self._guard = threading.Lock()
        self._columns = {column: list(range(1, count + 1)) for column, count in (columns or {"news": 12}).items()}
        self._failures: list[tuple[str, int, list[None]]] = []
        self._served: dict[str, Answer] = {}
        self._holds: list[tuple[str, Hold]] = []

    @property
    def netloc(self) -> str:
        """Address and port, which is also how the request log calls the site's host."""
        return f"{self.host}:{self.port}"

    @property
    def base_url(self) -> str:
        """The URL of the site without a slash at its end."""
        return f"http://{self.netloc}"

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns."""
        return list(self._columns)

    def pages(self, column: str) -> int:
        """Return how many list pages `column` has; an empty one has one."""
        return max(1, -(-len(self._columns[column]) // self.per_page))

    def article_urls(self, column: str) -> list[str]:
        """Return the URLs of all articles of `column`, newest first."""
        with self._guard:
            return [f"{self.base_url}/{column}/art_{number}.html" for number in reversed(self._columns[column])]

    def add_articles(self, column: str, count: int = 1) -> list[str]:
        """Publish `count` new articles at the top of `column`; return their URLs, newest first."""
        with self._guard:
            numbers = self._columns[column]
            first = numbers[-1] + 1 if numbers else 1
            numbers.extend(range(first, first + count))
        return self.article_urls(column)[:count]

    def remove_article(self, column: str, number: int) -> None:
        """Take an article down: it is listed no more and answers 404."""
        with self._guard:
            self._columns[column].remove(number)

    def fail(self, path: str, status: int = 500, times: int = 1) -> None:
        """Answer the next `times` requests to `path` (a glob) with `status`; 0 resets the connection."""
        with self._guard:
            self._failures.append((path, status, [None] * times))

    def serve(self, path: str, body: str | bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """From now on answer `path` with exactly this, whatever else the site is."""
        data = body.encode() if isinstance(body, str) else body
        with self._guard:
            self._served[path] = Answer(status, data, {"Content-Type": "text/html; charset=utf-8", **(headers or {})})

    def hold(self, path: str) -> Hold:
        """Keep requests to `path` (a glob) waiting for an answer until the hold is released."""
        hold = Hold()
        with self._guard:
            self._holds.append((path, hold))
        return hold

    def held(self, path: str) -> Hold | None:
        """Return the hold that a request to `path` has to wait for, if there is one."""
        with self._guard:
            return next((hold for glob, hold in self._holds if not hold.released.is_set() and fnmatchcase(path, glob)), None)

    def answer(self, path: str, if_none_match: str | None = None) -> Answer:
        """Return the response to a request for `path`; status 0 means that the connection is to be reset."""
        with self._guard:
            failure = self._failing(path)
            if failure is not None:
                return Answer(failure, f"<h1>{failure}</h1>".encode(), {"Content-Type": "text/html"})
            if path in self._served:
                return self._served[path]
            text = self._text(path)
        if text is None:
            return Answer(404, b"<h1>404 Not Found</h1>", {"Content-Type": "text/html"})
        body = text.encode("gbk" if self.gbk else "utf-8")
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if if_none_match == etag:
            return Answer(304, b"", {"ETag": etag})
        return Answer(200, body, {"Content-Type": self._content_type(path), "ETag": etag})

    def _failing(self, path: str) -> int | None:
        for glob, status, left in self._failures:
            if left and fnmatchcase(path, glob):
                left.pop()
                return status
        return None

    def _content_type(self, path: str) -> str:
        if path == "/robots.txt":
            return "text/plain; charset=utf-8"
        return "text/html" if self.gbk else "text/html; charset=utf-8"

    def _text(self, path: str) -> str | None:
        charset = "gb2312" if self.gbk else "utf-8"
        if path == "/robots.txt":
            return self.robots
        if path == "/":
            return content.front_page(self.name, self.columns, charset)
        if (asked := _ARTICLE.fullmatch(path)) and int(asked[2]) in self._columns.get(asked[1], ()):
            return content.article_page(asked[1], int(asked[2]), charset)
        if (asked := _LIST.fullmatch(path)) and asked[1] in self._columns:
            return self._list(asked[1], int(asked[2]), charset)
        return None

    def _list(self, column: str, page: int, charset: str) -> str | None:
        pages = self.pages(column)
        if not 1 <= page <= pages:
            return None
        numbers = self._columns[column]
        newest_first = numbers[::-1]
        shown = newest_first[(page - 1) * self.per_page : page * self.per_page]
        return content.list_page(column, shown, numbers[: self.pinned], page, pages, charset)
