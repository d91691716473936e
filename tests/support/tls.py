"""A Redis server that speaks TLS alone, with certificates made for the test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.servers import ValkeyServer, missing


class TlsServer(ValkeyServer):
    """Debian's redis-server (the bundled Valkey was built without TLS), with a certificate for 127.0.0.1."""

    def __init__(self, password: str) -> None:
        super().__init__(password)
        self.ca = make_certificates(self.folder)
        self._options |= {
            "port": "0", "tls-port": str(self.port), "tls-cert-file": str(self.folder / "server.pem"),
            "tls-key-file": str(self.folder / "server.key"), "tls-ca-cert-file": str(self.ca), "tls-auth-clients": "no"}

    @property
    def url(self) -> str:
        """The broker URL, which trusts the test's own authority."""
        return f"{self.bare_url}?ssl_ca_certs={self.ca}"

    @property
    def bare_url(self) -> str:
        """The broker URL of somebody who does not know the authority."""
        return f"rediss://default:{self.password}@127.0.0.1:{self.port}/0"

    def client(self, timeout: float = 2.0) -> redis.Redis:
        """Return a client that trusts the server's authority."""
        return redis.Redis(port=self.port, host="127.0.0.1", password=self.password, socket_timeout=timeout, ssl=True,
                           ssl_ca_certs=str(self.ca), retry=Retry(NoBackoff(), 0))

    def _binary(self) -> Path:
        found = shutil.which("redis-server")
        return Path(found) if found else missing("redis-server", where_complete="CI_FULL")


def make_certificates(folder: Path) -> Path:
    """Make an authority and a server's certificate for 127.0.0.1 in `folder`; return the authority's."""
    if shutil.which("openssl") is None:
        missing("openssl", where_complete="CI_FULL")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl(folder, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test CA",
             "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    _openssl(folder, "req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=test server")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    _openssl(folder, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
             "-out", "server.pem", "-days", "2", "-extfile", "names")
    return folder / "ca.pem"


def _openssl(folder: Path, *words: Any) -> None:
    done = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"openssl {words[0]}: {done.stderr}")
