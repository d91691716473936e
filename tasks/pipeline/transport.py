"""The way to the wire: HTTP/1.1 connections that obey one deadline and reach no address they must not.

A library's read time-out starts anew with each byte that drips in, so the deadline is held where the bytes pass:
every connect, handshake, read and write gets what is left of the request's time (rule P4, public report W89). The
address that was judged is the one that is connected to, so that no second answer of the name server can slip in.
"""

from __future__ import annotations

import queue
import re
import socket
import ssl
import threading
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import httpcore2
import httpx2

from config.clock import monotonic
from tasks.pipeline.answer import Answer
from tasks.pipeline.urls import Scope, is_private
from tasks.pipeline.wires import IDLE_SEC, Asked, Wires

#: OpenSSL's SSL_OP_LEGACY_SERVER_CONNECT, which Python names from 3.12 on
_OP_LEGACY_SERVER_CONNECT = 0x4


#: URLs in which there is nothing to escape and nothing to make out: nearly all of them
_PLAIN = re.compile(r"(https?)://([a-z0-9.-]+)(?::([0-9]{1,5}))?(/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?")


class AddressRefused(Exception):
    """The host's address is private and not the site's own: no connection is made (rule P4)."""


class Budget:
    """The time and the reach of the request under way."""

    def __init__(self) -> None:
        self.ends = 0.0
        self.scope: Scope | None = None
        #: told directly before each byte string of a request is written (to a proxy as well); may raise
        self.on_write: Callable[[], None] = lambda: None

    def left(self, error: type[Exception]) -> float:
        """Return the seconds that are left; raises `error` if there are none."""
        rest = self.ends - monotonic()
        if rest <= 0:
            raise error("the time limit of the request is over")
        return rest


# The time-outs that the library passes along are replaced by what is left of the budget.
class _Stream(httpcore2.NetworkStream):
    """A connection whose every wait is cut to what is left of the budget."""

    def __init__(self, inner: httpcore2.NetworkStream, budget: Budget) -> None:
        self._inner, self._budget = inner, budget

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._budget.left(httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            self._budget.on_write()
        self._inner.write(buffer, self._budget.left(httpcore2.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        left = self._budget.left(httpcore2.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._budget)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore2.NetworkBackend):
    """Connects within the budget, to addresses within the scope."""

    def __init__(self, budget: Budget, judges_addresses: bool) -> None:
        self._inner, self._budget, self._judges = httpcore2.SyncBackend(), budget, judges_addresses

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        addresses = self._addresses(host, port)
        for number, address in enumerate(addresses, start=1):
            # One dead address of several must not use up the time of the others.
            left = self._budget.left(httpcore2.ConnectTimeout) / (len(addresses) - number + 1)
            try:
                stream = self._inner.connect_tcp(address, port, left, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if number == len(addresses):
                    raise
                continue
            return _Stream(stream, self._budget)
        raise httpcore2.ConnectError(f"{host} has no address")

    def _addresses(self, host: str, port: int) -> list[str]:
        addresses = _resolve(host, port, self._budget.left(httpcore2.ConnectTimeout))
        scope = self._budget.scope
        if not self._judges or scope is None or scope.names(_key(host, port)):
            return addresses
        refused = [address for address in addresses if is_private(address) and address not in scope.own_addresses]
        if refused:
            raise AddressRefused(f"{host} is at the private address {refused[0]}")
        return addresses


def _key(host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port in (80, 443) else f"{name}:{port}"


def _resolve(host: str, port: int, left: float) -> list[str]:
    """Ask for the addresses of a host for at most `left` seconds: the system's resolver knows no time limit."""
    answers: queue.SimpleQueue[list[Any] | OSError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
        except (OSError, UnicodeError) as error:
            answers.put(error if isinstance(error, OSError) else OSError(str(error)))

    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        answer = answers.get(timeout=left)
    except queue.Empty:
        raise httpcore2.ConnectTimeout(f"no address of {host} in time") from None
    if isinstance(answer, OSError):
        raise httpcore2.ConnectError(str(answer)) from answer
    return list(dict.fromkeys(str(entry[4][0]) for entry in answer))


@cache
def _context(verify: bool) -> ssl.SSLContext:
    """Load the certificates once for the process: crawls come and go by the thousand."""
    return httpx2.create_ssl_context(verify, trust_env=False)


def relaxed(verify: ssl.SSLContext | bool) -> ssl.SSLContext:
    """Return a context for servers that speak no better: TLS 1.0 to 1.2, old ciphers, keys, curve and renegotiation.

    Certificates are verified as `verify` says: who the server is matters with an old protocol as well.
    """
    if isinstance(verify, ssl.SSLContext):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = verify.check_hostname, verify.verify_mode
        for certificate in verify.get_ca_certs(binary_form=True):
            context.load_verify_locations(cadata=certificate)
    else:
        context = httpx2.create_ssl_context(verify, trust_env=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_2
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    # such servers stumble over the points of newer curves (BAD_ECPOINT)
    context.set_ecdh_curve("prime256v1")
    context.options |= _OP_LEGACY_SERVER_CONNECT
    return context


def is_handshake(error: BaseException) -> bool:
    """Tell whether the two sides found no way to speak; a certificate that is not trusted is another matter."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError | ConnectionResetError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None and not isinstance(cause, ssl.SSLCertVerificationError)


class Transport:
    """Sends requests over connections that obey `budget`; errors are httpcore2's.

    With `legacy_tls`, a host with which the standard handshake fails is spoken to in the old ways from then on: some
    hosts hang with those, so they are never the first (rule P4). No request was sent until a handshake is over.
    """

    def __init__(
        self, budget: Budget, verify: ssl.SSLContext | bool = True, proxy: str | None = None, legacy_tls: bool = False
    ) -> None:
        context = verify if isinstance(verify, ssl.SSLContext) else _context(verify)
        self._way = _way(budget, context, proxy)
        self._old_way = _way(budget, relaxed(verify), proxy) if legacy_tls else None
        self._old_hosts: set[tuple[bytes, int | None]] = set()

    def send(self, url: str, headers: list[tuple[bytes, bytes]]) -> Answer:
        """Ask for a URL and return the answer as soon as its headers have come; the ``Host`` header is added."""
        asked = Asked(*_place(url), headers)
        host = asked.host, asked.port
        if self._old_way is None or asked.scheme != b"https":
            return self._way.ask(asked)
        if host in self._old_hosts:
            return self._old_way.ask(asked)
        try:
            return self._way.ask(asked)
        except httpcore2.ConnectError as error:
            if not is_handshake(error):
                raise
        found = self._old_way.ask(asked)
        self._old_hosts.add(host)
        return found

    def close(self) -> None:
        """Close every connection."""
        self._way.close()
        if self._old_way is not None:
            self._old_way.close()


def _place(url: str) -> tuple[bytes, bytes, int | None, bytes, bytes]:
    """Return a URL's scheme, host, port, target and what ``Host`` says of it, as they go over the wire."""
    if found := _PLAIN.fullmatch(url):
        scheme, host, port, target = found.groups()
        if port is None or int(port) not in (80, 443):
            return (scheme.encode(), host.encode(), None if port is None else int(port), (target or "/").encode(),
                    host.encode() if port is None else f"{host}:{port}".encode())
    parts = httpx2.URL(url)
    return parts.raw_scheme, parts.raw_host, parts.port, parts.raw_path, parts.netloc


class _ByProxy:
    """Connections by way of a proxy are the client library's: which names it resolves is the proxy's business."""

    def __init__(self, budget: Budget, context: ssl.SSLContext, proxy: str) -> None:
        way = httpx2.Proxy(proxy)
        # only the scope's hosts can be judged here
        self._pool = httpcore2.HTTPProxy(
            proxy_url=str(way.url), proxy_auth=way.raw_auth, ssl_context=context, keepalive_expiry=IDLE_SEC,
            network_backend=_Backend(budget, judges_addresses=False))

    def ask(self, asked: Asked) -> Answer:
        """Send a request and return the answer as soon as its headers have come."""
        found = self._pool.handle_request(asked.as_library())
        assert isinstance(found.stream, Iterable)
        return Answer(found.status, found.headers, found.stream, found.close)

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()


def _way(budget: Budget, context: ssl.SSLContext, proxy: str | None) -> Wires | _ByProxy:
    return Wires(_Backend(budget, judges_addresses=True), context) if proxy is None else _ByProxy(budget, context, proxy)
