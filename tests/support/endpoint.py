"""An HTTP endpoint on loopback that takes JSON documents and answers as a test wishes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Posted:
    """A request as it came: headers by lower-case name, the body read as JSON."""

    headers: dict[str, str]
    document: Any


@dataclass
class Endpoint:
    """What was posted, in order; `answer` gives the status (and headers) for each request."""

    answer: Callable[[Posted], int | tuple[int, dict[str, str]]] = lambda _posted: 204
    posted: list[Posted] = field(default_factory=list)
    url: str = ""


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """Serve an endpoint for the length of a block."""
    made = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            posted = Posted({name.lower(): value for name, value in self.headers.items()}, json.loads(body))
            made.posted.append(posted)
            answer = made.answer(posted)
            status, headers = answer if isinstance(answer, tuple) else (answer, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_port}/documents"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
