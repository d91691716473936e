"""What all rivals of the lane benchmark share: the shapes, the two servers, a worker, and the wait for its stamps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Measured, measure, read
from tests.support.servers import PostgresServer, ValkeyServer

ROOT = Path(__file__).resolve().parent.parent
THREADS = 32
DEADLINE_SEC = 180.0


@dataclass(frozen=True)
class Shape:
    """So many lanes with so many jobs each, and how long a body takes."""

    name: str
    lanes: int
    each: int
    body_sec: float = 0.0

    @property
    def jobs(self) -> int:
        """How many bodies there are."""
        return self.lanes * self.each

    def lane_names(self) -> list[str]:
        """Return the names of the lanes."""
        return [f"lane{number}" for number in range(self.lanes)]


class Bench:
    """The two servers, and a folder for logs and stamps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.postgres = PostgresServer(durable=True).start()
        self.valkey = ValkeyServer().start()

    def close(self) -> None:
        """Stop what was started."""
        self.valkey.stop()
        self.postgres.stop()
        self.postgres.remove()
        self.valkey.remove()

    def run(self, argv: list[str], environment: dict[str, str], shape: Shape) -> Measured:
        """Run ``python -m`` `argv` as a worker until the bodies of `shape` have left their stamps; what these say."""
        stamps = self.folder / f"stamps-{time.monotonic_ns()}"
        stamps.touch()
        settings = {"BENCH_STAMPS": str(stamps), "BENCH_BODY_SEC": str(shape.body_sec), **environment}
        with self._worker(argv, settings):
            return self._await(stamps, shape.jobs)

    def run_celery(self, app: str, pool: str, slots: int, environment: dict[str, str], shape: Shape) -> Measured:
        """Run a worker of the Celery application `app` in the same way."""
        return self.run(["celery", "-A", app, "worker", "-P", pool, "-c", str(slots), "-l", "WARNING",
                         "--without-gossip", "--without-mingle", "-n", "bench@%h"], environment, shape)

    @contextmanager
    def _worker(self, argv: list[str], environment: dict[str, str]) -> Iterator[None]:
        with open(self.folder / "worker.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *argv], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
                stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _await(self, stamps: Path, jobs: int) -> Measured:
        ends = time.monotonic() + DEADLINE_SEC
        while (found := stamps.read_bytes().count(b"\n")) < jobs:
            if time.monotonic() > ends:
                log = (self.folder / "worker.log").read_text(errors="replace")[-2_000:]
                raise SystemExit(f"only {found} of {jobs} bodies ran in {DEADLINE_SEC:g} s:\n{log}")
            time.sleep(0.05)
        return measure(read(stamps))
