"""The only place that asks what time it is.

Leases, pauses and gaps are the database's business; what is asked here is the schedule's clock, the age of something
inside this process, and nothing that is compared with another machine.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)
_offset = timedelta(0)


def now() -> datetime:
    """Return the present moment as an aware UTC datetime, moved by the offset that only tests may set."""
    return datetime.now(UTC) + _offset


def set_offset(seconds: float) -> None:
    """Move `now` by `seconds`; settings refuse anything but 0 outside tests."""
    global _offset
    _offset = timedelta(seconds=seconds)


def monotonic() -> float:
    """Return seconds on a clock that never goes back and stands still while the machine sleeps."""
    return time.monotonic()


def boot_time() -> float:
    """Return seconds on a clock that never goes back and, where the system has one, counts the machine's sleep."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


def wall_ns() -> int:
    """Return nanoseconds since 1970 by the machine's own wall clock, for lines that are read beside other logs."""
    return time.time_ns()


def pause(seconds: float) -> None:
    """Sleep for `seconds`; a negative wait is over at once."""
    if seconds > 0:
        time.sleep(seconds)


class Stopwatch:
    """Seconds since creation, never fewer than really passed (rule J6).

    A lease counted on the monotonic clock alone would survive a suspended machine, on the wall clock alone a step back;
    the largest of the three differences errs on the safe side only.
    """

    __slots__ = ("_boot", "_monotonic", "_wall")

    def __init__(self) -> None:
        self._monotonic, self._boot, self._wall = time.monotonic(), boot_time(), time.time()

    def elapsed(self) -> float:
        """Return the largest of monotonic, boot-time and wall-clock difference since creation, in seconds."""
        return max(time.monotonic() - self._monotonic, boot_time() - self._boot, time.time() - self._wall)


def now_micros() -> int:
    """Return the machine's time as microseconds since 1970: the clock of a SQLite database, which has none of its own."""
    return time.time_ns() // 1000
