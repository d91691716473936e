"""A real Flower with our tabs, started as its users start it, and clients for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from config.devstack.processes import spawn, stop_process
from tests.support.command_line import ROOT, clean_environment
from tests.support.servers import free_port, wait_until
from tests.support.store import Store

API = "/api/ratelane"
EVE, BOB = ("eve", "horse battery"), ("bob", "staple")
#: eve and bob may log in, eve alone may act
TWO_PEOPLE = [f"--basic_auth={EVE[0]}:{EVE[1]},{BOB[0]}:{BOB[1]}"]
EVE_ACTS = {"RATELANE_DASHBOARD_OPERATORS": "eve, admin-*"}


@dataclass
class Board:
    """One Flower that runs; `stop` and `start` may be repeated, its address stays."""

    address: str
    log_path: Path
    command: list[str]
    environment: dict[str, str]
    cwd: Path
    api: str = field(init=False)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.api = self.address + API

    def start(self) -> None:
        """Start it, and return once it answers."""
        self.process = spawn(self.command, self.environment, self.log_path, cwd=self.cwd)
        wait_until(self._answers, "Flower", 40)

    def stop(self) -> None:
        """End it, if it runs."""
        if self.process is not None:
            stop_process(self.process, 5)
            self.process = None

    def _answers(self) -> bool:
        with suppress(httpx2.TransportError):
            return httpx2.get(f"{self.address}/healthcheck").status_code == 200
        if self.process is None or self.process.poll() is not None:
            raise RuntimeError(self.log)
        return False

    @property
    def log(self) -> str:
        """What it has printed so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """Ask for a path of the server; a redirect is an answer."""
        return httpx2.request(method, self.address + path, timeout=30, **more)

    def get(self, path: str, **more: Any) -> Any:
        """Return the document at a path of the API, which must be there."""
        answer = httpx2.get(self.api + path, timeout=30, **more)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()

    def post(self, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        """Post a JSON body to a path of the API."""
        return httpx2.post(self.api + path, json={} if body is None else body, timeout=30, **more)


@contextmanager
def flower(store: Store, *options: str, prefix: str = "", address: str = "127.0.0.1", cwd: Path = ROOT,
           settings: dict[str, Any] | None = None, **variables: str) -> Iterator[Board]:
    """Run ``celery -A config flower`` with `options`, for the length of a block."""
    port = free_port()
    log = store.folder / f"flower-{port}.log"
    environment = clean_environment(**store.environment(**(settings or {}))) | {"PYTHONPATH": str(ROOT)} | variables
    argv = [sys.executable, "-m", "celery", "-A", "config", "flower", f"--address={address}", f"--port={port}", *options]
    board = Board(f"http://127.0.0.1:{port}{prefix}", log, argv, environment, cwd)
    try:
        board.start()
        yield board
    finally:
        board.stop()
        print(board.log[-4_000:])
