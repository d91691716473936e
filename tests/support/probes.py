"""Waiting at, and stopping a process on, a named line of the protocol (see `config.probes`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.probes import NAMES
from tests.support.servers import wait_until


@dataclass(frozen=True)
class Probes:
    """The probes of the processes that were started with this folder as their ``RATELANE_PROBE_DIR``."""

    folder: Path

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What was reached so far, in order; a line that is still being written is left out."""
        trace = self.folder / "trace.jsonl"
        if not trace.exists():
            return []
        return [json.loads(line) for line in trace.read_text(encoding="utf-8").split("\n")[:-1]]

    def seen(self, name: str, job: str | None = None) -> list[dict[str, Any]]:
        """Return how often, and by whom, the line `name` was reached (for one job alone if it is given)."""
        return [line for line in self.lines if line["probe"] == _known(name) and job in (None, line["job"])]

    def wait_for(self, name: str, job: str | None = None, times: int = 1, timeout: float = 15.0) -> list[dict[str, Any]]:
        """Return once `name` has been reached `times` times; raise `TimeoutError` after `timeout` seconds."""
        wait_until(lambda: len(self.seen(name, job)) >= times, f"probe {name} of {job or 'any job'}", timeout)
        return self.seen(name, job)

    def order(self, name: str, word: str, job: str = "") -> None:
        """Have the next process that reaches `name` (with `job`) obey ``freeze``, ``kill`` or ``hold``, once."""
        order = self._order(name, job)
        unborn = order.with_name(f"unborn.{order.name}")
        unborn.write_text(word, encoding="utf-8")
        unborn.rename(order)  # whoever finds it finds the word in it

    def withdraw(self, name: str, job: str = "") -> None:
        """Take an order back that nobody has obeyed yet."""
        self._order(name, job).unlink(missing_ok=True)

    def taken(self, name: str, job: str = "") -> list[int]:
        """Return the ids of the processes that have obeyed an order at `name`."""
        return [int(path.name.rpartition(".")[2]) for path in self.folder.glob(f"taken.{self._order(name, job).name}.*")]

    def wait_taken(self, name: str, job: str = "", timeout: float = 15.0) -> int:
        """Return the id of the process that obeys the order at `name`."""
        wait_until(lambda: self.taken(name, job), f"the order at {name}", timeout)
        return self.taken(name, job)[0]

    def go(self, name: str) -> None:
        """Let those who ``hold`` at `name` go on, and everybody after them."""
        (self.folder / f"go.{_known(name)}").touch()

    def _order(self, name: str, job: str) -> Path:
        return self.folder / (f"at.{_known(name)}.{job}" if job else f"at.{_known(name)}")


def _known(name: str) -> str:
    if name not in NAMES:
        raise LookupError(f"no probe is called {name!r}")
    return name
