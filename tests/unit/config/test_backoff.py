from __future__ import annotations

import pytest

from config.backoff import delay_sec


@pytest.mark.parametrize(("failures", "expected"), [(0, 0), (1, 5), (2, 10), (3, 20), (7, 320), (8, 600), (5000, 600)])
def test_delay_doubles_with_each_failure_up_to_the_cap(failures: int, expected: float) -> None:
    assert delay_sec(failures, base=5, cap=600, draw=lambda: 0.0) == expected


def test_jitter_adds_at_most_its_share() -> None:
    assert delay_sec(2, base=5, cap=600, draw=lambda: 1.0) == pytest.approx(11.0)
    assert delay_sec(9, base=5, cap=600, jitter=0.5, draw=lambda: 0.5) == pytest.approx(750.0)


def test_delays_of_two_jobs_differ_without_a_given_draw() -> None:
    assert len({delay_sec(1, base=5, cap=600) for _ in range(20)}) > 1
