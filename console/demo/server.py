"""The demo site's HTTP server: several hosts of one machine, firewalls in front, and its own log of what it was asked."""

from __future__ import annotations

import errno
import os
import select
import selectors
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast

from config import clock
from console.demo.requestlog import Entry, RequestLog
from console.demo.site import Site
from console.demo.waf import Answer, Waf

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_LOOK_EVERY_SEC = 0.02
_LAST_BYTES = 1024
_STATUSES = frozenset(HTTPStatus)
_PORTS_TRIED = 20


class DemoServer:
    """Serves `sites`, each on a loopback address of its own with one port; where the system has only 127.0.0.1, each on
    a port of its own. `log` is what it was asked so far."""

    def __init__(self, sites: Sequence[Site], wafs: Sequence[Waf] = (), log_path: Path | None = None) -> None:
        self.sites, self.wafs = list(sites), list(wafs)
        self.log = RequestLog(log_path)
        self.wait_for = self.log.wait_for
        self.stopping = threading.Event()
        self._listeners: list[_Listener] = []
        self._acceptor: threading.Thread
        self._bell: tuple[socket.socket, socket.socket]

    def start(self, port: int = 0) -> DemoServer:
        """Bind all sites (to `port`, if it is not 0) and answer from now on; raise `OSError` if that cannot be had.

        After `stop` the sites come back where they were.
        """
        self.stopping.clear()
        for number, site in enumerate(self.sites):
            site.host = site.host or f"127.0.{number // 250}.{number % 250 + 2}"
        self._find_places(port)
        self._bell = socket.socketpair()
        self._acceptor = threading.Thread(target=self._accept, daemon=True, name="demo-site")
        self._acceptor.start()
        return self

    def stop(self) -> None:
        """Close every socket, also those of clients in the middle of a response."""
        self.stopping.set()
        self._bell[0].close()
        self._acceptor.join()
        self._bell[1].close()
        for listener in self._listeners:
            listener.hang_up()
        self._unbind()
        self.log.close()

    def __enter__(self) -> DemoServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def shares_address(self) -> bool:
        """Whether all sites are on one address and differ in their ports only."""
        return len({site.host for site in self.sites}) < len(self.sites)

    def _accept(self) -> None:
        """Accept for all listeners in one thread, so that thousands of hosts cost no more than one."""
        with selectors.DefaultSelector() as ready:
            ready.register(self._bell[1], selectors.EVENT_READ)
            for listener in self._listeners:
                ready.register(listener, selectors.EVENT_READ, listener)
            while not self.stopping.is_set():
                for key, _ in ready.select():
                    if key.data is not None:
                        key.data.handle_request()

    def _find_places(self, port: int) -> None:
        known = [site.port for site in self.sites]
        for tries_left in reversed(range(_PORTS_TRIED)):
            try:
                self._bind(port)
                return
            except OSError as error:
                self._unbind()
                for site, before in zip(self.sites, known, strict=True):
                    site.port = before
                if error.errno == errno.EADDRNOTAVAIL:  # such as macOS, which has 127.0.0.1 alone
                    break
                if port or any(known) or not tries_left:  # a port free on one address may be taken on the next one
                    raise
        for site in self.sites:
            site.host = "127.0.0.1"
            self._listeners.append(_Listener((site.host, 0), self, site))

    def _bind(self, port: int) -> None:
        for site in self.sites:
            listener = _Listener((str(site.host), site.port or port), self, site)
            port = port or listener.server_address[1]
            self._listeners.append(listener)

    def _unbind(self) -> None:
        for listener in self._listeners:
            listener.server_close()
        self._listeners.clear()


class _Listener(socketserver.ThreadingTCPServer):
    """The listening socket of one site, a thread a connection."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    timeout = 0

    def __init__(self, address: tuple[str, int], owner: DemoServer, site: Site) -> None:
        self.owner, self.site = owner, site
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)
        self.socket.setblocking(False)  # a client that is gone again must not hold up the others
        site.port = self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        request, address = super().get_request()
        request.setblocking(True)
        return request, address

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients that hang up are what this server is for."""

    def hang_up(self) -> None:
        for line in list(self._open):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)


class _Hung(Exception):
    """The client hung up, or the server is stopping, before the response was complete."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the standard library's own log quiet; ours is better."""

    def parse_request(self) -> bool:
        self._started, self._started_ns = clock.monotonic(), clock.wall_ns()
        return super().parse_request()

    def do_GET(self) -> None:
        listener = cast(_Listener, self.server)
        owner, site = listener.owner, listener.site
        path = self.path.partition("?")[0] if self.path.startswith("/robots.txt") else self.path
        owner.log.arrived(site.netloc, path)
        self._sent, self._status, self._ended, waf = 0, 0, 0.0, ""
        try:
            complete = True
            objecting = next((waf for waf in owner.wafs if waf.objects(site.name, path)), None)
            waf = objecting.behaviour if objecting else ""
            self._answer(site, path, objecting)
        except (_Hung, OSError):
            complete, self.close_connection = False, True
            self._ended = clock.monotonic()
        owner.log.append(Entry(
            host=site.netloc, site=site.name, method=self.command, path=path, client=self.client_address[0],
            user_agent=self.headers.get("User-Agent", ""), started=self._started, ended=self._ended,
            started_ns=self._started_ns, ended_ns=clock.wall_ns(), status=self._status, bytes=self._sent, waf=waf,
            complete=complete,
        ))

    do_HEAD = do_GET

    def _answer(self, site: Site, path: str, waf: Waf | None) -> None:
        hold = site.held(path)
        if hold is not None:
            self._wait(hold.released.is_set)
        if waf is not None and waf.behaviour in ("reset", "close"):
            return self._drop(reset=waf.behaviour == "reset")
        answer = (waf and waf.answer()) or site.answer(path, self.headers.get("If-None-Match"))
        if answer.status == 0:
            return self._drop(reset=True)
        if waf is not None and waf.behaviour == "slow":
            self._wait_for(waf.delay_sec)
        return self._send(answer, waf.delay_sec if waf is not None and waf.behaviour == "drip" else None)

    def _send(self, answer: Answer, drip_sec: float | None) -> None:
        self._status = answer.status
        body = b"" if self.command == "HEAD" else answer.body
        whole = self._head(answer) + body
        if drip_sec is not None:
            self.connection.sendall(whole[: len(whole) - len(body)])
            for position in range(len(body)):
                self._wait_for(drip_sec)
                self._ended = clock.monotonic()
                self.connection.sendall(body[position : position + 1])
                self._sent += 1
            return
        self.connection.sendall(whole[:-_LAST_BYTES])
        # taken before the last call: the client may read and ask again before this thread gets to look at the clock
        self._ended = clock.monotonic()
        self.connection.sendall(whole[-_LAST_BYTES:])
        self._sent = len(body)

    def _head(self, answer: Answer) -> bytes:
        phrase = HTTPStatus(answer.status).phrase if answer.status in _STATUSES else "Blocked"
        lines = [f"HTTP/1.1 {answer.status} {phrase}", "Server: demo-site", f"Date: {self.date_time_string()}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        if answer.status != HTTPStatus.NOT_MODIFIED:
            lines.append(f"Content-Length: {len(answer.body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _drop(self, *, reset: bool) -> None:
        """End the connection without a word; as a reset, what the kernel still has to send is thrown away."""
        self.close_connection = True
        self._ended = clock.monotonic()
        if not reset:
            return
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.rfile.close()
        os.close(self.connection.detach())

    def _wait_for(self, seconds: float) -> None:
        watch = clock.Stopwatch()
        self._wait(lambda: watch.elapsed() >= seconds, seconds)

    def _wait(self, over: Callable[[], bool], at_most: float = _LOOK_EVERY_SEC) -> None:
        """Wait until `over`; give up as soon as the client has hung up, or the request would seem to last on."""
        owner = cast(_Listener, self.server).owner
        while not over():
            readable, _, _ = select.select([self.connection], [], [], min(_LOOK_EVERY_SEC, at_most))
            if owner.stopping.is_set() or (readable and not self.connection.recv(1, socket.MSG_PEEK)):
                raise _Hung
            if readable:  # a client that pipelines: there is nothing to learn from the socket any more
                clock.pause(min(_LOOK_EVERY_SEC, at_most))
