"""Threads that wait where a test says, to interleave two by force."""

from __future__ import annotations

import threading
from typing import Any

import pytest


class Gate:
    """A place at which one thread waits until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, when: Any = lambda *_: True) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        real, first = getattr(where, name), threading.Lock()

        def gated(*args: Any, **more: Any) -> Any:
            if when(*args) and first.acquire(blocking=False):
                self.reached.set()
                assert self.open.wait(20)
            return real(*args, **more)

        monkeypatch.setattr(where, name, gated)
