"""What the benchmark of the schedule makes of what it measured."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime

import pytest

from benchmarks import schedule
from benchmarks.claimer import Timed
from benchmarks.measure import share
from benchmarks.schedule import Figure
from benchmarks.timetable import at

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()


def test_the_99th_percentile_leaves_one_of_a_hundred_above_it() -> None:
    assert share([float(number) for number in range(200, 0, -1)], 0.99) == 199.0
    assert share([5.0], 0.99) == 5.0


def test_a_claim_counts_where_it_was_under_way() -> None:
    times = [Timed(0.0, 1.0), Timed(1.0, 5.0), Timed(5.5, 6.0), Timed(8.0, 9.0)]
    assert schedule.waits(times, [(2.0, 3.0)]) == [4.0], "it began before and ended after"
    assert schedule.waits(times, [(4.0, 5.6)]) == [4.0, 0.5]
    assert schedule.waits(times, [(0.5, 0.6), (8.5, 8.6)]) == [1.0, 1.0]
    assert schedule.waits(times, [(6.0, 8.0)]) == []


def test_entries_are_due_one_after_the_other_each_with_a_target_of_its_own() -> None:
    found = schedule.entry_documents(NOON, Namespace(entries=10_000, over=3_600.0))
    assert len({document["targets"][0] for document in found.values()}) == len(found) == 10_000
    moments = [document["at"] for document in found.values()]
    assert moments == sorted(moments)
    assert (moments[0], moments[249], moments[250], moments[-1]) == ("12:00:00", "12:01:29", "12:01:30", "12:59:59")


def test_a_moment_after_midnight_is_one_of_the_next_day() -> None:
    assert at(NOON + 43_205) == "00:00:05"


@pytest.mark.parametrize(("value", "limit", "holds"), [(2.99, 3.0, True), (3.0, 3.0, False), (99.0, None, True)])
def test_a_figure_holds_below_its_limit(value: float, limit: float | None, holds: bool) -> None:
    figure = Figure("burst", "1000 due", value, "s", limit)
    assert figure.holds is holds
    found = schedule.document([Figure("idle", "look", 1.0, "ms", 10.0), figure], [0.5])
    assert found["holds"] is holds
    text = schedule.table(found)
    assert ("DOES NOT HOLD" in text) is not holds
    assert "< 10 ms" in text
