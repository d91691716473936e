"""The audit finds each kind of violation and nothing else (rule P5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from models.audit import Attempt, Cooldown, Request, audit, is_clean

START = datetime(2026, 11, 30, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def request(start: float, end: float, interval: float = 1.0, **more: Any) -> Request:
    facts = {"group": "g", "host": "h", "job_id": "j", "attempt": 1, **more}
    return Request(started_at=at(start), ended_at=at(end), interval_sec=interval, **facts)


def attempt(start: float, end: float | None, **more: Any) -> Attempt:
    facts = {"group": "g", "job_id": "j", "attempt": 1, "outcome": "done", **more}
    return Attempt(claimed_at=at(start), finished_at=None if end is None else at(end), **facts)


def numbers(found: dict[str, Any]) -> tuple[int, int, int, int]:
    return found["overlaps"], found["gaps_too_short"], found["during_pause"], found["within_clock_error"]


def test_polite_requests_are_clean() -> None:
    found = audit([request(0, 0.5), request(1.5, 2), request(3.01, 3.5)], [attempt(0, 4), attempt(4, 9, attempt=2)],
                  [Cooldown("g", at(5), at(9))])
    assert numbers(found) == (0, 0, 0, 0)
    assert (found["requests"], is_clean(found)) == (3, True)
    assert found["groups"]["g"]["requests"] == 3


def test_nothing_at_all_is_clean() -> None:
    assert is_clean(audit([], []))


def test_a_request_that_starts_before_the_one_before_has_ended_overlaps() -> None:
    found = audit([request(0, 2), request(1, 3)], [])
    assert numbers(found) == (1, 0, 0, 0)
    assert found["groups"]["g"]["violations"][0]["what"] == "overlap"
    assert not is_clean(found)


def test_a_long_request_is_not_forgotten_behind_a_short_one() -> None:
    assert numbers(audit([request(0, 10), request(1, 2), request(5, 6)], []))[0] == 2


def test_the_order_of_the_rows_does_not_matter() -> None:
    assert numbers(audit([request(1, 3), request(0, 2)], []))[0] == 1


def test_a_gap_below_the_interval_of_the_second_request_is_too_short() -> None:
    assert numbers(audit([request(0, 1), request(1.5, 2, interval=1)], [])) == (0, 1, 0, 0)
    assert numbers(audit([request(0, 1, interval=9), request(2, 3, interval=1)], [])) == (0, 0, 0, 0)


def test_a_tiny_overlap_is_still_a_gap_that_is_missing() -> None:
    assert numbers(audit([request(0, 1), request(0.97, 2, interval=5)], [])) == (0, 1, 0, 0)


def test_differences_below_the_clock_error_are_counted_apart() -> None:
    found = audit([request(0, 1), request(1.97, 2)], [attempt(0, 2), attempt(1.98, 3, attempt=2)])
    assert numbers(found) == (0, 0, 0, 2)
    assert is_clean(found)
    strict = audit([request(0, 1), request(1.97, 2)], [], clock_error_sec=0.01)
    assert numbers(strict) == (0, 1, 0, 0)


def test_a_request_inside_a_cooldown_is_counted() -> None:
    pause = [Cooldown("g", at(10), at(20))]
    assert numbers(audit([request(15, 16)], [], pause)) == (0, 0, 1, 0)
    assert numbers(audit([request(9, 12)], [], pause)) == (0, 0, 0, 0)  # started before the site objected
    assert numbers(audit([request(20, 21)], [], pause)) == (0, 0, 0, 0)
    assert numbers(audit([request(15, 16, group="other", host="o")], [], pause)) == (0, 0, 0, 0)


def test_two_attempts_at_once_in_a_group_overlap_without_any_request() -> None:
    assert numbers(audit([], [attempt(0, 5), attempt(4, 6, job_id="k")])) == (1, 0, 0, 0)
    assert numbers(audit([], [attempt(0, None), attempt(4, 6, job_id="k")])) == (1, 0, 0, 0)
    assert numbers(audit([], [attempt(0, 5), attempt(4, 6, group="other")])) == (0, 0, 0, 0)


def test_a_long_attempt_is_not_forgotten_behind_a_short_one() -> None:
    assert numbers(audit([], [attempt(0, 9), attempt(1, 2, job_id="k"), attempt(5, 6, job_id="l")]))[0] == 2


def test_a_lost_attempt_occupies_its_lane_until_its_recorded_end() -> None:
    lost = attempt(0, 60, outcome="lost")
    second = attempt(60, 90, attempt=2)
    inside, too_soon, fine = (request(start, start + 1, attempt=2, interval=5) for start in (50, 62, 65))
    mine = request(1, 2)
    assert numbers(audit([mine, inside], [lost, second]))[0] == 1
    assert numbers(audit([mine, too_soon], [lost, second])) == (0, 1, 0, 0)
    assert numbers(audit([mine, fine], [lost, second])) == (0, 0, 0, 0)


def test_after_an_attempt_that_ended_itself_the_gap_counts_from_its_last_response() -> None:
    found = audit([request(1, 2), request(5.5, 6, attempt=2, interval=3)], [attempt(0, 5), attempt(5, 7, attempt=2)])
    assert numbers(found) == (0, 0, 0, 0)


def test_the_requests_of_a_lost_attempt_itself_are_no_violation() -> None:
    assert numbers(audit([request(1, 2), request(3, 4)], [attempt(0, 60, outcome="lost")])) == (0, 0, 0, 0)


def test_a_request_that_outlives_its_attempt_is_an_overlap() -> None:
    found = audit([request(1, 8)], [attempt(0, 5)])
    assert numbers(found) == (1, 0, 0, 0)
    assert found["groups"]["g"]["violations"][0]["what"] == "outlived_its_attempt"


def test_two_groups_may_not_ask_one_host_at_once() -> None:
    found = audit([request(0, 2), request(1, 3, group="other")], [])
    assert numbers(found) == (1, 0, 0, 0)
    assert found["groups"]["other"]["overlaps"] == 1
    assert numbers(audit([request(0, 2), request(1, 3, group="other", host="another")], [])) == (0, 0, 0, 0)


def test_totals_are_the_sum_of_the_groups() -> None:
    found = audit([request(0, 2), request(1, 3), request(0, 2, group="b", host="b"),
                   request(2.1, 3, group="b", host="b")], [])
    assert numbers(found) == (1, 1, 0, 0)
    assert {key: one["requests"] for key, one in found["groups"].items()} == {"b": 2, "g": 2}
