"""A gate and a journal in memory, for crawls without workers and database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from config.clock import monotonic, pause
from config.errors import Parked
from tasks.pipeline import (
    Article,
    CrawlResult,
    Fetcher,
    Progress,
    RequestRecord,
    RobotsCopy,
    StartPoint,
    TargetSpec,
    crawl,
)
from tasks.pipeline.ports import FailedItem, Gate, Journal, Validators
from tests.support.misbehave import Server, article_html, list_html, page, serve


@dataclass
class MemoryGate(Gate):
    """Keeps the interval, remembers every row, and stops when `stop` raises."""

    interval_sec: float = 0.0
    records: list[RequestRecord] = field(default_factory=list)
    delays: dict[str, float] = field(default_factory=dict)
    stop: Callable[[], None] = lambda: None
    checking: Callable[[], None] = lambda: None
    checks: int = 0
    pending: int = 0
    stop_points: int = 0

    def before_request(self, host: str) -> float:
        assert self.pending == 0, "a request before the one before it ended"
        self.stop()
        gap = max(self.interval_sec, self.delays.get(host, 0.0))
        if self.records:
            pause(self.records[-1].ended + gap - monotonic())
        self.pending += 1
        return gap

    def check(self) -> None:
        self.checks += 1
        try:
            self.checking()
        except BaseException:
            self.pending -= 1
            raise

    def after_request(self, record: RequestRecord) -> None:
        self.pending -= 1
        self.records.append(record)

    def require_delay(self, host: str, seconds: float) -> None:
        self.delays[host] = seconds

    def stop_point(self, *, sends: bool = True) -> None:
        self.stop_points += 1
        self.stop()


@dataclass
class ParkingGate(MemoryGate):
    """A gate whose interval is so long that an attempt is parked before the next thing that it would ask for."""

    def stop_point(self, *, sends: bool = True) -> None:
        super().stop_point(sends=sends)
        if sends and self.records:
            raise Parked("parked", delay_sec=60)


@dataclass
class MemoryJournal(Journal):
    """Remembers what a database would; `frontier` holds the URLs that lie behind it."""

    articles: dict[str, Article] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    frontier: set[str] = field(default_factory=set)
    pages: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    copies: dict[str, RobotsCopy] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    marked: set[str] = field(default_factory=set)
    last: Progress | None = None
    #: the steps that were not pending, each time the progress alone was told
    told: list[dict[str, str]] = field(default_factory=list)
    #: where the walk stopped last, as JSON keeps it; what earlier attempts of the job have stored
    place: dict[str, Any] | None = None
    stored: set[str] = field(default_factory=set)
    #: how long ago an article was read, and what was read again
    age_days: dict[str, float] = field(default_factory=dict)
    reread: dict[str, Article] = field(default_factory=dict)
    #: known articles that were found unchanged; what list pages gave for asking again
    rechecked: list[str] = field(default_factory=list)
    lists: dict[str, Validators] = field(default_factory=dict)
    #: what the pages that were walked list, and the marks that an earlier snapshot holds
    shown: dict[str, str] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)
    #: items that are given up, and those of them that are to be tried once more
    given_up: set[str] = field(default_factory=set)
    due: list[FailedItem] = field(default_factory=list)

    def own(self, urls: Sequence[str]) -> set[str]:
        return self.stored & set(urls)

    def is_mine(self, url: str) -> bool:
        return url in self.stored

    def known(self, urls: Sequence[str]) -> set[str]:
        return {url for url in urls if url in self.articles}

    def behind(self, urls: Sequence[str]) -> set[str]:
        return {url for url in urls if url in self.frontier}

    def count(self) -> int:
        return len(self.articles)

    def is_first(self) -> bool:
        return not self.frontier

    def same_document(self, own_id: str, sha256: str) -> str | None:
        same = (url for url, article in self.articles.items()
                if article.alias_of is None and (article.own_id, article.sha256) == (own_id, sha256))
        return next(same, None)

    def stored_from(self, final_url: str, url: str) -> str | None:
        read = (one.url for one in self.articles.values() if one.final_url == final_url and one.url != url
                and one.alias_of is None and not (one.external or one.marked))
        return next(read, None)

    def stale(self, urls: Sequence[str], days: float) -> set[str]:
        return {url for url in urls if self.age_days.get(url, -1.0) >= days}

    def refreshed(self, article: Article, progress: Progress) -> None:
        self.reread[article.url], self.last = article, deepcopy(progress)

    def store(self, article: Article, progress: Progress) -> None:
        assert article.url not in self.articles, f"stored twice: {article.url}"
        self.articles[article.url], self.last = article, deepcopy(progress)

    def changed(self, marks: Mapping[str, str]) -> set[str]:
        return {url for url, mark in marks.items() if self.marks.get(url, mark) != mark}

    def listed(self, marks: Mapping[str, str]) -> None:
        self.shown |= marks

    def article_validators(self, url: str) -> Validators:
        return self.articles[url].validators

    def unchanged(self, url: str, progress: Progress) -> None:
        self.rechecked.append(url)

    def list_validators(self, url: str) -> Validators:
        return self.lists.get(url, Validators())

    def list_answered(self, url: str) -> None:
        self.lists.pop(url, None)

    def failed(self, url: str, title: str, source_page: str, error: str, progress: Progress) -> bool:
        self.failures[url], self.last = error, deepcopy(progress)
        self.due = [item for item in self.due if item.url != url]
        return url in self.given_up

    def resting(self, urls: Sequence[str]) -> set[str]:
        return {url for url in urls if url in self.given_up - {item.url for item in self.due} - set(self.failures)}

    def due_again(self) -> list[FailedItem]:
        return list(self.due)

    def stopped(self, place: dict[str, Any]) -> None:
        self.place = json.loads(json.dumps(place))

    def page_done(self, page: int, state: dict[str, Any], progress: Progress) -> None:
        self.place, state = None, json.loads(json.dumps(state))
        self.pages.append((page, state))
        self.last = deepcopy(progress)

    def begins(self, progress: Progress) -> None:
        self.last = progress

    def progressed(self, progress: Progress) -> None:
        self.told.append({name: status for name, status in progress.steps.items() if status != "pending"})
        self.last = deepcopy(progress)

    def robots(self, host: str) -> RobotsCopy | None:
        return self.copies.get(host)

    def keep_robots(self, copy: RobotsCopy) -> None:
        self.copies[copy.host] = copy

    def forbidden(self, url: str) -> bool:
        return url in self.refused

    def is_lone_403_weak(self) -> bool:
        return bool(self.marked)

    def mark_forbidden(self, url: str) -> None:
        self.marked.add(url)


USER_AGENT = "ratelane/1.0 (+mailto:crawler@example.org)"
LIST_OPTIONS = {"list_url": "/list/{page}", "item": "li.row", "link": "a", "date": ".date", "content": ".content"}


def target(base_url: str, *, more: dict[str, Any] | None = None, **options: Any) -> TargetSpec:
    """A target with the `list` adapter; `more` are fields of the target, the rest are adapter options (None: leave out)."""
    chosen = {name: value for name, value in (LIST_OPTIONS | options).items() if value is not None}
    fields: dict[str, Any] = {"adapter": "list", "user_agent": USER_AGENT} | (more or {})
    return TargetSpec(target_code="notices", site_code="town", base_url=base_url, options=chosen, **fields)


def gkmlpt_target(host: Any, path: str = "", *, more: dict[str, Any] | None = None, **options: Any) -> TargetSpec:
    """A target of a simulated gkmlpt site (see `tests.support.gkmlpt_site`) below a path of its host, 5 rows a page."""
    chosen = {"column": 5001, "page_size": 5, "window": 10} | options
    return TargetSpec(target_code="gk", site_code="gk", base_url=f"{host.base_url}{path}", adapter="gkmlpt",
                      options=chosen, **({"user_agent": USER_AGENT} | (more or {})))


def walk(
    spec: TargetSpec, journal: MemoryJournal, gate: MemoryGate | None = None, start: StartPoint | None = None,
    timeout_sec: float = 5.0, max_body_bytes: int = 10_000_000,
) -> CrawlResult:
    """Crawl a target once with a client of its own."""
    gate = gate or MemoryGate()
    with Fetcher(gate, user_agent=USER_AGENT, timeout_sec=timeout_sec, max_body_bytes=max_body_bytes) as fetcher:
        return crawl(spec, start or StartPoint(), fetcher, journal, gate)


def walk_parked(
    spec: TargetSpec, journal: MemoryJournal, *, most: int = 40, place: dict[str, Any] | None = None,
    park: Callable[[], MemoryGate] = ParkingGate,
) -> tuple[CrawlResult, int]:
    """Walk a target with a gate that parks, attempt after attempt, until it ends; returns the result and their number."""
    journal.place = place
    for number in range(1, most + 1):
        after, state = journal.pages[-1] if journal.pages else (0, {})
        journal.stored = set(journal.articles)
        try:
            return walk(spec, journal, park(), StartPoint(after, state, place=journal.place)), number
        except Parked:
            continue
    raise AssertionError(f"not over after {most} attempts")


class Site(Server):
    """A server with a list in pages; articles answer for themselves."""

    def show(self, *pages: list[str], extra: str = "") -> None:
        """Serve these rows as list pages 1, 2 …, each article with a text of its own."""
        for number, rows in enumerate(pages, start=1):
            self.routes[f"/list/{number}"] = page(list_html(rows, extra))
            for row in rows:
                path = row.partition("|")[0]
                self.routes.setdefault(path, page(article_html(path)))

    def urls(self, *numbers: int) -> set[str]:
        """The canonical URLs of articles."""
        return {f"{self.url}/a/{number}" for number in numbers}


@contextmanager
def paged_site() -> Iterator[Site]:
    """Serve a site for the length of the block."""
    with serve(Site) as site:
        yield site


def rows(*numbers: int) -> list[str]:
    """Rows of a list page."""
    return [f"/a/{number}" for number in numbers]


def known(site: Site, *numbers: int, frontier: bool = True) -> MemoryJournal:
    """A journal in which these articles are stored, and (unless told otherwise) lie behind the frontier."""
    articles = {
        url: Article(url, None, "", None, "text", "0", "", url, False, "utf-8") for url in site.urls(*numbers)
    }
    return MemoryJournal(articles=articles, frontier=site.urls(*numbers) if frontier else set())
