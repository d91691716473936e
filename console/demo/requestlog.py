"""What the demo site was asked, written down by the site itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from config import clock


@dataclass(frozen=True)
class Entry:
    """One request: from the moment its first line was read to the moment the last byte was handed to the socket.

    `host` is address and port, `started` and `ended` are seconds of the machine's monotonic clock, the ``_ns`` pair is
    wall-clock time, `status` is 0 if no answer was sent, `waf` the firewall's behaviour or "", `complete` false if the
    client hung up first.
    """

    host: str
    site: str
    method: str
    path: str
    client: str
    user_agent: str
    started: float
    ended: float
    started_ns: int
    ended_ns: int
    status: int
    bytes: int
    waf: str
    complete: bool


class RequestLog:
    """The entries of a server, in the order in which the responses ended; also a file of JSON lines if one is given."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = None if path is None else open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115
        self._changed = threading.Condition()
        self._entries: list[Entry] = []
        self._arrivals: list[tuple[str, str]] = []

    @property
    def entries(self) -> list[Entry]:
        """A copy of what is complete so far."""
        with self._changed:
            return list(self._entries)

    def arrived(self, host: str, path: str) -> None:
        """Note that a request has been read, before it is answered."""
        with self._changed:
            self._arrivals.append((host, path))
            self._changed.notify_all()

    def append(self, entry: Entry) -> None:
        """Note that a response is over."""
        with self._changed:
            self._entries.append(entry)
            if self._file is not None and not self._file.closed:
                self._file.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
            self._changed.notify_all()

    def wait_for(self, predicate: Callable[[list[Entry]], object], timeout: float = 10.0) -> list[Entry]:
        """Return the entries once `predicate` holds of them; raise `TimeoutError` after `timeout` seconds."""
        self._wait(lambda: predicate(self._entries), timeout)
        return self.entries

    def wait_for_arrival(self, path: str, times: int = 1, timeout: float = 10.0) -> None:
        """Return once `path` has been asked for `times` times, answered or not."""
        self._wait(lambda: sum(asked == path for _, asked in self._arrivals) >= times, timeout)

    def clear(self) -> None:
        """Forget what is in memory; the file keeps it."""
        with self._changed:
            self._entries.clear()
            self._arrivals.clear()

    def close(self) -> None:
        """Close the file; what still ends afterwards is kept in memory alone."""
        with self._changed:
            if self._file is not None:
                self._file.close()

    def _wait(self, holds: Callable[[], object], timeout: float) -> None:
        patience = clock.Stopwatch()
        with self._changed:
            while not holds():
                if not self._changed.wait(max(0.0, timeout - patience.elapsed())):
                    seen = ", ".join(f"{entry.status} {entry.path}" for entry in self._entries[-10:])
                    raise TimeoutError(f"not seen within {timeout:g} s; {len(self._entries)} requests, last: {seen}")


def read_log(path: Path) -> list[Entry]:
    """Return the entries of a log file; a line that is still being written is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [Entry(**json.loads(line)) for line in lines]
