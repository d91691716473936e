"""robots.txt by RFC 9309 (rule P4): refusals mean "no rules", failures mean "not now".

"Not now" is stored like an answer: while it holds, no other target of the host asks again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from protego import Protego

from config.errors import Parked
from tasks.pipeline.fetcher import Fetcher, FetchFailed
from tasks.pipeline.firewall import Firewall, wait_asked
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.ports import Gate, Journal, RobotsCopy
from tasks.pipeline.target import TargetSpec
from tasks.pipeline.urls import host_key

MAX_AGE_SEC = 86_400.0
MAX_BYTES = 500 * 1024
MAX_DELAY_SEC = 300.0


class HostUnreachable(Exception):
    """Nobody answers at the host at all: a failure like that of any page, not a rule to wait for."""


class Robots:
    """What the hosts of one crawl allow; each host's file is read once a crawl and at most once a day."""

    def __init__(
        self, fetcher: Fetcher, journal: Journal, gate: Gate, spec: TargetSpec, firewall: Firewall
    ) -> None:
        self._fetcher, self._journal, self._gate, self._firewall = fetcher, journal, gate, firewall
        self._scope, self._again_sec = spec.scope, spec.robots_retry_sec
        self._agent = product_token(spec.user_agent)
        self._rules: dict[str, Any] = {}
        self._copies: dict[str, RobotsCopy] = {}
        #: host → what was decided and why, for the crawl's record
        self.decisions: dict[str, str] = {}
        #: told directly before a host is asked, which may have to wait for the group's turn
        self.on_ask: Callable[[], None] = lambda: None

    def allowed(self, url: str) -> bool:
        """Tell whether robots.txt lets us fetch `url`; asks the host if need be.

        Raises Parked("robots_unreachable") if the host answers 5xx, 429 or not in time, or did so a while ago;
        HostCooldown at a block, HostUnreachable if nobody is there, and whatever the gate raises.
        """
        host = host_key(url)
        if host not in self._rules:
            self._learn(host, url)
        rules = self._rules[host]
        return True if rules is None else bool(rules.can_fetch(url, self._agent))

    def page(self, url: str) -> FetchedPage:
        """Return the robots.txt of a host whose rules are known as the page that it was, without asking again."""
        copy = self._copies[host_key(url)]
        return FetchedPage(url, url, copy.status, {"content-type": "text/plain; charset=utf-8"}, copy.text.encode())

    def _learn(self, host: str, url: str) -> None:
        copy = self._journal.robots(host)
        if copy is None or not 0 <= copy.age_sec < self._holds_sec(copy):
            self.on_ask()
            copy = self._ask(host, url)
            self._journal.keep_robots(copy)
        if copy.decision == "not_now":
            self.decisions[host] = f"not now: {copy.text}"
            raise Parked("robots_unreachable", self._holds_sec(copy) - copy.age_sec,
                         f"robots.txt of {host}: {copy.text}")
        self.decisions[host] = f"{copy.status} {copy.decision}"
        self._copies[host] = copy
        if copy.status:
            self._firewall.hear(host)
        rules = Protego.parse(copy.text) if copy.decision == "rules" else None
        self._rules[host] = rules
        if rules is not None and (delay := _delay_of(rules, self._agent)) > 0:
            self._gate.require_delay(host, delay)

    def _holds_sec(self, copy: RobotsCopy) -> float:
        """Return for how long a copy holds: a server that asks for a longer wait than ours gets it."""
        return max(self._again_sec, copy.wait_sec) if copy.decision == "not_now" else MAX_AGE_SEC

    def _ask(self, host: str, url: str) -> RobotsCopy:
        address = f"{urlsplit(url).scheme}://{host}/robots.txt"
        try:
            page = self._fetcher.fetch(address, scope=self._scope, max_bytes=MAX_BYTES, cut=True, inspect=self._inspect)
        except FetchFailed as error:
            if error.kind == "loop":
                self._firewall.judge_failure(error)
            if error.kind in ("redirects", "loop", "private"):
                return RobotsCopy(host, 0, "", "allow_all")
            if error.kind == "unreachable":
                raise HostUnreachable(f"robots.txt of {host}: {error}") from error
            return RobotsCopy(host, 0, str(error)[:500], "not_now")
        self._firewall.judge_robots(page)
        if page.status == 429 or page.status >= 500:
            return RobotsCopy(host, page.status, f"status {page.status}", "not_now", wait_sec=wait_asked(page) or 0.0)
        if not page.is_success:
            return RobotsCopy(host, page.status, "", "allow_all")
        return RobotsCopy(host, page.status, _text(page), "rules")

    def _inspect(self, hop: FetchedPage) -> str:
        self._firewall.judge_robots(hop)
        return ""


def _text(page: FetchedPage) -> str:
    """Decode as UTF-8; a byte order mark would make the parser overlook the first group."""
    return page.body.decode("utf-8-sig", "replace").replace("\x00", "")


def crawl_delay(text: str, user_agent: str) -> float:
    """Return the seconds that a robots.txt asks `user_agent` to leave between requests, at most five minutes; or 0."""
    return _delay_of(Protego.parse(text), product_token(user_agent))


def _delay_of(rules: Any, agent: str) -> float:
    delay = rules.crawl_delay(agent)
    return 0.0 if delay is None else min(max(0.0, float(delay)), MAX_DELAY_SEC)


def product_token(user_agent: str) -> str:
    """Return the name that robots.txt calls a user agent by: what stands before the first slash or blank."""
    return (user_agent.replace("/", " ").split() or ["*"])[0]
