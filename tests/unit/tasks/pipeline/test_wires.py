"""Answers in all their oddity, as our own wires read them and as the client library does with h11: they agree."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpcore2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config import clock
from tasks.pipeline.transport import Budget, Transport
from tests.support.misbehave import Answer, Request, Server, page, serve

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


def raw(*pieces: bytes) -> Answer:
    """Answer with exactly these bytes, a moment between the pieces, and hang up."""

    def answer(conn: socket.socket, request: Request) -> bool:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number, piece in enumerate(pieces):
            if number:
                clock.pause(0.002)
            conn.sendall(piece)
        return False

    return answer


def told(ask: Callable[[], tuple[int, list[tuple[bytes, bytes]], Any, Callable[[], None]]]) -> Any:
    """Return what an answer comes to: its status, headers and body, or after which of them it failed, and how."""
    status: int | None = None
    body = b""
    try:
        status, headers, pieces, close = ask()
        try:
            for piece in pieces:
                body += piece
        finally:
            close()
    except (httpcore2.ProtocolError, httpcore2.NetworkError, httpcore2.TimeoutException) as error:
        silent = "disconnected without sending" in str(error)
        return type(error).__name__, status, body, silent
    return status, [(name.lower(), value) for name, value in headers], body


def ours(server: Server, path: str = "/a") -> Any:
    budget = Budget()
    budget.ends = clock.monotonic() + 5.0

    def ask() -> Any:
        got = transport.send(f"{server.url}{path}", [(b"accept", b"*/*")])
        return got.status, got.raw_headers, got.body(), got.close

    with closing(Transport(budget)) as transport:
        return told(ask)


def theirs(server: Server, path: str = "/a") -> Any:
    timeout = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), 5.0)}

    def ask() -> Any:
        sent = httpcore2.Request("GET", f"{server.url}{path}", headers=[("Host", server.host)], extensions=timeout)
        got = pool.handle_request(sent)
        return got.status, got.headers, got.stream, got.close

    with closing(httpcore2.ConnectionPool()) as pool:
        return told(ask)


ODD = {
    "no length": OK + b"\r\nto the end",
    "http/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab",
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nab",
    "an unknown status": b"HTTP/1.1 799 What\r\nContent-Length: 2\r\n\r\nab",
    "more than was announced": OK + b"Content-Length: 2\r\n\r\nabcdef",
    "less than was announced": OK + b"Content-Length: 5\r\n\r\nabc",
    "no content has no body": b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc",
    "not modified has no body": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nab",
    "a folded header": OK + b"X-Long: one\r\n  two\r\nContent-Length: 2\r\n\r\nab",
    "a blank before the colon": OK + b"X-Kind : a\r\nContent-Length: 2\r\n\r\nab",
    "blanks around a value": OK + b"X-Kind: \t a b \t \r\nContent-Length: 2\r\n\r\nab",
    "an empty value": OK + b"X-Kind:\r\nContent-Length: 2\r\n\r\nab",
    "a name with a blank": OK + b"X Kind: a\r\nContent-Length: 2\r\n\r\nab",
    "a line without a colon": OK + b"nonsense\r\nContent-Length: 2\r\n\r\nab",
    "a control character": OK + b"X-Kind: a\x01b\r\nContent-Length: 2\r\n\r\nab",
    "a NUL": OK + b"X-Kind: a\x00b\r\nContent-Length: 2\r\n\r\nab",
    "high bytes": OK + b"X-Kind: \xb9\xe3\r\nContent-Length: 2\r\n\r\nab",
    "the length twice": OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nab",
    "a list of lengths": OK + b"Content-Length: 2, 2\r\n\r\nab",
    "no number as length": OK + b"Content-Length: two\r\n\r\nab",
    "a signed length": OK + b"Content-Length: +2\r\n\r\nab",
    "a huge length": OK + b"Content-Length: 99999999999999999999999999\r\n\r\nab",
    "length and chunks": OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "an unknown transfer": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "a transfer that is none": OK + b"Transfer-Encoding: identity\r\n\r\nabc",
    "chunks twice": OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "capital chunks": OK + b"Transfer-Encoding: CHUNKED\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunks": CHUNKED + b"3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
    "chunks with blanks": CHUNKED + b"3   \r\nabc\r\n0  \r\n\r\n",
    "chunks with extensions": CHUNKED + b"3;kind=a\r\nabc\r\n0\r\n\r\n",
    "chunks with trailers": CHUNKED + b"3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
    "chunks without an end": CHUNKED + b"3\r\nabc\r\n",
    "chunks of no number": CHUNKED + b"3\r\nabc\r\nzz\r\nabc\r\n0\r\n\r\n",
    "a chunk that is too long": CHUNKED + b"3\r\nabcdef\r\n0\r\n\r\n",
    "an interim answer": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nab",
    "an upgrade nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",
    "an offer to upgrade": OK + b"Upgrade: h2,h2c\r\nConnection: Upgrade, close\r\nContent-Length: 2\r\n\r\nab",
    "a second answer": OK + b"Content-Length: 2\r\n\r\nab" + OK + b"Content-Length: 2\r\n\r\ncd",
    "half a head": OK + b"Content-Le",
    "nothing": b"",
    "an empty line": b"\r\n",
    "an empty line first": b"\r\n" + OK + b"Content-Length: 2\r\n\r\nab",
    "another protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
    "another version": b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nab",
    "a radio": b"ICY 200 OK\r\nContent-Length: 2\r\n\r\nab",
    "html alone": b"<html><body>hello</body></html>",
    "a status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nab",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nab",
    "a long header": OK + b"X-Long: " + b"x" * 60_000 + b"\r\nContent-Length: 2\r\n\r\nab",
    "far too long a header": OK + b"X-Long: " + b"x" * 300_000 + b"\r\nContent-Length: 2\r\n\r\nab",
}


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("what", ODD)
def test_an_odd_answer_is_what_it_is_to_the_client_library(server: Server, what: str, pieces: int) -> None:
    size = len(ODD[what]) // pieces + 1
    server.routes["/a"] = raw(*(ODD[what][at:at + size] for at in range(0, len(ODD[what]) or 1, size)))
    assert ours(server) == theirs(server)


LINES = st.sampled_from([
    b"Content-Length: 2\r\n", b"Content-Length: 3\r\n", b"content-length:2\r\n", b"Transfer-Encoding: chunked\r\n", b"X: y\r\n",
    b"Connection: close\r\n", b"Connection: keep-alive\r\n", b" folded\r\n", b"X : y\r\n", b"X: y\n", b"\r\n", b"\n", b"no colon\r\n"])
BODIES = st.sampled_from([b"", b"ab", b"abc", b"2\r\nab\r\n0\r\n\r\n", b"2 \r\nab\r\n0\r\n\r\n", b"2\r\nab\r\n", b"2\nab\n0\n\n", b"\r\n", OK])
HEADS = st.sampled_from([OK, b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 204 No\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"HTTP/1.1 404\r\n",
                         b"HTTP/1.1  200 OK\r\n", b"http/1.1 200 OK\r\n", b"HTTP/1.1 200 \xb9\xe3\r\n", b""])


@settings(max_examples=150, deadline=None)
@given(HEADS, st.lists(LINES, max_size=4), BODIES, st.integers(0, 200))
def test_p4_whatever_comes_is_read_as_the_client_library_reads_it(head: bytes, lines: list[bytes], body: bytes, cut: int) -> None:
    whole = head + b"".join(lines) + b"\r\n" + body
    with serve() as server:
        server.routes["/a"] = raw(whole[:cut], whole[cut:]) if 0 < cut < len(whole) else raw(whole)
        assert ours(server) == theirs(server)


@pytest.mark.parametrize(("answer", "connections"), [
    (page("<p>1</p>"), 1), (page("<p>1</p>", connection="close"), 2), (raw(OK + b"Content-Length: 2\r\n\r\nab"), 2),
    (lambda conn, request: bool(conn.sendall(CHUNKED + b"2\r\nab\r\n0\r\n\r\n")) or True, 1),
    (lambda conn, request: bool(conn.sendall(OK + b"Content-Length: 2\r\n\r\nabcd")) or True, 2),
    (lambda conn, request: bool(conn.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab")) or True, 2),
], ids=["whole", "closing", "closed behind it", "chunks", "more than announced", "http/1.0"])
def test_a_connection_is_used_again_only_if_nothing_speaks_against_it(answer: Answer, connections: int) -> None:
    budget = Budget()
    budget.ends = clock.monotonic() + 5.0
    with serve() as server, closing(Transport(budget)) as transport:
        server.routes["/a"] = answer
        for _ in range(2):
            got = transport.send(f"{server.url}/a", [])
            assert b"".join(got.body()) in (b"<p>1</p>", b"ab")
            got.close()
            clock.pause(0.02)
        assert server.connections == connections


def test_a_body_that_was_not_read_costs_its_connection() -> None:
    budget = Budget()
    budget.ends = clock.monotonic() + 5.0
    with serve() as server, closing(Transport(budget)) as transport:
        server.routes["/a"] = page("x" * 500_000)
        for _ in range(2):
            transport.send(f"{server.url}/a", []).close()
        assert server.connections == 2


@pytest.mark.parametrize("header", [(b"x-kind", b"a\r\nHost: other"), (b"x kind", b"a"), (b"x-kind", b"a\x00"), (b"x-kind", b" a")])
def test_what_would_be_another_line_is_not_sent(server: Server, header: tuple[bytes, bytes]) -> None:
    budget, before = Budget(), len(server.requests)
    budget.ends = clock.monotonic() + 5.0
    with closing(Transport(budget)) as transport, pytest.raises(httpcore2.LocalProtocolError):
        transport.send(f"{server.url}/a", [header])
    assert len(server.requests) == before
