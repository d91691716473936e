"""The time of a server, compared beforehand in the shortest of a few round trips (rule P5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from models.server_clock import MOST_TRIES, SERVES_SEC, ServerClock

THEN = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Line:
    """A server whose clock is an hour ahead of ours, and round trips that take what the test says."""

    def __init__(self, *trips: float) -> None:
        self.own, self.ahead, self.trips, self.asked = 100.0, 3600.0, list(trips), 0

    def ask(self) -> datetime:
        """Answer in the middle of the round trip."""
        took = self.trips[min(self.asked, len(self.trips) - 1)]
        self.asked += 1
        self.own += took / 2
        said = THEN + timedelta(seconds=self.own + self.ahead)
        self.own += took / 2
        return said

    def clock(self) -> ServerClock:
        return ServerClock(self.ask, lambda: self.own)

    def true(self) -> datetime:
        return THEN + timedelta(seconds=self.own + self.ahead)


def error_of(line: Line, found: datetime) -> float:
    return abs((found - line.true()).total_seconds())


def test_a_short_round_trip_is_enough() -> None:
    line = Line(0.001)
    assert error_of(line, line.clock().now()) < 0.001
    assert line.asked == 1


def test_the_shortest_of_a_few_counts() -> None:
    line = Line(0.5, 0.02, 0.3, 0.4)
    assert error_of(line, line.clock().now()) <= 0.01
    assert line.asked == MOST_TRIES


@pytest.mark.parametrize(("later", "asked"), [(SERVES_SEC - 1, 1), (SERVES_SEC + 1, 2)])
def test_a_comparison_serves_for_a_while_and_then_a_clock_that_was_set_is_seen(later: float, asked: int) -> None:
    line = Line(0.001)
    server = line.clock()
    server.now()
    line.own += later
    if asked == 2:
        line.ahead = -50.0
    assert error_of(line, server.now()) < 0.001
    assert line.asked == asked
