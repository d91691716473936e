from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from config.clock import monotonic
from config.errors import Cancelled, StaleClaim
from tasks.pipeline import Fetcher
from tasks.pipeline.fetcher import FetchFailed
from tasks.pipeline.page import FetchedPage
from tasks.pipeline.urls import Scope
from tests.support import misbehave
from tests.support.crawl_ports import MemoryGate
from tests.support.misbehave import Answer, Request, Server, page, redirect, serve

GOOD = page("<p>通知</p>")


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


def fetcher(gate: MemoryGate, timeout_sec: float = 5.0, **more: Any) -> Any:
    return closing(Fetcher(gate, user_agent="ratelane/1.0", timeout_sec=timeout_sec, **more))


def fetch(server: Server, answer: Answer, *, timeout_sec: float = 5.0, gate: MemoryGate | None = None, **more: Any) -> FetchedPage:
    server.routes["/a"] = answer
    with fetcher(gate or MemoryGate(), timeout_sec, **more) as client:
        got = client.fetch(f"{server.url}/a")
        assert isinstance(got, FetchedPage)
        return got


def failure(server: Server, answer: Answer, **more: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        fetch(server, answer, **more)
    return caught.value


def test_a_page_comes_with_its_headers_text_and_charset(server: Server) -> None:
    got = fetch(server, page("<p>通知镕</p>".encode("gb18030"), charset=None, x_kind="A", set_cookie="sid=1; Path=/"))
    assert (got.status, got.text, got.charset) == (200, "<p>通知镕</p>", "gb18030")
    assert (got.headers["x-kind"], got.cookies, got.content_type) == ("A", ("sid",), "text/html")


def test_requests_of_one_crawl_share_connection_and_cookies(server: Server) -> None:
    server.routes |= {"/a": page("<p>1</p>", set_cookie="sid=1; Path=/"), "/b": GOOD}
    with fetcher(MemoryGate()) as client:
        client.fetch(f"{server.url}/a")
        client.fetch(f"{server.url}/b")
    assert server.connections == 1
    assert server.requests[1].headers["cookie"] == "sid=1"
    assert server.requests[1].headers["user-agent"] == "ratelane/1.0"


def test_proxies_of_the_environment_are_not_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert fetch(server, GOOD).status == 200


def test_a_configured_proxy_gets_the_request(server: Server) -> None:
    server.routes["*"] = GOOD
    with fetcher(MemoryGate(), proxy=server.url) as client:
        assert client.fetch("http://far.example.org/x").status == 200
    assert server.paths == ["http://far.example.org/x"]


def test_every_request_leaves_a_row_that_begins_at_its_first_byte(server: Server) -> None:
    checked: list[float] = []
    gate = MemoryGate(interval_sec=0.05, checking=lambda: checked.append(monotonic()))
    server.routes |= {"/a": redirect("/b"), "/b": GOOD}
    with fetcher(gate) as client:
        got = client.fetch(f"{server.url}/a")
    first, second = gate.records
    assert (first.url, first.status, second.url, second.status) == (f"{server.url}/a", 302, f"{server.url}/b", 200)
    assert checked[0] <= first.started <= server.requests[0].at <= first.ended
    assert second.started - first.ended >= 0.05
    assert (second.host, second.interval_sec, second.bytes, second.error) == (server.host, 0.05, len(got.body), "")
    assert gate.checks == 2


def test_a_stale_lease_is_noticed_before_the_first_byte(server: Server) -> None:
    def stale() -> None:
        raise StaleClaim("job", 1)

    gate = MemoryGate(checking=stale)
    with pytest.raises(StaleClaim):
        fetch(server, GOOD, gate=gate)
    assert (server.requests, gate.records) == ([], [])


def test_a_client_goes_on_after_a_stale_check(server: Server) -> None:
    answers = iter([StaleClaim("job", 1), None])

    def check() -> None:
        if (error := next(answers)) is not None:
            raise error

    server.routes["/a"] = GOOD
    with fetcher(MemoryGate(checking=check)) as client:
        with pytest.raises(StaleClaim):
            client.fetch(f"{server.url}/a")
        assert client.fetch(f"{server.url}/a").status == 200


def test_what_the_gate_raises_passes_through_and_nothing_is_sent(server: Server) -> None:
    def stop() -> None:
        raise Cancelled()

    with pytest.raises(Cancelled):
        fetch(server, GOOD, gate=MemoryGate(stop=stop))
    assert server.requests == []


@pytest.mark.parametrize(
    "answer", [misbehave.drip, misbehave.endless_headers, misbehave.silence], ids=["drip", "endless headers", "silence"]
)
def test_w89_a_response_that_never_ends_is_cut_at_the_total_limit(server: Server, answer: Answer) -> None:
    gate, before = MemoryGate(), monotonic()
    error = failure(server, answer, timeout_sec=0.6, gate=gate)
    assert error.kind == "timeout"
    assert 0.5 <= monotonic() - before < 1.5
    assert 0.5 <= gate.records[0].ended - gate.records[0].started < 1.5
    assert "Timeout" in gate.records[0].error


def test_w89_the_limit_counts_each_request_anew_and_not_the_waiting(server: Server) -> None:
    server.routes["/a"] = GOOD
    with fetcher(MemoryGate(interval_sec=0.5), timeout_sec=0.4) as client:
        assert [client.fetch(f"{server.url}/a").status for _ in range(2)] == [200, 200]


def announced(conn: socket.socket, request: Request) -> bool:
    conn.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 314572800\r\n\r\n" + b"x" * 1000)
    return False


@pytest.mark.parametrize(
    "answer", [misbehave.gzip_bomb(30), misbehave.unannounced_body(300), page("x" * 2_000_000), announced],
    ids=["gzip bomb", "300 MB without a length", "2 MB", "300 MB announced"],
)
def test_w89_a_body_is_cut_at_its_size_also_after_unpacking(server: Server, answer: Answer) -> None:
    gate = MemoryGate()
    assert failure(server, answer, gate=gate, max_body_bytes=1_000_000).kind == "too_large"
    assert gate.records[0].status == 200
    assert gate.records[0].bytes < 3_000_000


@pytest.mark.parametrize("packed", ["gzip, gzip", "br", "zstd", "gzip, br"])
def test_w89_a_body_packed_twice_or_unasked_is_not_unpacked(server: Server, packed: str) -> None:
    bomb = gzip.compress(gzip.compress(bytes(100 << 20)))
    gate = MemoryGate()
    error = failure(server, page(bomb, content_encoding=packed), gate=gate)
    assert (error.kind, packed in error.detail) == ("undecodable", True)
    assert gate.records[0].bytes == 0, "nothing of it was read"


def test_an_encoding_that_is_none_is_overlooked(server: Server) -> None:
    assert fetch(server, page("<p>1</p>", content_encoding="utf-8")).text == "<p>1</p>"


def test_a_longer_body_can_be_cut_instead(server: Server) -> None:
    server.routes["/a"] = page("x" * 50_000)
    with fetcher(MemoryGate()) as client:
        assert len(client.fetch(f"{server.url}/a", max_bytes=1000, cut=True).body) == 1000


def test_gzip_is_unpacked(server: Server) -> None:
    assert fetch(server, misbehave.gzip_bomb(1)).body == bytes(1 << 20)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (misbehave.reset, "reset"), (misbehave.hang_up, "reset"), (misbehave.truncated("<p>half</p>"), "truncated"),
        (page(b"no gzip", content_encoding="gzip"), "undecodable"),
        (lambda conn, request: bool(conn.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")), "malformed"),
    ],
    ids=["reset", "empty reply", "truncated", "broken gzip", "no http"],
)
def test_failures_are_told_apart_and_each_leaves_a_row(server: Server, answer: Answer, kind: str) -> None:
    gate = MemoryGate()
    assert failure(server, answer, gate=gate).kind == kind
    assert len(gate.records) == 1
    assert gate.records[0].error


def test_a_closed_port_and_an_unknown_name_are_unreachable(server: Server) -> None:
    gate = MemoryGate()
    with fetcher(gate) as client:
        for url in ("http://127.0.0.1:9/", "http://no-such-host.invalid/"):
            with pytest.raises(FetchFailed) as caught:
                client.fetch(url)
            assert caught.value.kind == "unreachable"
    assert [record.status for record in gate.records] == [None, None]


def test_five_redirects_are_followed_and_the_sixth_is_not(server: Server) -> None:
    for number in range(7):
        server.routes[f"/{number}"] = redirect(f"/{number + 1}")
    server.routes["/7"] = GOOD
    with fetcher(MemoryGate()) as client:
        got = client.fetch(f"{server.url}/2")
        assert (got.final_url, len(got.hops), got.url) == (f"{server.url}/7", 5, f"{server.url}/2")
        with pytest.raises(FetchFailed) as caught:
            client.fetch(f"{server.url}/1")
    assert caught.value.kind == "redirects"


def test_a_cookie_that_a_redirect_to_itself_sets_is_sent_back(server: Server) -> None:
    assert fetch(server, misbehave.cookie_wall(GOOD)).text == "<p>通知</p>"


def test_a_redirect_that_leads_to_itself_again_is_a_loop(server: Server) -> None:
    error = failure(server, redirect("/a", set_cookie="c=1; Path=/"))
    assert error.kind == "loop"
    assert error.page is not None
    assert error.page.cookies == ("c",)
    assert server.count("/a") == 2


@pytest.mark.parametrize(
    ("location", "stopped"),
    [
        ("http://other.example.org/x", "outside"), ("http://127.0.0.1:9/admin", "private"),
        ("http://localhost:9/admin", "private"), ("http://169.254.169.254/latest", "private"), ("http://[::1]/", "private"),
    ],
)
def test_w87_a_redirect_out_of_the_group_is_not_followed_but_told(server: Server, location: str, stopped: str) -> None:
    server.routes["/a"] = redirect(location)
    with fetcher(MemoryGate()) as client:
        got = client.fetch(f"{server.url}/a", scope=Scope(server.host))
    assert (got.status, got.stopped, got.final_url) == (302, stopped, f"{server.url}/a")
    assert got.location.rstrip("/") == location.rstrip("/")


def test_w87_a_host_of_the_group_is_followed(server: Server) -> None:
    with serve() as other:
        other.routes["/b"] = GOOD
        server.routes["/a"] = redirect(f"{other.url}/b")
        gate = MemoryGate()
        with fetcher(gate) as client:
            got = client.fetch(f"{server.url}/a", scope=Scope(server.host, frozenset({other.host})))
    assert (got.final_url, [record.host for record in gate.records]) == (f"{other.url}/b", [server.host, other.host])


def test_w87_a_name_of_the_group_that_leads_to_a_private_address_is_not_connected_to(server: Server) -> None:
    server.routes["/a"] = GOOD
    url = f"http://localhost:{server.port}/a"
    with fetcher(MemoryGate()) as client:
        with pytest.raises(FetchFailed) as caught:
            client.fetch(url, scope=Scope("www.example.org", frozenset({"local*"})))
        assert (caught.value.kind, server.requests) == ("private", [])
        own = Scope("www.example.org", frozenset({"local*"}), frozenset({"127.0.0.1", "::1"}))
        assert client.fetch(url, scope=own).status == 200


def test_the_inspector_sees_each_redirect_first_and_can_stop_it(server: Server) -> None:
    server.routes |= {"/a": redirect("/b"), "/b": GOOD}
    seen: list[str] = []

    def inspect(hop: FetchedPage) -> str:
        seen.append(hop.location)
        return "robots"

    with fetcher(MemoryGate()) as client:
        assert client.fetch(f"{server.url}/a", inspect=inspect).stopped == "robots"
    assert (seen, server.count("/b")) == ([f"{server.url}/b"], 0)


def test_escapes_of_gbk_bytes_reach_the_server_unchanged(server: Server) -> None:
    server.routes["*"] = GOOD
    with fetcher(MemoryGate()) as client:
        client.fetch(f"{server.url}/x//y?q=%B9%E3&p=%b9")
    assert server.paths == ["/x//y?q=%B9%E3&p=%b9"]


def test_secrets_go_to_the_sites_own_host_alone(server: Server) -> None:
    server.routes |= {"/a": GOOD, "/b": GOOD}
    other = f"localhost:{server.port}"
    scope = Scope(server.host, frozenset({other}))
    headers = {"Authorization": "Bearer x", "X-Kind": "A"}
    with fetcher(MemoryGate(), auth=("user", "word"), cookies={"key": "1", "lang": "zh"}) as client:
        client.fetch(f"{server.url}/a", scope=scope)
        client.fetch(f"http://{other}/b", scope=scope, headers=headers)
    own, others = server.requests
    assert own.headers["authorization"].startswith("Basic ")
    assert sorted(own.headers["cookie"].split("; ")) == ["key=1", "lang=zh"]
    assert ("authorization" in others.headers, "cookie" in others.headers) == (False, False)
    assert others.headers["x-kind"] == "A"


def test_secrets_of_a_secure_site_do_not_follow_it_to_plain_http(server: Server) -> None:
    server.routes["/a"] = GOOD
    with fetcher(MemoryGate(), auth=("user", "word"), cookies={"key": "1"}, headers={"X-Key": "2", "X-Kind": "A"},
                 secret_headers=frozenset({"x-key"}), is_secure=True) as client:
        client.fetch(f"{server.url}/a", scope=Scope(server.host))
    sent = server.requests[0].headers
    assert sent["x-kind"] == "A"
    assert not {"authorization", "cookie", "x-key"} & set(sent)


def test_configured_cookies_come_back_for_the_sites_own_host_and_not_if_it_set_its_own(server: Server) -> None:
    with serve() as other:
        other.routes["/b"] = GOOD
        server.routes |= {"/a": GOOD, "/c": page("<p>1</p>", set_cookie="key=new; Path=/")}
        scope = Scope(server.host, frozenset({other.host}))
        with fetcher(MemoryGate(), cookies={"key": "old"}) as client:
            for url in (f"{server.url}/a", f"{other.url}/b", f"{server.url}/a"):
                client.fetch(url, scope=scope)
            client.fetch(f"{server.url}/c", scope=scope)
            client.fetch(f"{server.url}/a", scope=scope)
        assert "cookie" not in other.requests[0].headers
    assert [request.headers["cookie"] for request in server.requests] == ["key=old", "key=old", "key=old", "key=new"]
