"""Serves a folder of pages on several addresses, each answer after a while, and writes down when each was under way.

``python -m benchmarks.apps.slow_site FOLDER LOG PORT DELAY_SEC ADDRESS …``. HTTP/1.1 with connections that stay open.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TextIO


class _Visitor(asyncio.Protocol):
    """One connection: requests are answered one after the other, in the order in which they came."""

    def __init__(self, pages: dict[str, bytes], log: TextIO, delay_sec: float) -> None:
        self._pages, self._log, self._delay = pages, log, delay_sec
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._host = transport.get_extra_info("sockname")[0]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode("ascii")
            asyncio.get_running_loop().call_later(self._delay, self._answer, path, time.time())

    def _answer(self, path: str, began: float) -> None:
        body = self._pages.get(path)
        status, reason = (200, "OK") if body is not None else (404, "Not Found")
        kind = "text/html" if path.endswith(".html") else "text/plain"
        # written down before the last byte leaves: whoever asks again asks later than this moment
        ended = time.time()
        self._log.write(json.dumps({"host": self._host, "path": path, "status": status, "ended": ended,
                                    "took": ended - began}) + "\n")
        self._log.flush()
        self._transport.write(f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\n"
                              f"Content-Length: {len(body or b'')}\r\n\r\n".encode() + (body or b""))


async def serve(folder: Path, log_path: Path, port: int, delay_sec: float, hosts: list[str]) -> None:
    """Serve until the process is ended."""
    pages = {"/" + path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with open(log_path, "a", encoding="utf-8") as log:
        loop = asyncio.get_running_loop()
        await loop.create_server(lambda: _Visitor(pages, log, delay_sec), hosts, port, backlog=256)
        await asyncio.Event().wait()


if __name__ == "__main__":
    folder, log_path, port, delay_sec, *hosts = sys.argv[1:]
    asyncio.run(serve(Path(folder), Path(log_path), int(port), float(delay_sec), hosts))
