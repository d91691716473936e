"""What the benchmark makes of the stamps it reads."""

from __future__ import annotations

import pytest

from benchmarks.lanes import Shape, shape_of, summary
from benchmarks.measure import Measured, measure, spread

MS = 1_000_000


def test_throughput_overlaps_and_hand_over_come_from_the_bodies_own_stamps() -> None:
    stamps = [("a", 0, 10 * MS), ("a", 15 * MS, 20 * MS), ("b", 0, 10 * MS), ("b", 9 * MS, 40 * MS)]
    found = measure(stamps)
    assert (found.jobs, found.jobs_per_sec, found.overlaps) == (4, 100.0, 1)
    assert (found.handover_p50_ms, found.handover_p99_ms) == (2.0, 5.0)


def test_lanes_that_take_turns_have_no_spread() -> None:
    assert spread([("a", 1, 2), ("b", 1, 2), ("a", 3, 4), ("b", 3, 4)]) == 0


def test_a_lane_that_is_passed_over_counts() -> None:
    turns = [("a", float(second), second + 0.5) for second in range(1, 5)]
    assert spread([*turns, ("b", 9.0, 9.5)]) == 4, "b had been ready from the beginning"
    assert spread([("b", 0.5, 0.6), *turns, ("b", 9.0, 9.5)]) == 3


def test_claims_side_by_side_are_one_decision() -> None:
    assert spread([("a", 1.0, 1.1), ("b", 1.01, 1.1)]) == 0
    assert spread([("a", 1.0, 1.1), ("b", 1.05, 1.1)]) == 1


def test_a_shape_is_lanes_by_jobs_of_each() -> None:
    assert shape_of("100x30") == Shape("100x30", 100, 30)
    assert shape_of("4x100 of 10 ms") == Shape("4x100 of 10 ms", 4, 100, 0.01)
    for wrong in ("100", "0x3", "3x0", "4x100 of 10", "many"):
        with pytest.raises(ValueError, match="is no shape"):
            shape_of(wrong)


def test_a_summary_has_medians_and_their_ratio_and_hand_over_where_there_are_lanes() -> None:
    def one(rate: float, p50: float | None, overlaps: int = 0) -> Measured:
        return Measured(10, rate, overlaps, 1, p50, p50 and 2 * p50)

    row = summary(Shape("5x2", 5, 2), {
        "ratelane": [one(300, 4), one(100, 2), one(200, 3)], "celery (threads)": [one(400, 9, 5)] * 3,
        "procrastinate": [one(100, 6)] * 3})
    assert row["jobs_per_sec"] == {"ratelane": 200, "celery (threads)": 400, "procrastinate": 100}
    assert row["ratio"] == {"celery (threads)": 0.5, "procrastinate": 2.0}
    assert row["handover_p50_ms"] == {"ratelane": 3, "procrastinate": 6}
    assert row["handover_p99_ms"] == {"ratelane": 6, "procrastinate": 12}
    assert row["overlaps"] == {"ratelane": 0, "procrastinate": 0}
