"""A webhook's other end: a real HTTP server on loopback that answers as a test says and keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.servers import wait_until


@dataclass
class Receiver:
    """What came in, each as (path, headers in lower case, body); `answers` are used up one by one, then it is 204.

    The answer ``drip`` sends a byte of a header now and then and never ends.
    """

    port: int = 0
    answers: list[int | str] = field(default_factory=list)
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str = "/hook", user: str = "") -> str:
        """Return an address of it."""
        return f"http://{user}127.0.0.1:{self.port}{path}"

    @property
    def documents(self) -> list[dict[str, Any]]:
        """What was sent, as documents."""
        return [json.loads(body) for _, _, body in list(self.got)]

    def wait(self, number: int, timeout: float = 20.0) -> list[dict[str, Any]]:
        """Return the documents once there are `number` of them."""
        wait_until(lambda: len(self.got) >= number, f"notice {number}", timeout)
        return self.documents


@contextmanager
def receiver(*answers: int | str) -> Iterator[Receiver]:
    """Serve for the length of a test."""
    made = Receiver(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = made.answers.pop(0) if made.answers else 204
            made.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            if answer == "drip":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                try:
                    while not made.over.wait(0.05):
                        self.wfile.write(b"x")
                        self.wfile.flush()
                except OSError:
                    pass
                return
            self.send_response(int(answer))
            if answer == 302:
                self.send_header("Location", made.url("/elsewhere"))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
