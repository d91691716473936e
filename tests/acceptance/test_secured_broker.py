"""Brokers with a password, and with TLS: work goes through them, and the password is seen nowhere (rules D2, U6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from console.demo import Site
from tests.support.command_line import CommandLine
from tests.support.fleet import fleet
from tests.support.rabbit import RabbitServer
from tests.support.servers import ValkeyServer
from tests.support.store import Store
from tests.support.tls import TlsServer, make_certificates
from tests.support.workers import Workers

PASSWORD = "hush-hush-7"
# the broker does not know which database there is
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(90), pytest.mark.parametrize("database", ["sqlite"], indirect=True)]


@contextmanager
def _secured(kind: type[ValkeyServer]) -> Iterator[ValkeyServer]:
    server = kind(PASSWORD)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.mark.parametrize("kind", [
    pytest.param(ValkeyServer, marks=pytest.mark.slow, id="password"),
    pytest.param(TlsServer, marks=pytest.mark.acceptance, id="password-and-tls")])
def test_a_crawl_goes_through_a_broker_with(kind: type[ValkeyServer], store: Store, workers: Workers) -> None:
    """D2, U6: worker, `health` and `crawl --no-workers`; no log line, error or document shows the password."""
    with _secured(kind) as server:
        store.broker_url = server.url
        with fleet(store, [Site("safe", columns={"news": 2})], grouped=False) as site:
            (worker,) = workers.start("one")
            job = store.wait_for(store.submit("safe_news"), "done")
            assert job["outcome"] == "complete"
            site.assert_whole(store, most=0)
        line = CommandLine(store.settings("one").home)
        health = line.json("health", **store.environment("one"))
        assert (health["broker_ok"], health["broker_error"], health["workers_consuming"]) == (True, None, 1)
        said = worker.log + str(health)
    away = line.run("crawl", str(store.folder / "sites.yaml"), **store.environment("one"))
    assert away.returncode == 3
    assert ":***@127.0.0.1" in away.stderr
    assert PASSWORD not in said + away.stdout + away.stderr + worker.log


@pytest.mark.slow
def test_a_wrong_password_is_said_and_not_shown(store: Store) -> None:
    """D2, U6: exit 3 with what the server answered."""
    with _secured(ValkeyServer) as server:
        store.broker_url = server.url.replace(PASSWORD, "wrong-8")
        line = CommandLine(store.settings().home)
        done = line.run("health", **store.environment())
        assert done.returncode == 3
        assert "invalid username-password pair" in done.stdout
        assert "wrong-8" not in done.stdout + done.stderr


@pytest.mark.acceptance
def test_a_server_that_nobody_vouches_for_is_refused(store: Store) -> None:
    """D2: rediss without further words verifies the certificate; ssl_cert_reqs=none waives that."""
    with _secured(TlsServer) as server:
        assert isinstance(server, TlsServer)
        line = CommandLine(store.settings().home)
        store.broker_url = server.bare_url
        found = line.json("health", code=3, **store.environment())
        assert "CERTIFICATE_VERIFY_FAILED" in found["broker_error"]
        store.broker_url = f"{server.bare_url}?ssl_cert_reqs=none"
        assert line.json("health", code=1, **store.environment())["broker_ok"] is True


@pytest.mark.acceptance
def test_rabbitmq_with_tls_takes_the_same_words(store: Store, workers: Workers, tmp_path: Path) -> None:
    """D2: amqps verifies too, against the authority that the address names; a crawl goes through it."""
    authority = make_certificates(tmp_path)
    server = RabbitServer()
    try:
        plain = server.url.replace(str(server.port), str(server.listen_with_tls(tmp_path))).replace("amqp:", "amqps:")
        server.start()
        line = CommandLine(store.settings().home)
        store.broker_url = plain
        found = line.json("health", code=3, **store.environment())
        assert "CERTIFICATE_VERIFY_FAILED" in found["broker_error"]
        store.broker_url = f"{plain}?ssl_ca_certs={authority}"
        with fleet(store, [Site("sealed", columns={"news": 1})], grouped=False):
            workers.start("one")
            assert store.wait_for(store.submit("sealed_news"), "done")["outcome"] == "complete"
        workers.end()
    finally:
        server.remove()
