"""A firewall in front of one or more demo sites, with the behaviours that real ones show."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime
from fnmatch import fnmatchcase
from typing import Literal, get_args

from config import clock

Behaviour = Literal[
    "rate_429", "block_403", "busy_503", "challenge_412", "soft_200", "reset", "close", "slow", "drip"
]
_PAGE = "<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
_CHALLENGE = (
    '<html><head><meta charset="utf-8"><script>var _$td="qK0";document.cookie="wzws_cid="+_$td;'
    "location.reload();</script></head><body></body></html>"
)


@dataclass(frozen=True)
class Answer:
    """A whole response: what the handler sends unless the behaviour is about *how* it is sent."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class Waf:
    """Objects to requests to `hosts` (names of sites; all of them if empty), as one counter for all of them.

    It trips at the request after `after_requests` others, and at any request whose path matches a glob of `at_paths`;
    then it objects to everything for `lasts_sec` (0: to that one request), `trips` times in all (None: without end).
    `retry_after` is the header of an objection: a number is sent as it is, ``"date"`` as the HTTP date of the end.
    With `extends`, a request during the ban starts its time anew. `delay_sec` is what `slow` waits before it answers
    and `drip` waits between two bytes.
    """

    hosts: Collection[str] = ()
    behaviour: Behaviour = "block_403"
    after_requests: int | None = None
    at_paths: Collection[str] = ()
    lasts_sec: float = 2.0
    trips: int | None = 1
    counts_robots: bool = False
    retry_after: int | str | None = None
    extends: bool = False
    delay_sec: float = 5.0

    def __post_init__(self) -> None:
        if self.behaviour not in get_args(Behaviour):
            raise ValueError(f"no behaviour is called {self.behaviour!r}; there are {', '.join(get_args(Behaviour))}")
        self._guard = threading.Lock()
        self._counted = 0
        self._tripped = 0
        self._until: float | None = None

    @property
    def tripped(self) -> int:
        """How often it has tripped so far."""
        return self._tripped

    def objects(self, site: str, path: str) -> bool:
        """Count a request to `path` of `site` and say whether it is objected to."""
        if self.hosts and site not in self.hosts:
            return False
        with self._guard:
            moment = clock.monotonic()
            if self._until is not None and moment < self._until:
                self._until = moment + self.lasts_sec if self.extends else self._until
                return True
            if path == "/robots.txt" and not self.counts_robots:
                return False
            self._counted += 1
            full = self.after_requests is not None and self._counted > self.after_requests
            if not full and not any(fnmatchcase(path, glob) for glob in self.at_paths):
                return False
            if self.trips is not None and self._tripped >= self.trips:
                return False
            self._tripped, self._counted, self._until = self._tripped + 1, 0, moment + self.lasts_sec
            return True

    def answer(self) -> Answer | None:
        """Return the objection as a response; None if it is not one of words (reset, close, slow, drip)."""
        match self.behaviour:
            case "rate_429":
                return self._page(429, "Too Many Requests")
            case "block_403":
                return self._page(403, "Forbidden")
            case "busy_503":
                return self._page(503, "Service Temporarily Unavailable")
            case "soft_200":
                return self._page(200, "访问过于频繁，请稍后再试")
            case "challenge_412":
                return Answer(412, _CHALLENGE.encode(), {**_HTML, "Set-Cookie": "wzws_sessionid=demo; path=/"})
            case _:
                return None

    def _page(self, status: int, title: str) -> Answer:
        headers = dict(_HTML)
        if self.retry_after == "date":
            end = clock.now() + timedelta(seconds=self.lasts_sec)
            headers["Retry-After"] = format_datetime(end, usegmt=True)
        elif self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        return Answer(status, _PAGE.format(title=title).encode(), headers)


_HTML = {"Content-Type": "text/html; charset=utf-8"}
