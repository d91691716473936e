"""A small real HTTP server on loopback whose answers misbehave in named ways.

Routes map a path (with its query, or without) to an answer; `sequence` answers the first request with the first, and
so on, the last one for ever. Every request is written down in `requests` in the order of arrival.
"""

from __future__ import annotations

import gzip
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

#: what a route does with a connection; returns False if the connection is over
Answer = Callable[[socket.socket, "Request"], bool]

_REASONS = {200: "OK", 302: "Found", 403: "Forbidden", 404: "Not Found", 429: "Too Many Requests"}


@dataclass(frozen=True)
class Request:
    """A request as it arrived; `connection` counts the connections of the server."""

    path: str
    headers: dict[str, str]
    connection: int
    at: float


def page(body: str | bytes, status: int = 200, charset: str | None = "utf-8", **headers: str) -> Answer:
    """Answer with a page; `headers` in snake case; `charset` None names none and needs bytes or UTF-8."""
    raw = body if isinstance(body, bytes) else body.encode(charset or "utf-8")
    kind = "text/html" if charset is None else f"text/html; charset={charset}"
    given = {"content-type": kind} | {name.replace("_", "-"): value for name, value in headers.items()}
    return _whole(status, given, raw)


def redirect(target: str, status: int = 302, **headers: str) -> Answer:
    """Answer with a redirect."""
    return _whole(status, {"location": target} | {name.replace("_", "-"): v for name, v in headers.items()}, b"")


def sequence(*answers: Answer) -> Answer:
    """Answer each request with the next one, the last for ever."""
    rest = list(answers)

    def answer(conn: socket.socket, request: Request) -> bool:
        return (rest.pop(0) if len(rest) > 1 else rest[0])(conn, request)

    return answer


def reset(conn: socket.socket, request: Request) -> bool:
    """Hang up with a TCP reset instead of an answer."""
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def hang_up(conn: socket.socket, request: Request) -> bool:
    """Close the connection without a word, as nginx's 444 does."""
    return False


def silence(conn: socket.socket, request: Request) -> bool:
    """Never say anything."""
    return _until_gone(conn, b"")


def drip(conn: socket.socket, request: Request) -> bool:
    """Send headers at once and a body of one byte every tenth of a second, for ever."""
    conn.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 100000\r\n\r\n")
    return _until_gone(conn, b"x")


def endless_headers(conn: socket.socket, request: Request) -> bool:
    """Send a header line every tenth of a second, for ever."""
    conn.sendall(b"HTTP/1.1 200 OK\r\n")
    return _until_gone(conn, b"x-more: y\r\n")


def truncated(body: str) -> Answer:
    """Announce twice the body and hang up behind it."""
    raw = body.encode()

    def answer(conn: socket.socket, request: Request) -> bool:
        conn.sendall(f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {2 * len(raw)}\r\n\r\n".encode())
        conn.sendall(raw)
        return False

    return answer


def gzip_bomb(megabytes: int) -> Answer:
    """Answer with a small body that unpacks to so many megabytes."""
    return _whole(200, {"content-type": "text/html", "content-encoding": "gzip"}, gzip.compress(bytes(megabytes << 20)))


def unannounced_body(megabytes: int) -> Answer:
    """Send a body without a length, until all of it or the client is gone."""

    def answer(conn: socket.socket, request: Request) -> bool:
        conn.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n")
        for _ in range(megabytes * 16):
            conn.sendall(b"<p>x</p>" * 8192)
        return False

    return answer


def cookie_wall(good: Answer, name: str = "seen") -> Answer:
    """Redirect to itself with a cookie until the cookie comes back."""

    def answer(conn: socket.socket, request: Request) -> bool:
        if f"{name}=1" in request.headers.get("cookie", ""):
            return good(conn, request)
        return redirect(request.path, set_cookie=f"{name}=1; Path=/")(conn, request)

    return answer


def _whole(status: int, headers: dict[str, str], body: bytes) -> Answer:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Something')}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    raw = "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def answer(conn: socket.socket, request: Request) -> bool:
        conn.sendall(raw)
        return headers.get("connection") != "close"

    return answer


def _until_gone(conn: socket.socket, piece: bytes) -> bool:
    """Send a piece every tenth of a second until the client hangs up, a minute at most."""
    conn.settimeout(0.1)
    for _ in range(600):
        try:
            if conn.recv(1) == b"":
                return False
        except TimeoutError:
            pass
        if piece:
            conn.sendall(piece)
    return False


@dataclass
class Server:
    """The server and its log."""

    routes: dict[str, Answer] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    port: int = 0
    connections: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        """The host key."""
        return f"127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for, in order, robots.txt left out."""
        return [request.path for request in self.requests if request.path != "/robots.txt"]

    def count(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(request.path == path for request in self.requests)

    def _serve(self, conn: socket.socket, number: int) -> None:
        try:
            with conn:
                rest = b""
                while (got := _read(conn, rest)) is not None:
                    head, rest = got
                    if not self._answer(conn, head, number):
                        return
        except OSError:
            return

    def _answer(self, conn: socket.socket, head: bytes, number: int) -> bool:
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        request = Request(first.split(" ")[1], headers, number, time.monotonic())
        with self._lock:
            self.requests.append(request)
            path = request.path
            answer = self.routes.get(path) or self.routes.get(path.partition("?")[0]) or self.routes.get("*")
        return (answer or page("<h1>not here</h1>", 404))(conn, request)

    def accept(self, listener: socket.socket) -> None:
        """Serve connections until the listener is closed."""
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(conn, self.connections), daemon=True).start()


def _read(conn: socket.socket, rest: bytes) -> tuple[bytes, bytes] | None:
    while b"\r\n\r\n" not in rest:
        more = conn.recv(65_536)
        if not more:
            return None
        rest += more
    head, _, rest = rest.partition(b"\r\n\r\n")
    return head, rest


S = TypeVar("S", bound=Server)


@overload
def serve() -> AbstractContextManager[Server]: ...
@overload
def serve(kind: type[S]) -> AbstractContextManager[S]: ...
def serve(kind: type[Any] = Server) -> AbstractContextManager[Any]:
    """Run a server (of a `kind` of the caller's) for the length of a block; it has no robots.txt unless given one."""
    return _serving(kind)


@contextmanager
def _serving(kind: type[S]) -> Iterator[S]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = kind(port=listener.getsockname()[1])
    threading.Thread(target=server.accept, args=(listener,), daemon=True).start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


# --- lists and articles -------------------------------------------------------------------------------------------


def list_html(rows: list[str], extra: str = "") -> str:
    """A list page: each row is ``path`` or ``path|title`` or ``path|title|pinned``."""
    items = []
    for row in rows:
        path, title, mark = [*row.split("|"), "", ""][:3]
        badge = '<b class="top">置顶</b>' if mark else ""
        items.append(
            f'<li class="row">{badge}<a href="{path}">{title or title_of(path)}</a><span class="date">2026-11-30</span></li>'
        )
    return f'<html><body><div class="nav">栏目</div><ul class="list">{"".join(items)}</ul>{extra}</body></html>'


def title_of(path: str) -> str:
    """The title that the list and the article of a path share."""
    return f"关于第{path.strip('/').replace('/', '-')}号事项的通知"


def article_html(path: str, text: str = "") -> str:
    """An article page with a text of its own."""
    body = text or f"{title_of(path)}正文：各有关单位，现将有关事项通知如下，请认真贯彻执行。" * 6
    return (
        f'<html><head><title>{title_of(path)}</title></head><body><h1>{title_of(path)}</h1>'
        f'<div class="content"><p>{body}</p></div></body></html>'
    )
