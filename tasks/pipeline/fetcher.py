"""Fetches one URL politely: each request and each redirect hop through the gate, within time, size and scope (rule P4)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import httpcore2
import httpx2

from config.clock import monotonic
from tasks.pipeline.answer import ASKED_FOR, Answer
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.ports import Gate, RequestRecord
from tasks.pipeline.spool import Spool
from tasks.pipeline.transport import AddressRefused, Budget, Transport, is_handshake
from tasks.pipeline.urls import Scope, bare_host, canonical, host_key, is_private

MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: headers that are the site's own business: other hosts of its group do not get them
_SECRET = frozenset({"authorization", "cookie", "proxy-authorization"})
#: what every request says, unless its site's options say otherwise
_HEADERS = {
    "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "accept-encoding": "gzip, deflate", "connection": "keep-alive", "accept-language": "zh-CN,zh;q=0.9,en;q=0.6"}

#: looks at a redirect before it is followed; returns "" to follow it or the reason why not, or raises
Inspect = Callable[[FetchedPage], str]

#: everything that the wire can throw at a request
_WIRE_ERRORS = (
    httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol, httpx2.HTTPError, httpx2.InvalidURL, AddressRefused,
)


class FetchFailed(Exception):
    """No whole response came. `kind`: ``timeout``, ``reset``, ``unreachable``, ``truncated``, ``malformed``,
    ``too_large``, ``undecodable``, ``private``, ``redirects`` or ``loop``; `page` the last redirect, where there was one.
    """

    def __init__(self, kind: str, url: str, detail: str, page: FetchedPage | None = None) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.url, self.detail, self.page = kind, url, detail, page

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.url, self.detail, self.page)


class TooLarge(Exception):
    """The body is longer than allowed."""


_KINDS: tuple[tuple[str, tuple[type[Exception], ...]], ...] = (
    ("private", (AddressRefused,)),
    ("too_large", (TooLarge,)),
    ("undecodable", (httpx2.DecodingError,)),
    ("timeout", (httpcore2.TimeoutException, httpx2.TimeoutException)),
)


class Fetcher:
    """One crawl's client: its connections and cookies live as long as it does.

    `auth` (user, password), `cookies` and the headers called `secret_headers` go to the home of a fetch's scope alone,
    other `headers` to every host; if it `is_secure` they go there over HTTPS alone. `proxy` is a URL, `verify` False
    or an SSL context of the caller's. `mask` takes secrets out of what errors say; `legacy_tls` see `Transport`.
    `max_long_bytes` is the limit of bodies that are read in pieces, `max_body_bytes` of all others.
    """

    def __init__(
        self, gate: Gate, *, user_agent: str, timeout_sec: float = 20.0, max_body_bytes: int = 10_000_000,
        headers: Mapping[str, str] | None = None, cookies: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None, proxy: str | None = None, verify: Any = True,
        secret_headers: frozenset[str] = frozenset(), legacy_tls: bool = False, mask: Callable[[str], str] = str,
        is_secure: bool = False, max_long_bytes: int = 60_000_000,
    ) -> None:
        self.gate, self.user_agent = gate, user_agent
        self.timeout_sec, self.max_body_bytes, self.max_long_bytes = timeout_sec, max_body_bytes, max_long_bytes
        self._budget = Budget()
        self._auth, self._cookies, self._mask = auth, dict(cookies or {}), mask
        self._is_secure, self._is_legacy, self._planted = is_secure, legacy_tls, False
        self._headers, self._secret = dict(headers or {}), _SECRET | secret_headers
        self._transport = Transport(self._budget, verify=verify, proxy=proxy, legacy_tls=legacy_tls)
        self._jar = httpx2.Cookies()
        #: the headers of requests that have none of their own and no cookies, at home and elsewhere
        self._usual: dict[bool, list[tuple[bytes, bytes]]] = {}

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def fetch(
        self, url: str, *, scope: Scope | None = None, headers: Mapping[str, str] | None = None,
        max_bytes: int | None = None, cut: bool = False, inspect: Inspect | None = None,
        conditions: Mapping[str, str] | None = None, in_pieces: bool = False,
    ) -> FetchedPage:
        """Return what `url` answers, after at most five redirects; each hop is a request of its own at the gate.

        `scope` None allows every host. `cut` keeps the first `max_bytes` of a longer body instead of failing.
        `conditions` are headers that mean this very URL: no redirect hop gets them. `in_pieces`: a long body comes in a
        file, which the caller closes. Raises FetchFailed, Parked if the disk is full, and whatever the gate raises.
        """
        limit = max_bytes or (self.max_long_bytes if in_pieces else self.max_body_bytes)
        hops: list[str] = []
        here, looped = url, False
        while True:
            sent = headers if hops else {**(headers or {}), **(conditions or {})}
            page = self._once(url, here, tuple(hops), scope, sent, limit, cut, in_pieces)
            if page.status not in _REDIRECTS or not page.location:
                return page
            target = page.location
            if looped and target == here:
                raise FetchFailed("loop", url, f"{here} redirects to itself", page)
            looped = target == here
            reason = _refusal(target, scope) or (inspect(page) if inspect is not None else "")
            if reason:
                return replace(page, stopped=reason)
            if len(hops) >= MAX_REDIRECTS:
                kind = "loop" if target in hops else "redirects"
                raise FetchFailed(kind, url, f"more than {MAX_REDIRECTS} redirects", page)
            hops.append(here)
            here = target

    def _once(
        self, asked: str, url: str, hops: tuple[str, ...], scope: Scope | None, headers: Mapping[str, str] | None,
        limit: int, cut: bool, in_pieces: bool,
    ) -> FetchedPage:
        attempt = _Attempt(self.gate, url)
        self._budget.ends, self._budget.scope = monotonic() + self.timeout_sec, scope
        is_home = (scope is None or attempt.host == scope.home) and not (self._is_secure and url.startswith("http:"))
        self._plant_cookies(scope, is_home)
        self._budget.on_write = attempt.sends
        try:
            answer = self._transport.send(url, self._sent(url, headers, is_home))
            try:
                attempt.status, attempt.answered = answer.status, monotonic()
                self._hear_cookies(url, answer)
                body = self._read(answer, attempt, limit, cut, in_pieces)
            finally:
                answer.close()
        except (*_WIRE_ERRORS, TooLarge) as error:
            kind = _kind(error, attempt)
            detail = self._mask(str(error)) + self._hint(url, error)
            attempt.end(f"{type(error).__name__}: {detail}")
            raise FetchFailed(kind, asked, detail or type(error).__name__) from error
        except BaseException as error:
            if attempt.is_written:
                attempt.end(self._mask(f"{type(error).__name__}: {error}"))
            raise
        attempt.end("")
        return _page(asked, url, hops, answer, body, attempt.bytes, limit)

    def _sent(self, url: str, more: Mapping[str, str] | None, is_home: bool) -> list[tuple[bytes, bytes]]:
        """Return the headers of a request, `more` of its own among them, with what is the site's business if `is_home`."""
        if not more and not self._jar and is_home in self._usual:
            return self._usual[is_home]
        given = {name: value for name, value in {**self._headers, **(more or {})}.items()
                 if is_home or name.lower() not in self._secret}
        found = httpx2.Headers({**_HEADERS, "user-agent": self.user_agent})
        found.update(given)
        if self._auth is not None and is_home:
            found["authorization"] = _basic(*self._auth)
        if not more and not self._jar:
            self._usual[is_home] = found.raw
        if self._jar:
            request = httpx2.Request("GET", url, headers=found)
            self._jar.set_cookie_header(request)
            found = request.headers
            found.pop("host", None)
        return found.raw

    def _hear_cookies(self, url: str, answer: Answer) -> None:
        """Keep the cookies that an answer sets."""
        if "set-cookie" in answer.headers:
            self._jar.extract_cookies(
                httpx2.Response(answer.status, headers=answer.raw_headers, request=httpx2.Request("GET", url)))

    def _hint(self, url: str, error: Exception) -> str:
        is_old = url.startswith("https:") and isinstance(error, httpcore2.ConnectError) and is_handshake(error)
        if self._is_legacy or not is_old:
            return ""
        return " (an old server? `legacy_tls: true` of the site tries what it may speak)"

    def _plant_cookies(self, scope: Scope | None, is_home: bool) -> None:
        """Have the configured cookies in the jar for requests to the site's own host alone.

        A jar's own rules would send them to subdomains and other ports as well. One that the site has set anew is its.
        """
        if is_home == self._planted:
            return
        self._planted = is_home
        jar, domain = self._jar, "" if scope is None else bare_host(scope.home)
        for name, value in self._cookies.items():
            if is_home:
                jar.set(name, value, domain=domain)
            else:
                for cookie in [cookie for cookie in jar.jar if (cookie.name, cookie.value) == (name, value)]:
                    jar.jar.clear(cookie.domain, cookie.path, cookie.name)

    def _read(self, answer: Answer, attempt: _Attempt, limit: int, cut: bool, in_pieces: bool) -> Spool:
        declared = answer.headers.get("content-length", "")
        if not cut and declared.isascii() and declared.isdigit() and int(declared) > limit:
            raise TooLarge(f"{declared} bytes announced, {limit} allowed")
        # what was not asked for, and each further layer, can unpack a single piece to any size at once (W89)
        packed = answer.packings()
        if len(packed) > 1 or not set(packed) <= ASKED_FOR:
            raise httpx2.DecodingError(f"packed as {', '.join(packed)}, which was not asked for")
        body = Spool(to_file=in_pieces and 200 <= answer.status < 300)
        try:
            for piece in answer.body():
                body.write(piece)
                attempt.bytes = answer.received
                self._budget.left(httpcore2.ReadTimeout)
                if body.size > limit:
                    if cut:
                        break
                    raise TooLarge(f"more than {limit} bytes")
        except BaseException:
            body.close()
            raise
        return body


class _Attempt:
    """One request on its way: when it started and ended, and its row for the gate."""

    def __init__(self, gate: Gate, url: str) -> None:
        self._gate, self.url, self.host = gate, url, host_key(url)
        self._interval_sec = gate.before_request(self.host)
        self.started = monotonic()
        self.is_written = False
        self.status: int | None = None
        self.answered: float | None = None
        self.bytes = 0

    def sends(self) -> None:
        """Hear from the connection; the lease is checked in the last moment before the first byte (rule J6)."""
        self._gate.check()
        self.started = monotonic()
        self.is_written = True

    def end(self, error: str) -> None:
        """Tell the gate that the response, or the failure, is over."""
        self._gate.after_request(
            RequestRecord(
                self.url, self.host, self.started, monotonic(), self.status, self.bytes, error[:500],
                self._interval_sec, self.answered,
            )
        )


def _kind(error: Exception, attempt: _Attempt) -> str:
    for kind, types in _KINDS:
        if isinstance(error, types):
            return kind
    if isinstance(error.__cause__, ConnectionResetError) and attempt.status is None:
        return "reset"
    if not attempt.is_written:
        return "unreachable"
    if attempt.status is not None:
        return "truncated"
    hung_up = isinstance(error, httpcore2.NetworkError) or "disconnected without sending" in str(error)
    return "reset" if hung_up else "malformed"


def _refusal(target: str, scope: Scope | None) -> str:
    if scope is None or scope.covers(target):
        return ""
    bare = bare_host(host_key(target))
    return "private" if is_private(bare) or bare == "localhost" else "outside"


def _basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode("ascii")


def _page(
    asked: str, url: str, hops: tuple[str, ...], answer: Answer, body: Spool, received: int, limit: int
) -> FetchedPage:
    cookies = tuple(line.partition("=")[0].strip() for line in answer.all_of("set-cookie"))
    location = ""
    if answer.status in _REDIRECTS and (raw := answer.headers.get("location", "")):
        try:
            location = canonical(raw, base=url)
        except ValueError:
            location = ""
    return FetchedPage(asked, url, answer.status, answer.headers, body.body(limit), hops, cookies, location, "", received,
                       body.file, limit)
