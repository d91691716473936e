"""Ctrl-C in three steps: the first parks, the second stops at once, the third kills (rule U1)."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts the signals that ask the command to end, instead of ending it."""

    def __init__(self) -> None:
        self.number = 0
        self._happened = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in _CAUGHT:
            self._before[number] = signal.signal(number, self._count)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until the next signal."""
        self._happened.wait(seconds)
        self._happened.clear()

    def _count(self, _number: int, _frame: FrameType | None) -> None:
        self.number += 1
        self._happened.set()
