"""Servers that only speak what nobody should speak any more: reached by opt-in alone, and never first (rule P4)."""

from __future__ import annotations

import socket
import ssl
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from config.clock import monotonic
from tasks.pipeline import Fetcher
from tasks.pipeline.fetcher import FetchFailed
from tasks.pipeline.transport import relaxed
from tests.support.crawl_ports import MemoryGate
from tests.support.servers import wait_until
from tests.support.tls import make_certificates


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    make_certificates(made)
    return made


@dataclass
class TlsSite:
    """A server on loopback that greets over TLS; it remembers the version of each handshake, "" of those that failed."""

    port: int = 0
    handshakes: list[str] = field(default_factory=list)
    requests: int = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/"

    def serve(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        while True:
            try:
                bare, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._speak, args=(bare, context), daemon=True).start()

    def _speak(self, bare: socket.socket, context: ssl.SSLContext) -> None:
        with bare:
            bare.settimeout(5)
            try:
                conn = context.wrap_socket(bare, server_side=True)
            except OSError:
                self.handshakes.append("")
                return
            self.handshakes.append(conn.version() or "")
            try:
                while conn.recv(65_536):
                    self.requests += 1
                    conn.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nok")
            except OSError:
                return


@contextmanager
def tls_site(folder: Path, prepare: Callable[[ssl.SSLContext], object]) -> Iterator[TlsSite]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        prepare(context)
    listener = socket.create_server(("127.0.0.1", 0))
    site = TlsSite(listener.getsockname()[1])
    threading.Thread(target=site.serve, args=(listener, context), daemon=True).start()
    try:
        yield site
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def only(version: ssl.TLSVersion) -> Callable[[ssl.SSLContext], None]:
    def prepare(context: ssl.SSLContext) -> None:
        context.minimum_version = context.maximum_version = version

    return prepare


def weak(context: ssl.SSLContext) -> None:
    """Speak TLS 1.2 with a cipher that every default refuses."""
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")


def trust(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    # a system's own configuration may be stricter or laxer than this: the test needs the same everywhere
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AESGCM")
    return context


OLD = [only(ssl.TLSVersion.TLSv1), only(ssl.TLSVersion.TLSv1_1), weak]


@pytest.mark.parametrize("prepare", OLD, ids=["TLS 1.0", "TLS 1.1", "weak cipher"])
def test_an_old_server_is_reached_by_opt_in_alone(folder: Path, prepare: Callable[[ssl.SSLContext], None]) -> None:
    with tls_site(folder, prepare) as site:
        gate = MemoryGate()
        with closing(Fetcher(gate, user_agent="x", verify=trust(folder))) as client, pytest.raises(FetchFailed) as caught:
            client.fetch(site.url)
        assert (caught.value.kind, site.requests) == ("unreachable", 0)
        assert "legacy_tls" in caught.value.detail
        gate = MemoryGate()
        with closing(Fetcher(gate, user_agent="x", verify=trust(folder), legacy_tls=True)) as client:
            assert [client.fetch(site.url).text for _ in range(2)] == ["ok", "ok"]
        assert [record.status for record in gate.records] == [200, 200]
        assert site.handshakes[1] == "", "the standard handshake comes first"
        assert site.handshakes[2].startswith("TLSv1")
        assert len(site.handshakes) == 3, "one connection for both requests"


def test_a_host_that_needed_it_once_is_not_asked_in_the_new_way_again(folder: Path) -> None:
    with tls_site(folder, only(ssl.TLSVersion.TLSv1_1)) as site, \
            closing(Fetcher(MemoryGate(), user_agent="x", verify=trust(folder), legacy_tls=True)) as client:
        client.fetch(site.url)
        client._transport._old_way.close()  # type: ignore[attr-defined]
        client.fetch(site.url)
        assert site.handshakes == ["", "TLSv1.1", "TLSv1.1"]


def test_a_modern_server_is_spoken_to_as_ever_with_the_opt_in(folder: Path) -> None:
    with tls_site(folder, lambda context: None) as site, \
            closing(Fetcher(MemoryGate(), user_agent="x", verify=trust(folder), legacy_tls=True)) as client:
        client.fetch(site.url)
        assert site.handshakes == ["TLSv1.3"]


def test_a_certificate_that_is_not_trusted_is_not_trusted_in_the_old_ways_either(folder: Path) -> None:
    stranger = ssl.create_default_context()
    with tls_site(folder, lambda context: None) as site, \
            closing(Fetcher(MemoryGate(), user_agent="x", verify=stranger, legacy_tls=True)) as client:
        with pytest.raises(FetchFailed, match="certificate verify failed"):
            client.fetch(site.url)
        wait_until(lambda: site.handshakes, "the end of the handshake", 5)
        assert len(site.handshakes) == 1, "the two could speak: there is no reason to try otherwise"
    with tls_site(folder, only(ssl.TLSVersion.TLSv1_1)) as site, \
            closing(Fetcher(MemoryGate(), user_agent="x", verify=stranger, legacy_tls=True)) as client:
        with pytest.raises(FetchFailed, match="certificate verify failed"):
            client.fetch(site.url)
        assert site.requests == 0


def test_both_handshakes_share_the_time_of_the_request(folder: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    url, before = f"https://127.0.0.1:{listener.getsockname()[1]}/", monotonic()
    with closing(listener), closing(Fetcher(MemoryGate(), user_agent="x", timeout_sec=0.5, legacy_tls=True)) as client, \
            pytest.raises(FetchFailed) as caught:
        client.fetch(url)
    assert caught.value.kind == "timeout"
    assert monotonic() - before < 1.5


def test_the_old_ways_allow_servers_without_secure_renegotiation_and_still_verify() -> None:
    for verify in (True, ssl.create_default_context()):
        context = relaxed(verify)
        assert context.options & 0x4, "SSL_OP_LEGACY_SERVER_CONNECT"
        assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert relaxed(False).verify_mode == ssl.CERT_NONE
