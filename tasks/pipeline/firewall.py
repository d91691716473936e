"""What one walk remembers of its site's firewall, and what it makes of each answer (rule C1)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from config.clock import now
from config.errors import Evidence, HostCooldown
from tasks.pipeline import retry_after
from tasks.pipeline.access import MASK
from tasks.pipeline.fetcher import FetchFailed
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.target import TargetSpec
from tasks.pipeline.urls import host_key
from tasks.pipeline.waf import Memory, Seen, Sign, Verdict, judge

_EVIDENCE_CHARS = 2_000
#: a cookie's name and value, at the beginning or behind the comma that joins two headers (dates have commas too)
_COOKIE_VALUE = re.compile(r"((?:^|(?<=,))\s*[^=;,\s]+)=[^;,]*")
#: a block page comes twice in a row: so many bodies are remembered, and travel in the place of a parked attempt
_MOST_REMEMBERED, _MOST_BODIES = 1_000, 20
#: robots.txt that answers like this is asked again later (rule P4); the site's other pages are none of its business
_NOT_NOW = frozenset({429, 503})


#: stands for the block that the pause was for
BLOCKED_BEFORE = "blocked_before"


class Firewall:
    """Judges the answers of one walk; raises HostCooldown at a block."""

    def __init__(self, spec: TargetSpec, *, lone_403_is_weak: bool) -> None:
        self._off, self._extra, self._mask = spec.waf_off, spec.waf_extra, spec.mask
        self._memory = Memory(lone_403_is_weak=lone_403_is_weak)
        #: hash of an article's body → final URL of the first article that had it
        self._bodies: dict[str, str] = {}

    def document(self) -> dict[str, Any]:
        """Return the JSON-able form of what is remembered: two weak signs in a row may come in two attempts."""
        return {"answered": sorted(self._memory.answered), "weak": self._memory.weak,
                "bodies": dict(list(self._bodies.items())[-_MOST_BODIES:])}

    def recall(self, document: Mapping[str, Any]) -> None:
        """Remember what an earlier attempt's `document` holds; an empty one changes nothing."""
        self._memory = replace(
            self._memory, answered=frozenset(document.get("answered", ())), weak=document.get("weak", ""))
        self._bodies = dict(document.get("bodies", {}))

    def expect(self) -> None:
        """Take the next weak sign for the second in a row: the block before the pause was the first (rule C1).

        So a pause that was too short costs one refused request and no more.
        """
        self._memory = replace(self._memory, weak=BLOCKED_BEFORE)

    def judge(self, page: FetchedPage, *, has_expected: bool, is_article: bool = False) -> Verdict | None:
        """Return the sign in a page, None without one; an article is also compared with those before it."""
        seen = _seen(page, has_expected)
        verdict = self._ask(seen)
        if verdict is None and is_article and page.is_success and self._is_twin(page):
            seen = _seen(page, has_expected, sign="twin")
            verdict = self._ask(seen)
        self._memory = self._memory.after(seen, verdict)
        if verdict is not None and verdict.is_block:
            self._object(verdict, page)
        return verdict

    def judge_hop(self, hop: FetchedPage) -> None:
        """Look at a redirect before it is followed."""
        verdict = self._ask(_seen(hop, has_expected=False))
        if verdict is not None and verdict.is_block:
            self._object(verdict, hop)

    def judge_failure(self, error: FetchFailed) -> None:
        """Look at a request to which no whole response came."""
        if error.kind not in ("loop", "reset"):
            return
        sign: Sign = "loop" if error.kind == "loop" else "reset"
        hop = error.page or FetchedPage(error.url, error.url, 0, {}, b"")
        seen = Seen(error.url, host_key(hop.final_url), hop.status or None, hop.headers, hop.cookies, sign=sign)
        verdict = self._ask(seen)
        self._memory = self._memory.after(seen, verdict)
        if verdict is not None and verdict.is_block:
            self._object(verdict, hop)

    def hear(self, host: str) -> None:
        """Note that robots.txt of a host answered, lately: a connection that it resets now is no first contact."""
        self._memory = replace(self._memory, heard=self._memory.heard | {host})

    def judge_robots(self, page: FetchedPage) -> None:
        """Look at what robots.txt answered: only sure signs count, and 429 and 503 have a rule of their own (P4).

        A refusal there says nothing about the pages, so it is neither remembered nor a weak sign.
        """
        is_rules = page.is_success and not page.body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
        verdict = judge(_seen(page, has_expected=is_rules), Memory(), self._off, self._extra)
        if verdict is None or not verdict.is_block or (page.status in _NOT_NOW and verdict.kind == "rate"):
            return
        self._object(verdict, page)

    def _object(self, verdict: Verdict, page: FetchedPage) -> NoReturn:
        """Raise HostCooldown with what the site sent, which may hold what it was sent (rule U6)."""
        mask = self._mask
        headers = {name: mask(_without_values(value) if name == "set-cookie" else value)
                   for name, value in page.headers.items()}
        evidence = Evidence(
            kind=verdict.kind, status=page.status or None, url=mask(page.url), signs=verdict.signs, headers=headers,
            body=mask(page.beginning[: 2 * _EVIDENCE_CHARS])[:_EVIDENCE_CHARS],
            hops=tuple(mask(hop) for hop in (*page.hops, page.final_url)) if page.hops else (),
            retry_after_raw=page.headers.get("retry-after"))
        raise HostCooldown(evidence, wait_asked(page))

    def _ask(self, seen: Seen) -> Verdict | None:
        return judge(seen, self._memory, self._off, self._extra)

    def _is_twin(self, page: FetchedPage) -> bool:
        body = hashlib.sha256(page.body).hexdigest()
        first = self._bodies.pop(body, page.final_url)
        # in the order in which they came last: what keeps coming is never forgotten
        self._bodies[body] = first
        if len(self._bodies) > _MOST_REMEMBERED:
            del self._bodies[next(iter(self._bodies))]
        return first != page.final_url


def wait_asked(page: FetchedPage) -> float | None:
    """Return how many seconds the server asks to wait, None if it does not or not in a readable way."""
    return retry_after.parse(page.headers.get("retry-after"), page.headers.get("date"), now())


def _seen(page: FetchedPage, has_expected: bool, sign: Sign = "response") -> Seen:
    return Seen(
        url=page.final_url, host=host_key(page.final_url), status=page.status, headers=page.headers,
        cookies=page.cookies, body=page.beginning, location=page.location, has_expected=has_expected, sign=sign,
    )


def _without_values(cookies: str) -> str:
    """Return a Set-Cookie header with its names alone: the values are keys to the session."""
    return _COOKIE_VALUE.sub(r"\1=" + MASK, cookies)
