"""Every measured body leaves one line: its lane, and when it began and ended on the machine's monotonic clock."""

from __future__ import annotations

import asyncio
import os
import time

_FILE = os.open(os.environ["BENCH_STAMPS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
_BODY_SEC = float(os.environ.get("BENCH_BODY_SEC", "0"))


def run_body(lane: str) -> None:
    """Do the measured work (a wait, or nothing) and leave the stamp."""
    began = time.monotonic_ns()
    if _BODY_SEC:
        time.sleep(_BODY_SEC)
    _stamp(lane, began)


async def await_body(lane: str) -> None:
    """Do the same on an event loop, which is free for other bodies meanwhile."""
    began = time.monotonic_ns()
    if _BODY_SEC:
        await asyncio.sleep(_BODY_SEC)
    _stamp(lane, began)


def _stamp(lane: str, began: int) -> None:
    os.write(_FILE, f"{lane} {began} {time.monotonic_ns()}\n".encode())
