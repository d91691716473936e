"""Scrapy crawling the same pages: ``python -m benchmarks.apps.spider DATABASE BASE_URL …``.

One request at a time per host, as many hosts at once as there are, robots.txt obeyed, nothing that slows Scrapy down
without need (no cookies, no telnet console, warnings alone, few items side by side: for each response it makes as many
tasks as may be, and the pipeline here waits for nothing). Each item is committed to SQLite as it arrives, with the
same journal mode and the same `synchronous` as Ratelane's own file.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response, TextResponse


class Keep:
    """Stores each item in a transaction of its own."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> Keep:
        """Make one that knows the database of its spider's process."""
        return cls(crawler.settings["BENCH_DATABASE"])

    def __init__(self, path: str) -> None:
        self._path = path

    def open_spider(self) -> None:
        """Open the file."""
        self._line = sqlite3.connect(self._path, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL"):
            self._line.execute(f"PRAGMA {pragma}")
        self._line.execute("CREATE TABLE items (url TEXT PRIMARY KEY, title TEXT, published TEXT, text TEXT, source TEXT, "
                           "at REAL NOT NULL)")

    def close_spider(self) -> None:
        """Close the file."""
        self._line.close()

    def process_item(self, item: dict[str, str]) -> dict[str, str]:
        """Commit an item; with autocommit the statement is the transaction."""
        self._line.execute("INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?, ?, ?)",
                           (item["url"], item["title"], item["published"], item["text"], item["source"], time.time()))
        return item


class Notices(scrapy.Spider):
    """Walks the list pages of every host and reads every article."""

    name = "notices"

    async def start(self) -> AsyncIterator[scrapy.Request]:
        """Begin with the first list page of each host."""
        for url in self.urls:
            yield scrapy.Request(f"{url}/list_1.html")

    def parse(self, response: Response, **_: Any) -> Iterator[scrapy.Request]:
        """Follow the rows of a list page and the link to the next one."""
        assert isinstance(response, TextResponse)
        for row in response.css("ul.list li.item"):
            yield response.follow(row.css("a::attr(href)").get(), self.article, cb_kwargs={
                "title": row.css("a::text").get(), "published": row.css("span.date::text").get(), "source": response.url})
        if following := response.css("a.next::attr(href)").get():
            yield response.follow(following)

    def article(self, response: Response, title: str, published: str, source: str) -> dict[str, str]:
        """Return an article with its text, blanks as single spaces."""
        assert isinstance(response, TextResponse)
        return {"url": response.url, "title": title, "published": published, "source": source,
                "text": " ".join(" ".join(response.css("div.content ::text").getall()).split())}


def main() -> None:
    """Crawl the given hosts to the end."""
    database, *urls = sys.argv[1:]
    process = CrawlerProcess({
        "BENCH_DATABASE": database, "ITEM_PIPELINES": {Keep: 100}, "LOG_LEVEL": "WARNING", "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": 4 * len(urls), "CONCURRENT_REQUESTS_PER_DOMAIN": 1, "DOWNLOAD_DELAY": 0, "CONCURRENT_ITEMS": 4,
        "COOKIES_ENABLED": False, "TELNETCONSOLE_ENABLED": False, "USER_AGENT": "bench (bench@ratelane.invalid)"})
    process.crawl(Notices, urls=urls)
    process.start()


if __name__ == "__main__":
    main()
