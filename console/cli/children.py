"""The processes that a command starts: Celery's programs, each restarted if it dies, with their broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from config import clock
from config.backoff import delay_sec
from config.devstack import EmbeddedBroker, spawn, stop_process
from config.errors import RatelaneError
from config.settings import Settings, environment
from console.cli import worker_process

#: a child that dies so often, each time within a minute of its start, is not started again
MOST_DEATHS = 5
_STEADY_AFTER_SEC = 60.0
_BACKOFF_SEC, _BACKOFF_CAP_SEC = 0.5, 15.0
#: what a worker may take beyond its soft stop to say goodbye
_GOODBYE_SEC = 10.0

Say = Callable[[str], None]


def child_environment(settings: Settings) -> dict[str, str]:
    """Return the environment in which a child process sees exactly `settings` and imports our packages, no others."""
    ours = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (ours, os.environ.get("PYTHONPATH"))))
    return {**os.environ, **environment(settings), "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def celery_arguments(*words: str) -> list[str]:
    """Return the command line of a Celery program of ours."""
    return [sys.executable, "-m", "celery", "-A", "config", *words]


class Child:
    """One process in a group of its own, so that Ctrl-C reaches the command alone; dies with the command."""

    def __init__(self, name: str, argv: Sequence[str], settings: Settings) -> None:
        self.name, self._argv, self._settings = name, list(argv), settings
        self.log_path = settings.home / "logs" / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths = 0
        self._age = clock.Stopwatch()
        self._wait_sec = 0.0

    def start(self) -> None:
        """Start the process, its output appended to its log."""
        # the home as the current folder: Celery looks there first for a package called config
        self._process = spawn(self._argv, child_environment(self._settings), self.log_path, cwd=self._settings.home)
        self._age = clock.Stopwatch()

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Take a process that was started for this place already; if it dies, `argv` takes its place."""
        self._process, self._age = process, clock.Stopwatch()

    @property
    def lives(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def look(self, say: Say) -> None:
        """Start the process again if it died, later each time; raise RatelaneError once that is hopeless."""
        if self._process is None:
            if self._age.elapsed() >= self._wait_sec:
                self.start()
            return
        status = self._process.poll()
        if status is None:
            return
        self._deaths = 1 if self._age.elapsed() > _STEADY_AFTER_SEC else self._deaths + 1
        if self._deaths >= MOST_DEATHS:
            raise RatelaneError(f"{self.name} died {self._deaths} times; the last lines of {self.log_path}:\n"
                                f"{last_lines(self.log_path)}")
        self._wait_sec = delay_sec(self._deaths, _BACKOFF_SEC, _BACKOFF_CAP_SEC)
        say(f"{self.name} died ({_ended(status)}), starting it again in {self._wait_sec:.1f} s; its log is {self.log_path}")
        self._process, self._age = None, clock.Stopwatch()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process if it lives; SIGKILL to its whole group."""
        if self._process is None or self._process.poll() is not None:
            return
        if number == signal.SIGKILL:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def stop(self, grace_sec: float) -> None:
        """Wait for the process, which was asked to end, and end it by force after `grace_sec`."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_sec)
            stop_process(self._process, 0)
            self._process = None


class Standby:
    """A process that imports what a worker needs while its command still finds out what there is to do."""

    def __init__(self, settings: Settings) -> None:
        # nothing of the home is touched before the command has seen that its input is sound
        self._process: subprocess.Popen[bytes] | None = spawn(
            worker_process.standing_by(), child_environment(settings), Path(os.devnull), stdin=subprocess.PIPE)

    def begin(self, order: bytes) -> subprocess.Popen[bytes]:
        """Make a worker of it and hand the process over."""
        process = self._process
        assert process is not None and process.stdin is not None
        self._process = None
        with suppress(BrokenPipeError):  # it is dead: whoever looks after it starts another one
            process.stdin.write(order)
            process.stdin.close()
        return process

    def dismiss(self) -> None:
        """End it, unless it was handed over."""
        if self._process is not None:
            stop_process(self._process, 0)
            self._process = None


@contextmanager
def standing_by(settings: Settings, number: int) -> Iterator[list[Standby]]:
    """Give `number` processes that stand by; those that nobody wanted are ended."""
    waiting = [Standby(settings) for _ in range(number)]
    try:
        yield waiting
    finally:
        for one in waiting:
            one.dismiss()


class Crew:
    """Everything that one command runs: the embedded broker and its children. Leaving the context stops all of it.

    Workers are made of the processes `waiting`, as far as they go.
    """

    def __init__(self, settings: Settings, say: Say, waiting: Sequence[Standby] = ()) -> None:
        self.settings, self.say, self._waiting = settings, say, list(waiting)
        self.children: list[Child] = []
        self._broker: EmbeddedBroker | None = None
        self._stopping = False

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_broker_if_ours(self) -> None:
        """Start the home's own broker if no server is configured, else make sure that the configured one answers.

        Raises ServiceAway with what to start or to install.
        """
        if self.settings.embedded_broker:
            self._start_broker()
        else:
            from console.cli.services import require_broker

            warning = require_broker(self.settings)
            if warning is not None:
                self.say(f"warning: {warning}")

    def start(self, name: str, *words: str) -> None:
        """Start ``celery -A config`` with `words`."""
        self._start(name, celery_arguments(*words))

    def start_workers(self, number: int, concurrency: int) -> None:
        """Start `number` workers with `concurrency` slots each."""
        for place in range(1, number + 1):
            # the process id, because two commands may share a broker
            name = f"ratelane-{os.getpid()}-{place}@%h"
            child = Child(f"worker-{place}", worker_process.arguments(name, concurrency), self.settings)
            if self._waiting:
                order = worker_process.order(name, concurrency, child.log_path, self.settings.home)
                child.adopt(self._waiting.pop(0).begin(order))
            else:
                child.start()
            self.children.append(child)

    def _start(self, name: str, argv: Sequence[str]) -> None:
        child = Child(name, argv, self.settings)
        child.start()
        self.children.append(child)

    def _start_broker(self) -> None:
        self._broker = EmbeddedBroker(self.settings.home)
        self._broker.start()

    def look(self) -> None:
        """Restart what died, take over a broker whose command is gone; quick, call it often."""
        if self._broker is not None:
            self._broker.ensure()
        if not self._stopping:
            for child in self.children:
                child.look(self.say)

    @property
    def lives(self) -> bool:
        """Whether one of the children still runs."""
        return any(child.lives for child in self.children)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to every child; from now on none is started again."""
        self._stopping = True
        for child in self.children:
            child.send(number)

    def stop(self) -> None:
        """Ask all children to end at their next stop point, end them by force after that, then the broker."""
        if not self._stopping:
            self.send(signal.SIGTERM)
        grace = self.settings.soft_stop_sec + _GOODBYE_SEC
        if self.children:
            with ThreadPoolExecutor(len(self.children)) as waiting:
                list(waiting.map(lambda child: child.stop(grace), self.children))
        if self._broker is not None:
            self._broker.stop()
            self._broker = None


def last_lines(path: Path, number: int = 12) -> str:
    """Return the last lines of a log, or nothing if there is none."""
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-number:])
    except OSError:
        return ""


def _ended(status: int) -> str:
    if status < 0:
        return f"signal {-status}"
    return f"exit {status}"
