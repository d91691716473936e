"""Real beats, ``python -m celery -A config beat``, each in a process group of its own, to be killed and frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from config.devstack.processes import spawn
from tests.support.command_line import ROOT, clean_environment
from tests.support.probes import Probes
from tests.support.processes import is_stopped
from tests.support.servers import wait_until

SHANGHAI = ZoneInfo("Asia/Shanghai")
#: a moment of the day without a quiet window
_NOON = "2026-05-01 12:00"


def offset_at(moment: str) -> float:
    """Return the clock's offset with which a schedule in Asia/Shanghai stands at ``2026-05-01 23:15[:00]`` now."""
    return (datetime.fromisoformat(moment).replace(tzinfo=SHANGHAI) - datetime.now(UTC)).total_seconds()


def offset_before_noon(seconds: float) -> float:
    """Return the clock's offset with which a schedule in Asia/Shanghai stands `seconds` before noon now."""
    return offset_at(_NOON) - seconds


#: two ways to start the same
CELERY, RATELANE = ("celery", "-A", "config", "beat"), ("console.entry", "beat")


class BeatProcess:
    """A beat called `name` under the settings that `environment` holds, with further `arguments` of Celery's."""

    def __init__(
        self, name: str, folder: Path, environment: Mapping[str, str], *, program: Sequence[str] = CELERY,
        arguments: Sequence[str] = (),
    ) -> None:
        self._argv = [sys.executable, "-m", *program, "--pidfile=", "--loglevel", "INFO", *arguments]
        self.name, self.log_path = name, folder / f"{name}.log"
        self.probes = Probes(folder / f"{name}.probes")
        self.probes.folder.mkdir(parents=True, exist_ok=True)
        self._environment = clean_environment(**{**environment, "RATELANE_PROBE_DIR": str(self.probes.folder)})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> BeatProcess:
        """Start the process; do not wait for it."""
        self._process = spawn(self._argv, self._environment, self.log_path, cwd=ROOT)
        return self

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""

    @property
    def pid(self) -> int:
        """The id of its process, which is also that of its group."""
        assert self._process is not None
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def wait_started(self, timeout: float = 30.0) -> BeatProcess:
        """Return once it keeps the schedule."""
        wait_until(lambda: "schedule.start" in self.log or not self.lives, f"beat {self.name}", timeout)
        assert self.lives, self.log[-3000:]
        return self

    def wait_frozen(self, timeout: float = 20.0) -> None:
        """Return once it stands still."""
        wait_until(lambda: is_stopped(self.pid), f"the freezing of {self.name}", timeout)

    def thaw(self) -> None:
        """Let it go on."""
        os.killpg(self.pid, signal.SIGCONT)

    def wait_end(self, timeout: float = 20.0) -> int:
        """Return its exit status once it has ended."""
        assert self._process is not None
        return self._process.wait(timeout)

    def terminate(self) -> int:
        """Ask it to end, and return its exit status."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait_end()

    def kill(self) -> None:
        """End it without a chance to clean up."""
        if self.lives:
            os.killpg(self.pid, signal.SIGKILL)
            self.wait_end()
