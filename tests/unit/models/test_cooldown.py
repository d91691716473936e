"""How long a group pauses and how an interval grows, in exact numbers (rules C3, C5)."""

from __future__ import annotations

from math import inf, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cooldown import LONGEST_RETRY_AFTER_SEC, grow, grows, pause_seconds, shrink

SETTINGS = {"delay_sec": 600.0, "js_delay_sec": 21_600.0, "repeat_factor": 1.0}


def steps(start: float | None, number: int, *, factor: float | None = 1.1) -> list[float]:
    found: list[float] = []
    for _ in range(number):
        start = grow(start, factor=factor, cap_sec=600).new_interval_sec
        found.append(start)
    return found


def test_c5_an_interval_of_ten_grows_to_eleven_thirteen_and_fifteen() -> None:
    assert steps(10, 3) == [11, 13, 15]


@pytest.mark.parametrize(("base", "new"), [
    (50, 55), (0.2, 1.2), (0, 11), (None, 11), (100, 110), (0.1, 1.1), (1, 2), (9, 10), (11, 13), (20, 22), (590, 600),
])
def test_c5_growth_is_computed_in_exact_decimals(base: float | None, new: float) -> None:
    found = grow(base, factor=1.1, cap_sec=600)
    assert (found.new_interval_sec, found.status) == (new, "updated")


@pytest.mark.parametrize("factor", [None, 0, 0.5, -3, 1])
def test_c5_a_factor_below_one_or_unset_counts_as_one(factor: float | None) -> None:
    assert steps(10, 2, factor=factor) == [11, 12]


@pytest.mark.parametrize(("base", "old"), [(600, 600), (700, 700)])
def test_c5_an_interval_at_the_cap_or_beyond_stays(base: float, old: float) -> None:
    found = grow(base, factor=1.1, cap_sec=600)
    assert (found.old_interval_sec, found.new_interval_sec, found.status) == (old, old, "max_reached")


def test_c5_the_last_step_ends_at_the_cap() -> None:
    found = grow(599.5, factor=1.1, cap_sec=600)
    assert (found.new_interval_sec, found.status) == (600, "updated")


def test_c5_the_reason_names_both_intervals() -> None:
    assert grow(None, factor=1.1, cap_sec=600).why == "grew from 10 s to 11 s"
    assert grow(600, factor=1.1, cap_sec=600).why == "already at the most (600 s)"


@given(st.none() | st.floats(0, 10_000), st.none() | st.floats(-5, 50), st.floats(1, 10_000))
def test_c5_growth_stays_within_bounds_and_never_shrinks(
    base: float | None, factor: float | None, cap: float
) -> None:
    found = grow(base, factor=factor, cap_sec=cap)
    before = base or 10.0
    assert found.old_interval_sec == before
    assert found.new_interval_sec >= before
    assert found.new_interval_sec <= max(before, cap)
    assert (found.status == "max_reached") == (found.new_interval_sec == before)
    if found.status == "updated":
        assert found.new_interval_sec >= min(cap, nextafter(before + 1, -inf))


@given(st.floats(0, 599), st.floats(1, 3))
def test_c5_growth_reaches_the_cap_and_then_stays(base: float, factor: float) -> None:
    assert steps(base, 600, factor=factor)[-1] == 600


def test_c3_a_pause_is_the_setting_or_what_the_server_asked_for_whichever_is_longer() -> None:
    assert pause_seconds("rate", None, level=0, **SETTINGS) == 600
    assert pause_seconds("rate", 30, level=0, **SETTINGS) == 600
    assert pause_seconds("rate", 3_000, level=0, **SETTINGS) == 3_000


def test_c3_a_server_cannot_pause_a_group_for_longer_than_a_day() -> None:
    assert pause_seconds("rate", 10**9, level=0, **SETTINGS) == LONGEST_RETRY_AFTER_SEC
    assert pause_seconds("rate", inf, level=0, **SETTINGS) == LONGEST_RETRY_AFTER_SEC


def test_c3_a_challenge_pauses_six_hours_whatever_its_level() -> None:
    assert pause_seconds("js_challenge", 60, level=5, **(SETTINGS | {"repeat_factor": 2.0})) == 21_600


@pytest.mark.parametrize(("factor", "level", "delay"), [(1.0, 9, 600), (0.5, 9, 600), (2.0, 0, 600), (2.0, 3, 4_800)])
def test_c3_repeated_cooldowns_lengthen_the_settings_part(factor: float, level: int, delay: float) -> None:
    assert pause_seconds("rate", None, level=level, **(SETTINGS | {"repeat_factor": factor})) == delay


def test_c3_no_number_of_repeated_cooldowns_pauses_for_longer_than_a_day() -> None:
    for factor, level in ((2.0, 1_000), (1e6, 10), (1.5, 40)):
        assert pause_seconds("rate", None, level=level, **(SETTINGS | {"repeat_factor": factor})) == 86_400
    assert pause_seconds("rate", None, level=9, delay_sec=90_000, js_delay_sec=1, repeat_factor=2) == 90_000


@given(st.sampled_from(["rate", "reset", "cookie_loop", "js_challenge"]), st.none() | st.floats(-1e9, 1e9),
       st.integers(-3, 50), st.floats(-2, 3))
def test_c3_no_answer_of_a_server_shortens_a_pause(
    kind: str, asked: float | None, level: int, factor: float
) -> None:
    given_settings = SETTINGS | {"repeat_factor": factor}
    alone = pause_seconds(kind, None, level=level, **given_settings)
    assert alone >= 600
    assert alone <= pause_seconds(kind, asked, level=level, **given_settings) <= max(alone, LONGEST_RETRY_AFTER_SEC)


@pytest.mark.parametrize(("codes", "site", "target", "expected"), [
    ("gd*", "gdzj", "news", True), ("gd*", "hn", "gd_news", True), ("gd*", "hn", "news", False),
    ("x, gd* y", "y", "t", True), ("", "gd", "gd", False), ("*", "", "", False), ("GD*", "gd", "gd", False),
])
def test_c5_growth_is_for_the_sites_and_targets_that_the_setting_names(
    codes: str, site: str, target: str, expected: bool
) -> None:
    assert grows(codes, site, target) is expected


def test_c5_decay_walks_back_the_way_that_growth_came() -> None:
    for start in (10, 50, 0.2, 1):
        up = [start, *steps(start, 6)]
        down = [up[-1]]
        while down[-1] > start:
            down.append(shrink(down[-1], start, factor=1.1))
        assert down == up[::-1]


@given(st.floats(0, 600), st.floats(0, 600), st.none() | st.floats(-5, 50))
def test_c5_decay_never_goes_below_the_baseline_and_always_gets_there(
    interval: float, baseline: float, factor: float | None
) -> None:
    found = shrink(interval, baseline, factor=factor)
    assert found <= interval
    assert found >= min(interval, baseline)
    if interval > baseline:
        assert found == baseline or found <= interval - 1 + 1e-9
