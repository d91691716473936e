"""The command line as a person runs it: a process of its own, with a home of its own and no other settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from config import clock

ROOT = Path(__file__).resolve().parents[2]


def clean_environment(**more: str) -> dict[str, str]:
    """Return this process's environment without settings of Ratelane, with our packages on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RATELANE_")}
    return kept | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"} | more


@dataclass(frozen=True)
class CommandLine:
    """Runs commands in `home`, from the folder beside it."""

    home: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def command(self, *words: str) -> list[str]:
        """Return the arguments of a command."""
        return [sys.executable, "-m", "console.entry", "--home", str(self.home), *words]

    def run(self, *words: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self.command(*words), cwd=self.home.parent, env=clean_environment(**environment), capture_output=True,
            text=True, timeout=timeout, check=False)

    def start(self, *words: str, own_group: bool = False, **environment: str) -> subprocess.Popen[str]:
        """Start a command and return it while it runs; `kill` ends it if the test did not.

        With `own_group` it leads a process group, as a terminal's foreground job does, so that Ctrl-C can reach all of it.
        """
        command = subprocess.Popen(
            self.command(*words), cwd=self.home.parent, env=clean_environment(**environment), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, process_group=0 if own_group else None)
        self.started.append(command)
        return command

    def kill(self) -> None:
        """End every command that still runs, and its children with it."""
        for command in self.started:
            command.kill()
            command.communicate()

    def json(self, *words: str, code: int = 0, **environment: str) -> Any:
        """Run a command with --json, check its exit code, and return the one document on its standard output."""
        done = self.run(*words, "--json", **environment)
        assert done.returncode == code, done.stderr
        assert done.stdout.count("\n") == 1, done.stdout
        return json.loads(done.stdout)

    def refuses(self, code: int, *words: str, **environment: str) -> str:
        """Run a command that must fail with `code` and one sentence, never a traceback; return the sentence."""
        done = self.run(*words, **environment)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        assert done.stderr.strip()
        return done.stderr


def children_of(pid: int, named: str = "") -> set[int]:
    """Return the process ids of the direct children of `pid` that have `named` in their command line."""
    # else `ps` cuts lines at the width of a terminal that somebody has set, and a long path hides what stands behind it
    found = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", str(pid)],
                           capture_output=True, text=True, check=False)
    return {int(line.split()[0]) for line in found.stdout.splitlines() if named in line}


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that ended and was not fetched by its parent does not."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(found.stdout.strip()) and not found.stdout.strip().startswith("Z")


def wait_until(holds: Callable[[], object], timeout: float = 20.0) -> None:
    """Wait until `holds` answers something true; fail after `timeout` seconds."""
    age = clock.Stopwatch()
    while not holds():
        assert age.elapsed() < timeout, f"not within {timeout:g} s"
        clock.pause(0.02)
