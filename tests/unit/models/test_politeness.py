"""The report on a group's politeness, from rows (rule P5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from models.politeness import Refusal, Seen, summary

START = datetime(2026, 11, 30, 6, 59, 50, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def seen(*starts: float, status: int | None = 200, error: str = "") -> list[Seen]:
    return [Seen(at(start), at(start + 1), 2.0, status, error) for start in starts]


def test_requests_by_hour_gaps_and_answers() -> None:
    found = summary([*seen(0, 4, 7), *seen(20, status=503), *seen(30, status=None, error="ReadTimeout: x")], [])
    assert found["requests"] == 5
    assert [(one["hour"][11:16], one["requests"], one["errors"]) for one in found["hours"]] == [("14:00", 3, 0), ("15:00", 2, 2)]
    assert found["gaps"] == {"smallest_sec": 2.0, "median_sec": 6.0, "required_sec": 2.0}
    assert (found["statuses"], found["failures"]) == ({"200": 3, "503": 1, "none": 1}, {"ReadTimeout": 1})


def test_a_refusal_is_obeyed_if_the_next_request_comes_after_its_pause() -> None:
    refusals = [Refusal(at(1), at(10), "rate", "429", "9"), Refusal(at(21), at(40), "rate", "429", None),
                Refusal(at(60), at(90), "rate", "429", None)]
    told = summary(seen(0, 11, 20, 30), refusals)["refusals"]
    assert [(one["waited_sec"], one["obeyed"], one["retry_after"]) for one in told] == [
        (10.0, True, "9"), (9.0, False, None), (None, True, None)]


def test_a_group_without_requests_has_an_empty_report() -> None:
    found = summary([], [])
    assert (found["requests"], found["hours"], found["gaps"]["smallest_sec"], found["refusals"]) == (0, [], None, [])
