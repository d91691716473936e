"""How quick the dashboard is at size, and what it costs: ``python -m benchmarks.dashboard [--json] [--lanes N] [--jobs N]``.

On the bundled PostgreSQL (as it comes, durable): 10,000 lanes with a waiting job each, some running, some paused, and
1,000,000 finished jobs of the last month, two in a hundred of them failed. A real Flower in front of it:

- each page and each read of the API is asked `--asks` times, each time for something that nobody has asked for yet, or
  after the answer that is shared by all who look has grown old: median and 95th percentile in milliseconds;
- actions of the API, each on another lane, job or target;
- `--viewers` people look at the pages for `--watch` seconds, as browsers do: the processor time that the database's
  sessions of Flower used, as a share of one core.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import psycopg

from benchmarks.history import fill_history
from benchmarks.measure import share
from config.devstack.processes import spawn, stop_process

ROOT = Path(__file__).resolve().parent.parent
API = "/api/ratelane"
#: the aims: milliseconds for 95 of 100 answers, and the share of a core that looking may cost the database
MOST_MS, MOST_SHARE = 300.0, 0.05
#: an answer is shared for so long, and browsers look so often
SHARED_SEC, LOOKS_EVERY_SEC = 1.6, 1.5
_START_SEC = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")
#: what everybody who looks shares: asked once a round, when it has grown old
SHARED = ("/lanes", "/jobs", "/jobs?status=failed", "/jobs?search=TransportError", "/schedule", "/failed", "/metrics")
#: what is asked with another number each time
SINGLE = (
    "/lanes?search=lane{n}", "/lanes/lane{n}", "/jobs?group=lane{n}", "/jobs?search=TransportError: lane{n}",
    "/jobs?search=lane{n}&status=cancelled", "/jobs?kind=check&run={n}", "/jobs?source=retry&group=lane{n}", "/jobs/{job}",
    f"{API}/jobs?search=HTTPStatusError: 503 from http://lane{{n}}", f"{API}/jobs?site=lane{{n}}",
    f"{API}/jobs?target=lane{{n}}-0&sort=-finished", f"{API}/jobs?search={{hex}}", f"{API}/jobs/{{job}}",
    f"{API}/jobs/{{queued}}/why", f"{API}/lanes/lane{{n}}", f"{API}/jobs/find?dedupe_key=crawl:lane{{n}}-0",
)
#: the API shares nothing: the same may be asked again
PLAIN = (
    "/jobs", "/jobs?sort=-submitted", "/jobs?sort=finished", "/jobs?status=failed", "/jobs?status=cancelled", "/jobs?kind=vitals",
    "/jobs?kind=check", "/jobs?source=retry", "/jobs?source=manual&status=failed", "/jobs?search=TransportError",
    "/jobs?search=transporterror: lane1&status=failed", "/jobs?search=lane77", "/jobs?search=lane", "/jobs?search=zzzz",
    "/lanes", "/targets", "/targets?site=lane7", "/schedule", "/schedule/runs", "/schedule/preview?from={day}&to={after}",
    "/ops", "/counts", "/system", "/workers", "/openapi.json",
)
WATCHED = ("/lanes?live=1", "/lanes/lane1?live=1", "/jobs?live=1", "/jobs/{queued}?live=1", "/schedule?live=1", "/failed?live=1")
ACTIONS = (
    ("/lanes/lane{n}/pause", {"reason": "measured", "for": "1h"}), ("/lanes/lane{n}/resume", {}),
    ("/targets/lane{n}-0/run", {"again": True}), ("/jobs/{queued}/cancel", {"reason": "measured"}),
    ("/jobs/{failed}/requeue", {"reason": "measured"}),
)


@dataclass(frozen=True)
class Figure:
    """What was measured of one thing that is asked: milliseconds."""

    what: str
    p50_ms: float
    p95_ms: float
    worst_ms: float

    @property
    def holds(self) -> bool:
        """Whether it is quick enough."""
        return self.p95_ms < MOST_MS


class Board:
    """A Flower over a filled database, and what there is to ask it for."""

    def __init__(self, folder: Path, lanes: int, jobs: int) -> None:
        from tests.support.servers import PostgresServer, ValkeyServer, free_port

        self._stack = ExitStack()
        self.lanes, self._number = lanes, 0
        self.postgres = PostgresServer(durable=True).start()
        self._stack.callback(self.postgres.remove)
        valkey = ValkeyServer().start()
        self._stack.callback(valkey.remove)
        self.url = self.postgres.create_database()
        fill_history(self.url, lanes, jobs)
        self.ids = {status: self._ids(status) for status in ("queued", "done", "failed")}
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        self._start(folder, port, {"RATELANE_DATABASE_URL": self.url, "RATELANE_BROKER_URL": valkey.url})
        self.client = httpx2.Client(base_url=self.address, timeout=60)
        self._stack.callback(self.client.close)

    def _start(self, folder: Path, port: int, settings: dict[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RATELANE_")}
        argv = [sys.executable, "-m", "celery", "-A", "config", "flower", "--address=127.0.0.1", f"--port={port}"]
        process = spawn(argv, kept | settings | {"RATELANE_HOME": str(folder), "PYTHONPATH": str(ROOT)},
                        folder / "flower.log", cwd=folder)
        self._stack.callback(stop_process, process, 5.0)
        ends = time.monotonic() + _START_SEC
        while True:
            try:
                httpx2.get(f"{self.address}/healthcheck")
                return
            except httpx2.TransportError:
                if process.poll() is not None or time.monotonic() > ends:
                    raise SystemExit((folder / "flower.log").read_text()[-2_000:]) from None
                time.sleep(0.1)

    def _ids(self, status: str) -> list[str]:
        with self._line() as line:
            rows = line.execute("SELECT job_id FROM jobs WHERE status = %s LIMIT 500", (status,)).fetchall()
        return [row[0] for row in rows]

    @contextmanager
    def _line(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(host=str(self.postgres.folder), user="postgres", autocommit=True,
                             dbname=self.url.partition("@/")[2].partition("?")[0]) as line:
            yield line

    def cpu_sec(self) -> float:
        """Return the processor time that the database's sessions of Flower have used so far."""
        with self._line() as line:
            pids = line.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'ratelane'").fetchall()
        found = 0.0
        for (pid,) in pids:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found += (int(words[11]) + int(words[12])) / _TICKS
        return found

    def fill_in(self, path: str) -> str:
        """Return a path with names that nobody has used yet."""
        self._number += 7
        number, now = self._number, datetime.now(UTC)
        return path.format(
            n=number % self.lanes, hex=f"{number * 2_654_435_761 % 65_536:04x}", queued=self._one("queued"),
            failed=self._one("failed"), job=self._one("done"), day=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            after=(now + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ"))

    def _one(self, status: str) -> str:
        return self.ids[status][self._number // 7 % len(self.ids[status])]

    def timed(self, method: str, path: str, body: object = None) -> float:
        """Ask for something and return how many milliseconds the answer took; exits if it is none."""
        began = time.perf_counter()
        answer = self.client.request(method, path, json=body) if body is not None else self.client.request(method, path)
        took = (time.perf_counter() - began) * 1000
        if answer.status_code >= 400 and answer.status_code not in (404, 409):
            raise SystemExit(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return took

    def close(self) -> None:
        """Stop everything."""
        self._stack.close()


def ask_everything(board: Board, asks: int) -> list[Figure]:
    """Return the figures of every page, read and action."""
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(asks):
        began = time.monotonic()
        for path in SHARED:
            times[path].append(board.timed("GET", path))
        for path in (*SINGLE, *(API + path for path in PLAIN)):
            times[path].append(board.timed("GET", board.fill_in(path)))
        for path, body in ACTIONS:
            times[f"POST {path}"].append(board.timed("POST", API + board.fill_in(path), body))
        time.sleep(max(0.0, SHARED_SEC - (time.monotonic() - began)))
    return [Figure(what, round(share(each, 0.5), 1), round(share(each, 0.95), 1), round(max(each), 1))
            for what, each in times.items()]


def watch(board: Board, viewers: int, seconds: float) -> float:
    """Return the share of a core that `viewers` who look at every page cost the database."""
    pages = [board.fill_in(path) for path in WATCHED]
    over = threading.Event()

    def look(first: int) -> None:
        with httpx2.Client(base_url=board.address, timeout=60) as client:
            marks: dict[str, str] = {}
            while not over.wait(LOOKS_EVERY_SEC / len(pages)):
                path = pages[first % len(pages)]
                answer = client.get(path, headers={"If-None-Match": marks.get(path, "")})
                marks[path] = answer.headers.get("etag", "")
                first += 1

    threads = [threading.Thread(target=look, args=(number,), daemon=True) for number in range(viewers)]
    for thread in threads:
        thread.start()
    time.sleep(2 * LOOKS_EVERY_SEC)
    used, began = board.cpu_sec(), time.monotonic()
    time.sleep(seconds)
    found = (board.cpu_sec() - used) / (time.monotonic() - began)
    over.set()
    for thread in threads:
        thread.join()
    return found


def run(lanes: int, jobs: int, asks: int, viewers: int, seconds: float, say: Callable[[str], None]) -> dict[str, object]:
    """Measure everything and return the document of the benchmark."""
    with tempfile.TemporaryDirectory(prefix="rl-dashboard-") as folder:
        say(f"filling {lanes} lanes and {jobs} finished jobs …")
        board = Board(Path(folder), lanes, jobs)
        try:
            say("asking …")
            figures = ask_everything(board, asks)
            say("watching …")
            cost = watch(board, viewers, seconds)
        finally:
            board.close()
    return {"lanes": lanes, "jobs": jobs, "asks": asks, "viewers": viewers, "share_of_a_core": round(cost, 4),
            "figures": [asdict(one) for one in figures],
            "holds": cost < MOST_SHARE and all(one.holds for one in figures)}


def main() -> None:
    """Run the benchmark; exit 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--asks", type=int, default=30)
    parser.add_argument("--viewers", type=int, default=3)
    parser.add_argument("--watch", type=float, default=15.0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = run(given.lanes, given.jobs, given.asks, given.viewers, given.watch,
                lambda text: print(text, file=sys.stderr, flush=True))
    if given.json:
        print(json.dumps(found))
    else:
        print(f"{'what':75} {'p50 ms':>8} {'p95 ms':>8} {'worst':>8}")
        for one in sorted((Figure(**each) for each in found["figures"]), key=lambda each: -each.p95_ms):  # type: ignore[attr-defined]
            print(f"{one.what:75} {one.p50_ms:8.1f} {one.p95_ms:8.1f} {one.worst_ms:8.1f}{'' if one.holds else '  too slow'}")
        print(f"{given.viewers} viewers cost the database {found['share_of_a_core']:.1%} of a core")
    sys.exit(0 if found["holds"] else 1)


if __name__ == "__main__":
    main()
