"""What the benchmark makes of the stamps it reads."""

from __future__ import annotations

from benchmarks.measure import measure, spread

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
