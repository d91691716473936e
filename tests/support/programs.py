"""Python programs that tests start, kill, and ask whether anything of them is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.servers import wait_until

ROOT = Path(__file__).parents[2]


class Program:
    """A Python program that prints a line when it is ready; whatever it starts holds `held` open as long as it lives."""

    def __init__(self, script: str, *arguments: object) -> None:
        self.reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(writer), *map(str, arguments)], stdout=subprocess.PIPE,
            stdin=subprocess.PIPE, text=True, pass_fds=(writer,), cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{ROOT}"},
        )
        os.close(writer)
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def all_gone(self, within: float = 5.0) -> bool:
        """Wait until nobody holds the pipe any more."""
        os.set_blocking(self.reader, False)
        wait_until(self._ended, "the end of all children", within)
        return True

    def _ended(self) -> bool:
        try:
            return os.read(self.reader, 1) == b""
        except BlockingIOError:
            return False
