"""Where moments and quiet windows lie on the line of 48 hours."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from console.flower.pages.timeline import timeline

START, END = "2026-12-01T16:00:00+08:00", "2026-12-03T16:00:00+08:00"
SHANGHAI = ZoneInfo("Asia/Shanghai")


def occurrence(due_at: str, action: str = "run", reason: str = "", until: str | None = None) -> dict[str, Any]:
    return {"name": "hourly", "due_at": due_at, "action": action, "until": until, "reason": reason}


def entry(*occurrences: dict[str, Any], quiet: list[dict[str, str]] | None = None) -> dict[str, Any]:
    return {"name": "hourly", "occurrences": list(occurrences), "quiet": quiet or []}


def test_a_moment_lies_where_its_hour_is() -> None:
    drawn = timeline(START, END, [entry(occurrence("2026-12-02T16:00:00+08:00"))], SHANGHAI)

    (mark,) = drawn.rows[0].marks
    assert (mark.x, mark.action, mark.text) == (500.0, "run", "Wed 16:00 runs")


def test_what_is_deferred_says_until_when_and_why() -> None:
    put_off = occurrence("2026-12-01T23:00:00+08:00", "defer", "quiet_window", "2026-12-02T01:00:00+08:00")

    assert timeline(START, END, [entry(put_off)], SHANGHAI).rows[0].marks[0].text == (
        "Tue 23:00 deferred until 01:00 (quiet window)")


def test_a_quiet_window_that_began_before_is_cut_where_the_line_begins() -> None:
    night = {"from": "2026-12-01T12:00:00+08:00", "to": "2026-12-01T20:00:00+08:00"}

    assert timeline(START, END, [entry(quiet=[night])], SHANGHAI).rows[0].quiet == ((0.0, 83.3),)


def test_the_axis_has_a_label_every_six_hours_and_names_the_days() -> None:
    drawn = timeline(START, END, [], SHANGHAI)

    assert [label for _, label, _ in drawn.labels] == [
        "18:00", "Wed 02", "06:00", "12:00", "18:00", "Thu 03", "06:00", "12:00"]
    assert [is_minor for _, _, is_minor in drawn.labels] == [True, False, True, False, True, False, True, False]
    assert len(drawn.midnights) == 2


def test_days_without_an_hour_are_drawn_too() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    drawn = timeline("2027-03-27T12:00:00+01:00", "2027-03-29T12:00:00+02:00", [], berlin)

    assert [label for _, label, _ in drawn.labels] == [
        "12:00", "18:00", "Sun 28", "06:00", "12:00", "18:00", "Mon 29", "06:00", "12:00"]


def test_a_line_says_in_words_what_it_shows() -> None:
    many = [occurrence(f"2026-12-01T{hour}:00:00+08:00") for hour in (17, 18, 19, 20, 21)]

    assert timeline(START, END, [entry(*many)], SHANGHAI).rows[0].text == (
        "hourly: Tue 17:00 runs, Tue 18:00 runs, Tue 19:00 runs and 2 more")
    assert timeline(START, END, [entry()], SHANGHAI).rows[0].text == "hourly: nothing in these hours"
