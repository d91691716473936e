"""What time it is for a database server, told without asking it each time.

The request log says when requests were under way, in the database's time (rule P5). A process that is held up between
looking at its own clock and the server's reading of its own would write times that are too late by that, and gaps would
look too short that were not. So the two clocks are compared beforehand, in the shortest of a few round trips.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from config import clock

#: a server's clock may be set, and two clocks drift apart: a comparison serves for so long
SERVES_SEC = 10.0
#: a round trip as short as this needs no other one; otherwise the shortest of so many counts
SHORT_SEC, MOST_TRIES = 0.002, 4


class ServerClock:
    """The clock of one server; `ask` returns its time, as an aware datetime, in one round trip."""

    def __init__(self, ask: Callable[[], datetime], own: Callable[[], float] = clock.boot_time) -> None:
        self._ask, self._own = ask, own
        self._comparing = threading.Lock()
        #: the server's time when our own clock, which goes on while the machine sleeps, said this
        self._compared: tuple[datetime, float] | None = None

    def now(self) -> datetime:
        """Return the server's time, wrong by half a round trip at most; raises what `ask` raises if it must be asked."""
        found = self._compared
        if found is None or self._own() - found[1] > SERVES_SEC:
            with self._comparing:
                found = self._compared
                if found is None or self._own() - found[1] > SERVES_SEC:
                    found = self._compared = self._compare()
        return found[0] + timedelta(seconds=self._own() - found[1])

    def _compare(self) -> tuple[datetime, float]:
        best: tuple[float, datetime, float] | None = None
        for _ in range(MOST_TRIES):
            asked = self._own()
            said = self._ask()
            took = self._own() - asked
            if best is None or took < best[0]:
                best = took, said, asked + took / 2
            if took <= SHORT_SEC:
                break
        assert best is not None
        return best[1], best[2]
