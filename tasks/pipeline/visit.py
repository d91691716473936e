"""Asks for single pages of a site that are no list and no article of a target: politely, but without an adapter."""

from __future__ import annotations

from collections.abc import Callable

from tasks.pipeline.fetcher import Fetcher, FetchFailed
from tasks.pipeline.firewall import Firewall
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.ports import Gate, Journal
from tasks.pipeline.robots import HostUnreachable, Robots
from tasks.pipeline.target import TargetSpec

#: judges whether a page that answered holds what was expected (rule C1)
Expected = Callable[[FetchedPage], bool]


class NoAnswer(Exception):
    """Nothing came, or nothing may be asked for: `is_allowed` False if robots.txt says so."""

    def __init__(self, reason: str, *, is_allowed: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.is_allowed = reason, is_allowed


class Visitor:
    """Visits pages of one site: robots.txt first, each answer judged by what the firewall does (rules P4, C1)."""

    def __init__(self, spec: TargetSpec, fetcher: Fetcher, journal: Journal, gate: Gate) -> None:
        self.scope, self._fetcher = spec.scope, fetcher
        self._firewall = Firewall(spec, lone_403_is_weak=False)
        self.robots = Robots(fetcher, journal, gate, spec, self._firewall)

    def page(self, url: str, *, expected: Expected, follow: bool = True) -> FetchedPage:
        """Return what `url` answers; with `follow` False a redirect is the answer, so that there is one request.

        Raises NoAnswer, HostCooldown at a block, Parked if robots.txt cannot be had now, and whatever the gate raises.
        """
        try:
            if not self.robots.allowed(url):
                raise NoAnswer("robots.txt disallows it", is_allowed=False)
        except HostUnreachable as error:
            raise NoAnswer(str(error)) from error
        try:
            page = self._fetcher.fetch(url, scope=self.scope, inspect=self._inspect if follow else _stop)
        except FetchFailed as error:
            self._firewall.judge_failure(error)
            raise NoAnswer(str(error)) from error
        self._firewall.judge(page, has_expected=page.is_success and expected(page))
        return page

    def _inspect(self, hop: FetchedPage) -> str:
        self._firewall.judge_hop(hop)
        try:
            return "" if self.robots.allowed(hop.location) else "robots"
        except HostUnreachable:
            return "robots"


def _stop(_hop: FetchedPage) -> str:
    return "one request"
