"""robots.txt by RFC 9309 (rule P4): refusals mean "no rules", failures mean "not now"."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from protego import Protego

from config.clock import now
from config.errors import Parked
from tasks.pipeline.fetcher import Fetcher, FetchFailed
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.ports import Gate, Journal, RobotsCopy
from tasks.pipeline.urls import Scope, host_key

MAX_AGE = timedelta(days=1)
MAX_BYTES = 500 * 1024
MAX_DELAY_SEC = 300.0
AGAIN_SEC = 1800.0


class HostUnreachable(Exception):
    """Nobody answers at the host at all: a failure like that of any page, not a rule to wait for."""


class Robots:
    """What the hosts of one crawl allow; each host's file is read once a crawl and at most once a day."""

    def __init__(self, fetcher: Fetcher, journal: Journal, gate: Gate, scope: Scope, user_agent: str) -> None:
        self._fetcher, self._journal, self._gate, self._scope = fetcher, journal, gate, scope
        self._agent = product_token(user_agent)
        self._rules: dict[str, Any] = {}
        #: host → what was decided and why, for the crawl's record
        self.decisions: dict[str, str] = {}

    def allowed(self, url: str) -> bool:
        """Tell whether robots.txt lets us fetch `url`; asks the host if need be.

        Raises Parked("robots_unreachable") if the host answers 5xx, 429 or not at all, and whatever the gate raises.
        """
        host = host_key(url)
        if host not in self._rules:
            self._learn(host, url)
        rules = self._rules[host]
        return True if rules is None else bool(rules.can_fetch(url, self._agent))

    def _learn(self, host: str, url: str) -> None:
        copy = self._journal.robots(host)
        if copy is None or not timedelta(0) <= now() - copy.fetched_at < MAX_AGE:
            copy = self._ask(host, url)
            self._journal.keep_robots(copy)
        self.decisions[host] = f"{copy.status} {copy.decision}"
        rules = Protego.parse(copy.text) if copy.decision == "rules" else None
        self._rules[host] = rules
        delay = None if rules is None else rules.crawl_delay(self._agent)
        if delay is not None and delay > 0:
            self._gate.require_delay(host, min(float(delay), MAX_DELAY_SEC))

    def _ask(self, host: str, url: str) -> RobotsCopy:
        address = f"{urlsplit(url).scheme}://{host}/robots.txt"
        try:
            page = self._fetcher.fetch(address, scope=self._scope, max_bytes=MAX_BYTES, cut=True)
        except FetchFailed as error:
            if error.kind in ("redirects", "loop", "private"):
                return RobotsCopy(host, 0, "", now(), "allow_all")
            if error.kind == "unreachable":
                raise HostUnreachable(f"robots.txt of {host}: {error}") from error
            raise self._not_now(host, str(error)) from error
        if page.status == 429 or page.status >= 500:
            raise self._not_now(host, f"status {page.status}")
        if not 200 <= page.status < 300:
            return RobotsCopy(host, page.status, "", now(), "allow_all")
        return RobotsCopy(host, page.status, _text(page), now(), "rules")

    def _not_now(self, host: str, why: str) -> Parked:
        self.decisions[host] = f"not now: {why}"
        return Parked("robots_unreachable", AGAIN_SEC, f"robots.txt of {host}: {why}")


def _text(page: FetchedPage) -> str:
    """Decode as UTF-8; a byte order mark would make the parser overlook the first group."""
    return page.body.decode("utf-8-sig", "replace").replace("\x00", "")


def product_token(user_agent: str) -> str:
    """Return the name that robots.txt calls a user agent by: what stands before the first slash or blank."""
    return (user_agent.replace("/", " ").split() or ["*"])[0]
