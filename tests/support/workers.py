"""Real workers, ``python -m celery -A config worker``, each in a process group of its own, to be killed and frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from config import clock
from config.devstack.processes import spawn
from tests.support.command_line import ROOT, clean_environment
from tests.support.probes import Probes
from tests.support.processes import descendants, is_stopped
from tests.support.servers import wait_until
from tests.support.store import Store

READY_WITHIN_SEC = 30.0
_OPEN = "event=worker.lanes_open"


class Worker:
    """A worker called `name` under the settings that `environment` holds; `start` may be repeated.

    Its requests carry its name as the user agent, so that the site's own log tells the workers apart.
    """

    def __init__(
        self, name: str, folder: Path, environment: Mapping[str, str], *, pool: str = "threads", concurrency: int = 4,
        app: str = "config", arguments: Sequence[str] = (), queues: str | None = None,
    ) -> None:
        self.name, self.folder = name, folder
        self.log_path = folder / f"{name}.log"
        self.probes = Probes(folder / f"{name}.probes")
        self.probes.folder.mkdir(parents=True, exist_ok=True)
        self.user_agent = f"{name} ({name}@ratelane.invalid)"
        self._argv = [
            sys.executable, "-m", "celery", "-A", app, "worker", "--pool", pool, "--concurrency", str(concurrency),
            "-n", f"{name}@test", "--loglevel", "INFO", "--without-mingle", "--without-gossip",
            *(["-Q", queues] if queues else []), *arguments]
        self._environment = clean_environment(**{
            **environment, "RATELANE_PROBE_DIR": str(self.probes.folder), "RATELANE_USER_AGENT": self.user_agent})
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._age = clock.Stopwatch()

    def start(self) -> Worker:
        """Start the process; do not wait for it."""
        self._process = spawn(self._argv, self._environment, self.log_path, cwd=ROOT)
        self._starts += 1
        return self

    def wait_ready(self, timeout: float = READY_WITHIN_SEC) -> Worker:
        """Return once it serves lanes; its age counts from here."""
        wait_until(lambda: self.log.count(_OPEN) >= self._starts or not self.lives, f"worker {self.name}", timeout)
        if not self.lives:
            raise RuntimeError(f"worker {self.name} did not start:\n{self.log[-3000:]}")
        self._age = clock.Stopwatch()
        return self

    def wait_age(self, seconds: float) -> Worker:
        """Return once it has served for `seconds`: it may reap only after a lease without a gap (rule J8)."""
        clock.pause(seconds - self._age.elapsed())
        return self

    def rest(self, seconds: float = 1.0) -> None:
        """Let it find that there is nothing to do, so that what comes next is heard of and not found by the way."""
        clock.pause(seconds)

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""

    @property
    def pid(self) -> int:
        """The id of its main process, which is also that of its group."""
        assert self._process is not None
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether its main process runs."""
        return self._process is not None and self._process.poll() is None

    def children(self) -> list[int]:
        """Return the ids of its pool's processes."""
        return descendants(self.pid)

    def kill(self) -> None:
        """End it and its pool's processes without a chance to clean up."""
        if self.lives:
            os.killpg(self.pid, signal.SIGKILL)
            self._wait(10.0)

    def kill_parent_alone(self) -> None:
        """End its main process, as the kernel does when memory is short."""
        os.kill(self.pid, signal.SIGKILL)
        self._wait(10.0)

    def terminate(self) -> None:
        """Ask it to end at its next stop point."""
        os.kill(self.pid, signal.SIGTERM)

    def wait_end(self, timeout: float) -> int:
        """Return its exit status once it has ended."""
        assert self._process is not None
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"worker {self.name} did not end within {timeout:g} s:\n{self.log[-3000:]}") from None

    def freeze(self, store: Store) -> None:
        """Stop it where it is, but not in the middle of a write to a SQLite file, which nobody could survive."""
        while True:
            os.killpg(self.pid, signal.SIGSTOP)
            self.wait_frozen()
            if store.is_free():
                return
            self.thaw()

    def freeze_at(self, probe: str, store: Store) -> None:
        """Stop it while one of its threads stands exactly at the line `probe`; `thaw` lets that thread go on too."""
        self.probes.order(probe, "hold")
        self.probes.wait_taken(probe)
        self.freeze(store)
        self.probes.go(probe)

    def wait_frozen(self, timeout: float = 15.0) -> None:
        """Return once every thread of it stands still."""
        wait_until(lambda: is_stopped(self.pid), f"the freezing of {self.name}", timeout)

    def thaw(self) -> None:
        """Let it go on."""
        os.killpg(self.pid, signal.SIGCONT)

    def _wait(self, timeout: float) -> None:
        assert self._process is not None
        self._process.wait(timeout)


class Workers:
    """The workers of one test: made by name, each in a home of its own where the store allows it, all gone at its end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made: dict[str, Worker] = {}

    @property
    def names(self) -> list[str]:
        """The names of those that were started so far."""
        return list(self._made)

    def start(self, *names: str, **options: Any) -> list[Worker]:
        """Start workers side by side and return them once all of them serve lanes; options as in `launch`."""
        started = [self.launch(name, **options) for name in names]
        return [worker.wait_ready() for worker in started]

    def launch(
        self, name: str, *, home: str | None = None, pool: str = "threads", concurrency: int = 4, app: str = "config",
        arguments: Sequence[str] = (), queues: str | None = None, **settings: Any,
    ) -> Worker:
        """Start one worker, with further `arguments` of Celery's, and do not wait for it.

        `settings` are stronger than the store's.
        """
        environment = self._store.environment(home or name, **settings)
        self._made[name] = Worker(name, self._store.folder, environment, pool=pool, concurrency=concurrency, app=app,
                                  arguments=arguments, queues=queues)
        return self._made[name].start()

    def pair(self, **options: Any) -> None:
        """Start two workers, old enough to take over from each other (rule J8: a lease without a gap)."""
        for worker in self.start("one", "two", **options):
            worker.wait_age(self._store.settings().lease_sec)

    def running(self, job_id: str) -> tuple[Worker, Worker]:
        """Return the worker of a pair that runs a job, and the other one."""
        first = self.named(self._store.row(job_id).worker)
        return first, self.other(first)

    def named(self, name: str | None) -> Worker:
        """Return the worker that the database calls `name`."""
        return self._made[(name or "").partition("@")[0]]

    def other(self, than: Worker) -> Worker:
        """Return the one worker beside `than`."""
        (found,) = (worker for worker in self._made.values() if worker is not than)
        return found

    def order(self, probe: str, word: str, job: str = "") -> None:
        """Have whichever of them comes to the line `probe` (with `job`) first obey `word`; see `Probes.order`."""
        for worker in self._made.values():
            worker.probes.order(probe, word, job)

    def taken(self, probe: str, job: str = "") -> list[Worker]:
        """Return those that have obeyed an order at `probe`."""
        return [worker for worker in self._made.values() if worker.probes.taken(probe, job)]

    def withdraw(self, probe: str, job: str = "") -> None:
        """Take an order back from those that have not obeyed it."""
        for worker in self._made.values():
            worker.probes.withdraw(probe, job)

    def end(self) -> None:
        """Kill whatever still lives."""
        for worker in self._made.values():
            worker.kill()

    def logs(self) -> str:
        """Return the last lines of every worker, for the report of a test that failed."""
        return "\n".join(f"--- {worker.name}\n{worker.log[-6000:]}" for worker in self._made.values())
