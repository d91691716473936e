"""A served site, its database and its workers together: what the tests with real processes are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from console.demo import DemoServer, Entry, Politeness, Site, Waf, judge
from tests.support.site import sites_yaml
from tests.support.store import Store

#: the wall clock, which the database reckons with, may be slewed against the monotonic one, which the site reckons with
CLOCKS_SEC = 0.002
GROUP = "fleet"


class Fleet:
    """Served and loaded sites: of one rate group, or each of its own."""

    def __init__(self, server: DemoServer, interval_sec: float, group: str | None) -> None:
        self.server, self.interval_sec = server, interval_sec
        self._groups = {site.netloc: group or site.netloc for site in server.sites}

    @property
    def log(self) -> list[Entry]:
        """What the sites were asked so far, in the order of the ends of the responses."""
        return self.server.log.entries

    def paths(self, since: float = float("-inf")) -> list[str]:
        """Return the paths that were asked for since a moment of the monotonic clock."""
        return [entry.path for entry in self.log if entry.started >= since]

    def by(self, user_agent: str, since: float = float("-inf")) -> list[Entry]:
        """Return what one worker has asked for since a moment of the monotonic clock."""
        return [entry for entry in self.log if entry.user_agent == user_agent and entry.started >= since]

    def judged(self) -> Politeness:
        """Return how polite all requests of the group were, in the sites' own eyes."""
        return judge(self.log, self._groups, self.interval_sec, CLOCKS_SEC)

    def longest_silence(self) -> float:
        """Return the longest time in seconds for which a group was not asked for anything, between two requests."""
        longest = 0.0
        for group in set(self._groups.values()):
            asked = sorted((one for one in self.log if self._groups[one.host] == group), key=lambda one: one.started)
            longest = max([longest, *(after.started - before.ended for before, after in pairwise(asked))])
        return longest

    def assert_polite(self) -> None:
        """Fail if two requests of the group overlapped or came too soon after each other (rules R3, R8)."""
        found = self.judged()
        assert not found.overlaps, found.overlaps[:2]
        assert not found.short_gaps, found.short_gaps[:2]

    def read_again(self) -> dict[str, tuple[int, int]]:
        """Return, by host, how many list pages and articles were answered more often than once (robots.txt aside)."""
        times = Counter((entry.host, entry.path) for entry in self.log if entry.status == 200)
        again: dict[str, tuple[int, int]] = {}
        for (host, path), number in times.items():
            pages, articles = again.get(host, (0, 0))
            if "/index_" in path:
                pages += number - 1
            elif path != "/robots.txt":
                articles += number - 1
            again[host] = pages, articles
        return again

    def assert_whole(self, store: Store, most: int = 1) -> None:
        """Fail unless every article of every column is stored, and at most `most` articles were read again.

        Of list pages it is one more: behind a checkpoint the page before is looked at again, because rows may have moved.
        """
        for site in self.server.sites:
            for column in site.columns:
                assert store.stored(f"{site.name}_{column}") == sorted(site.article_urls(column))
        for host, (pages, articles) in self.read_again().items():
            assert pages <= most + 1, (host, pages)
            assert articles <= most, (host, articles)


@contextmanager
def fleet(
    store: Store, sites: Sequence[Site] | None = None, *, interval_sec: float = 0.2, wafs: Sequence[Waf] = (),
    articles: int = 12, per_page: int = 4, grouped: bool = True, group: str = GROUP, **extra: Any,
) -> Iterator[Fleet]:
    """Serve `sites` (one with a column ``news`` if none are given) and load them into `store`, as one group or apart.

    `extra` are further top-level keys of the loaded file.
    """
    served = list(sites or [Site("gd-one", columns={"news": articles}, per_page=per_page)])
    with DemoServer(served, wafs) as server:
        rules = [{"key": group, "site": site.name} for site in served] if grouped else []
        store.load(sites_yaml(served, interval_sec, rules, **extra))
        yield Fleet(server, interval_sec, group if grouped else None)
