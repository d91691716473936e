"""Misbehaving sites as a file describes them, and answers that change with time."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import yaml

from config import clock
from tests.support.crawl_ports import LIST_OPTIONS, Site, paged_site, rows
from tests.support.misbehave import Answer, Request, page


def odd_yaml(urls: Mapping[str, str], interval_sec: float = 0.0, groups: Mapping[str, str] | None = None) -> str:
    """Return the text of a sites.yaml: for each code a site at its URL with one target of the same code.

    `groups` are globs of site codes by the key of their rate group.
    """
    return yaml.safe_dump({
        "rate_groups": [{"key": key, "site": glob} for key, glob in (groups or {}).items()],
        "sites": [{"site_code": code, "name": code, "base_url": url, "cms_adapter": "list", "targets": [
            {"target_code": code, "name": code, "interval_sec": interval_sec, "options": dict(LIST_OPTIONS)}]}
            for code, url in urls.items()]})


@contextmanager
def odd_sites(*codes: str, articles: int = 2) -> Iterator[dict[str, Site]]:
    """Serve a site with one list page for each code."""
    with ExitStack() as stack:
        served = {code: stack.enter_context(paged_site()) for code in codes}
        for site in served.values():
            site.show(rows(*range(1, articles + 1)))
        yield served


def once(first: Answer, then: Answer) -> Answer:
    """Answer the first request with `first`, all others with `then`."""
    return until(lambda number: number > 1, first, then)


def until(over: Callable[[int], bool], before: Answer, after: Answer) -> Answer:
    """Answer with `before` until `over`, asked with the number of the request, with `after` from then on."""
    count = 0

    def answer(conn: socket.socket, request: Request) -> bool:
        nonlocal count
        count += 1
        return (after if over(count) else before)(conn, request)

    return answer


def for_seconds(seconds: float, before: Answer, after: Answer) -> Answer:
    """Answer with `before` for so many seconds from the first request on."""
    since: list[clock.Stopwatch] = []

    def over(_number: int) -> bool:
        since.append(clock.Stopwatch())
        return since[0].elapsed() > seconds

    return until(over, before, after)


def slow(seconds: float, answer: Answer) -> Answer:
    """Think for so many seconds before each answer."""

    def answered(conn: socket.socket, request: Request) -> bool:
        clock.pause(seconds)
        return answer(conn, request)

    return answered


def asks_until(status: int, seconds: float, skew: timedelta = timedelta(0), **more: Any) -> Answer:
    """Answer that the client shall come back at a date, by a clock of the server's own."""

    def answer(conn: socket.socket, request: Request) -> bool:
        # dates carry whole seconds: what is left of this one is no part of the wait
        now = (datetime.now(UTC) + skew).replace(microsecond=0)
        return page("busy " * 200, status, retry_after=format_datetime(now + timedelta(seconds=seconds), usegmt=True),
                    date=format_datetime(now, usegmt=True), **more)(conn, request)

    return answer


def gaps(site: Site, path: str) -> list[float]:
    """Return the seconds between the requests for a path."""
    moments = [request.at for request in site.requests if request.path == path]
    return [later - earlier for earlier, later in pairwise(moments)]


def silence_after(site: Site, path: str) -> float:
    """Return the seconds between the first request for a path and whatever was asked next."""
    moments = [(request.at, request.path) for request in site.requests]
    first = next(number for number, (_, asked) in enumerate(moments) if asked == path)
    return moments[first + 1][0] - moments[first][0]
