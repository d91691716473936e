"""Flower with our tabs as people start it: a process of its own beside a test's store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection

from config.devstack.processes import spawn, stop_process
from tests.support.command_line import ROOT, clean_environment
from tests.support.servers import free_port, wait_until
from tests.support.store import Store

READY_WITHIN_SEC = 30.0
_GOODBYE_SEC = 5.0


class Dashboard:
    """``celery -A config flower`` on a port of this machine; `prefix` is its ``--url_prefix``, without slashes.

    `start` and `stop` may be repeated; the port stays.
    """

    def __init__(self, store: Store, options: Sequence[str], prefix: str, settings: Mapping[str, object]) -> None:
        self.port, self.prefix = free_port(), prefix
        self.log_path = store.folder / f"flower-{self.port}.log"
        self._argv = [
            sys.executable, "-m", "celery", "-A", "config", "flower", "--address=127.0.0.1", f"--port={self.port}",
            *([f"--url_prefix={prefix}"] if prefix else []), *options]
        self._environment = clean_environment(**store.environment("flower", **settings))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> str:
        """What stands before the path of every page."""
        return f"/{self.prefix}" if self.prefix else ""

    @property
    def url(self) -> str:
        """Where its pages begin, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}{self.root}"

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""

    def start(self) -> Dashboard:
        """Start it, and return once it answers."""
        self._process = spawn(self._argv, self._environment, self.log_path, cwd=ROOT)
        wait_until(self._answers, "Flower", READY_WITHIN_SEC)
        return self

    def stop(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            stop_process(self._process, _GOODBYE_SEC)
            self._process = None

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"Flower did not start:\n{self.log[-3000:]}")
        line = HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            line.request("GET", f"{self.root}/healthcheck")
            return line.getresponse().status == 200
        except OSError:
            return False
        finally:
            line.close()


@contextmanager
def dashboard(store: Store, *options: str, prefix: str = "", **settings: object) -> Iterator[Dashboard]:
    """Serve Flower for the length of a block; `options` are its own, `settings` are stronger than the store's."""
    made = Dashboard(store, options, prefix, settings)
    try:
        yield made.start()
    finally:
        made.stop()
