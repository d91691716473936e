from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from config import clock


@pytest.fixture(autouse=True)
def _no_offset_stays() -> Iterator[None]:
    yield
    clock.set_offset(0)


def test_now_is_aware_and_utc() -> None:
    assert clock.now().utcoffset() == timedelta(0)


def test_now_moves_by_the_offset_and_other_clocks_do_not() -> None:
    before = clock.now()
    clock.set_offset(86400)
    assert clock.now() - before >= timedelta(days=1)
    assert abs(clock.wall_ns() / 1e9 - time.time()) < 5


@pytest.mark.parametrize("ahead", ["monotonic", "clock_gettime", "time"])
def test_stopwatch_believes_the_clock_that_went_furthest(ahead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if ahead == "clock_gettime" and not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("this system has no clock that counts its sleep")
    watch = clock.Stopwatch()
    real = getattr(time, ahead)
    monkeypatch.setattr(time, ahead, lambda *which: real(*which) + 100)
    assert 100 <= watch.elapsed() < 105


def test_stopwatch_never_runs_back_with_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = clock.Stopwatch()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    assert 0 <= watch.elapsed() < 5


def test_pause_of_a_negative_time_is_over_at_once() -> None:
    clock.pause(-1)
