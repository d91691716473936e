"""What the benchmarks of claims and of idle lanes make of what they measured."""

from __future__ import annotations

import os
from typing import Any

import pytest

from benchmarks import claim, idle
from benchmarks.idle import NONE, PAUSED, SERVED, Reading

READS: dict[str, dict[str, Any]] = {}


class Timed:
    """A fleet of which only the times are known, in seconds."""

    def __init__(self, name: str, scout: list[float], settle: list[float]) -> None:
        self.name, self.scout, self.settle, self.claims = name, scout, settle, 2 * len(scout)


def test_median_and_95th_percentile_are_milliseconds() -> None:
    assert claim.figures([number / 1e3 for number in range(100, 0, -1)]) == {"p50": 50.5, "p95": 96.0}


def test_twice_the_time_holds_and_more_does_not() -> None:
    small = Timed("small", [0.001] * 20, [0.001] * 20)
    assert claim.report(small, Timed("large", [0.002] * 20, [0.002] * 20), READS)["holds"]
    found = claim.report(small, Timed("large", [0.001] * 20, [0.0021] * 20), READS)
    assert (found["scout"]["holds"], found["settle"]["holds"], found["holds"]) == (True, False, False)
    assert found["settle"]["ratio"] == {"p50": 2.1, "p95": 2.1}


def test_a_slow_tail_does_not_hold_however_good_the_median() -> None:
    small = Timed("small", [0.001] * 20, [0.001] * 20)
    found = claim.report(small, Timed("large", [0.001] * 18 + [0.005] * 2, [0.001] * 20), READS)
    assert found["scout"]["ratio"] == {"p50": 1.0, "p95": 5.0}
    assert not found["holds"]


def test_a_session_that_was_opened_meanwhile_counts_from_its_beginning() -> None:
    before = Reading(at=100.0, worker_sec=1.0, sessions_sec={1: 5.0, 2: 1.0}, statements=50, rss_mb=90.0)
    after = Reading(at=200.0, worker_sec=2.5, sessions_sec={1: 5.5, 3: 0.25}, statements=450, rss_mb=91.0)
    assert idle.used(before, after) == {
        "worker_cpu_percent": 1.5, "postgres_cpu_percent": 0.75, "statements_per_sec": 4.0, "rss_mb": 91.0}


def found(**changed: dict[str, float]) -> dict[str, Any]:
    """Return the report of three workers that used the same, but for what is `changed`, by the kind of lanes."""
    same = {"worker_cpu_percent": 1.0, "postgres_cpu_percent": 0.1, "statements_per_sec": 5.0, "rss_mb": 100.0}
    return idle.report({name: same | changed.get(name.partition(" ")[0], {}) for name in (NONE, SERVED, PAUSED)}, 90.0)


@pytest.mark.parametrize(("lanes", "more", "limit"), [
    ("idle", {"rss_mb": 105.1}, "rss_mb"),
    ("idle", {"worker_cpu_percent": 1.51}, "cpu_percent"),
    ("idle", {"postgres_cpu_percent": 0.61}, "cpu_percent"),
    ("paused", {"statements_per_sec": 5.51}, "statements_percent"),
    ("paused", {"statements_per_sec": 4.49}, "statements_percent"),
])
def test_each_limit_is_seen_to_be_passed(lanes: str, more: dict[str, float], limit: str) -> None:
    assert all(found()["holds"].values())
    assert [name for name, holds in found(**{lanes: more})["holds"].items() if not holds] == [limit]


def test_the_processor_time_of_this_process_grows() -> None:
    before = idle.cpu_sec(os.getpid())
    while idle.cpu_sec(os.getpid()) == before:
        sum(range(10_000))
    assert 5.0 < idle.rss_mb(os.getpid()) < 5_000.0
