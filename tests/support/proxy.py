"""A TCP proxy in front of a server: connections can be cut, and can hang without being closed."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType

_RESET = struct.pack("ii", 1, 0)
_CHUNK = 65_536


class Proxy:
    """Forwards a loopback port to `target`: another loopback port, or the path of a Unix socket.

    While it hangs nothing is forwarded and nothing is closed: new connections are accepted and left alone too, as by a
    firewall that forgot them. What was said meanwhile arrives after `resume`.
    """

    def __init__(self, target: int | str) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._lock = threading.Lock()
        self._lines: set[socket.socket] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._closed = False
        #: connections that were ever accepted
        self.accepted = 0

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.resume()
        self.cut_all()

    @property
    def broker_url(self) -> str:
        """The URL of a Redis or Valkey server behind the proxy."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def open_lines(self) -> int:
        """How many connections are open now."""
        with self._lock:
            return len(self._lines) // 2

    def cut_all(self) -> int:
        """Reset every connection; new ones are served. Returns how many there were."""
        with self._lock:
            lines, self._lines = self._lines, set()
        for line in lines:
            with suppress(OSError):
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                line.shutdown(socket.SHUT_RD)  # wakes the thread that reads from it, and tells the other side nothing
            line.close()
        return len(lines) // 2

    def hang(self) -> None:
        """Forward nothing from now on, without closing anything."""
        self._flowing.clear()

    def resume(self) -> None:
        """Forward again, what waited first."""
        self._flowing.set()

    def _accept(self) -> None:
        while not self._closed:
            try:
                inner, _ = self._listening.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(inner,), daemon=True).start()

    def _serve(self, inner: socket.socket) -> None:
        try:
            outer = self._connect()
        except OSError:
            inner.close()
            return
        with self._lock:
            self._lines |= {inner, outer}
        for source, sink in ((inner, outer), (outer, inner)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._target, int):
            return socket.create_connection(("127.0.0.1", self._target), timeout=None)
        line = socket.socket(socket.AF_UNIX)
        line.connect(self._target)
        return line

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                self._flowing.wait()
                sink.sendall(data)
            self._flowing.wait()
            sink.shutdown(socket.SHUT_WR)
        self._forget(source, sink)

    def _forget(self, source: socket.socket, sink: socket.socket) -> None:
        """Close both sides once neither has anything more to say."""
        with self._lock:
            known = {source, sink} & self._lines
            self._lines -= known
        for line in known:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()
