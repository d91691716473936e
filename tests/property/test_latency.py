"""Backing off from slowness: never below the interval, never without end, and back again (rules C1, R8; W27)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.pipeline.latency import FLOOR_SEC, MOST_SEC, Latency, is_good, most

TIMES = st.floats(0, 30, allow_nan=False)
INTERVALS = st.floats(0, 700, allow_nan=False)


def gap_of(state: Latency, interval: float) -> float:
    return max(interval, state.raised_sec)


@given(INTERVALS, st.lists(st.tuples(TIMES, st.booleans()), max_size=60))
def test_w27_the_gap_stays_between_the_interval_and_its_bound(interval: float, answers: list[tuple[float, bool]]) -> None:
    state = Latency()
    for seconds, good in answers:
        state = state.after(seconds, gap_sec=gap_of(state, interval), interval_sec=interval, is_good=good)
        assert interval <= gap_of(state, interval) <= max(interval, MOST_SEC)
        assert state.raised_sec == 0 or interval < state.raised_sec <= most(interval)


@given(st.floats(0.001, 3), INTERVALS, st.lists(TIMES, max_size=40))
def test_after_whatever_was_it_falls_back_to_the_interval(usual: float, interval: float, answers: list[float]) -> None:
    state = Latency(usual)
    for seconds in answers:
        state = state.after(seconds, gap_sec=gap_of(state, interval), interval_sec=interval, is_good=True)
    for _ in range(20):
        state = state.after(0.01, gap_sec=gap_of(state, interval), interval_sec=interval, is_good=True)
    assert state.raised_sec == 0


@given(TIMES, st.lists(TIMES, min_size=80, max_size=80))
def test_what_is_usual_lies_within_what_came(first: float, answers: list[float]) -> None:
    state = Latency()
    for seconds in (first, *answers):
        state = state.after(seconds, gap_sec=0, interval_sec=0, is_good=True)
    assert state.usual_sec is not None
    assert min(0.02, first, *answers) <= state.usual_sec <= max(0.02, first, *answers) + 1e-9


def test_each_slow_answer_doubles_the_gap_and_each_good_one_halves_it() -> None:
    state, gaps = Latency(0.1), []
    for seconds in (0.6, 0.9, 0.1, 0.1, 0.1):
        state = state.after(seconds, gap_sec=gap_of(state, 2.0), interval_sec=2.0, is_good=True)
        gaps.append(gap_of(state, 2.0))
    assert gaps == [4.0, 8.0, 4.0, 2.0, 2.0]


def test_an_error_lowers_nothing_and_is_not_usual() -> None:
    state = Latency(0.1, 8.0).after(0.001, gap_sec=8.0, interval_sec=2.0, is_good=False)
    assert state == Latency(0.1, 8.0)
    assert [is_good(status) for status in (200, 304, 404, 403, 429, 503, None)] == [True, True, True, False, False, False, False]


def test_a_silence_until_the_time_limit_is_slow_too() -> None:
    assert Latency(0.1).after(20.0, gap_sec=2.0, interval_sec=2.0, is_good=False) == Latency(0.1, 4.0)


@pytest.mark.parametrize(("usual", "seconds", "slow"), [(None, 30, False), (0.02, 0.49, False), (0.02, FLOOR_SEC, True), (1, 4.9, False), (1, 5, True)])
def test_five_times_the_usual_and_half_a_second_are_slow(usual: float | None, seconds: float, slow: bool) -> None:
    assert Latency(usual).is_slow(seconds) is slow


def test_what_stays_slow_is_the_usual_after_a_dozen_answers() -> None:
    state, slow = Latency(0.1), 0
    while state.is_slow(5.0):
        state, slow = state.after(5.0, gap_sec=1, interval_sec=1, is_good=True), slow + 1
    assert 5 <= slow <= 14
