"""The calendar beside a clock that is looked at each minute for three years (rules S2 and S6; W65)."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.schedule.calendar import Every, Times, Window

ZONES = [ZoneInfo(name) for name in ("Asia/Shanghai", "Europe/Berlin", "America/Santiago")]
START, END = datetime(2025, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
walls = st.builds(time, st.integers(0, 23), st.sampled_from([0, 5, 15, 30, 59]))
moments = st.integers(5 * 86_400, 1_085 * 86_400).map(lambda seconds: START + timedelta(seconds=seconds))


@cache
def changes(zone: ZoneInfo) -> list[datetime]:
    """Return the moments at which the offset of a zone changes."""
    hours = [START + timedelta(hours=each) for each in range((END - START) // timedelta(hours=1))]
    return [each for before, each in pairwise(hours)
            if before.astimezone(zone).utcoffset() != each.astimezone(zone).utcoffset()]


@cache
def looked_at(zone: ZoneInfo, start: datetime, days: int = 5) -> list[tuple[datetime, datetime]]:
    """Return what a clock shows at each minute, as somebody in front of it notes it down."""
    return [(each, each.astimezone(zone).replace(tzinfo=None))
            for each in (start + minute * MINUTE for minute in range(days * 1440))]


def expected_times(at: tuple[time, ...], seen: list[tuple[datetime, datetime]]) -> set[datetime]:
    """Return the first minute of each date at which the clock shows at least a time of the day."""
    waiting: dict[date, list[time]] = {}
    found = set()
    for moment, wall in seen:
        left = waiting.setdefault(wall.date(), sorted(at, reverse=True))
        while left and wall.time() >= left[-1]:
            left.pop()
            found.add(moment)
    return found


def near_changes(zone: ZoneInfo) -> list[datetime]:
    return [each.replace(hour=0) - timedelta(days=2) for each in changes(zone)] or [START + timedelta(days=100)]


@pytest.mark.parametrize("zone", ZONES, ids=str)
def test_w65_each_day_of_three_years_has_each_time_once(zone: ZoneInfo) -> None:
    assert len(changes(zone)) == (0 if zone.key == "Asia/Shanghai" else 6)
    for at in (time(0, 0), time(0, 5), time(2, 30), time(23, 15)):
        found = list(Times((at,)).between(START, END, zone))
        days = [each.astimezone(zone).date() for each in found]

        assert len(days) == len(set(days))
        assert all(later - day == timedelta(days=1) for day, later in pairwise(days))


@pytest.mark.parametrize("zone", ZONES, ids=str)
def test_w65_grids_that_divide_an_hour_never_pause_and_never_hurry(zone: ZoneInfo) -> None:
    for minutes in (20, 60):
        found = list(Every(minutes * MINUTE).between(START, START + timedelta(days=330), zone))

        assert {later - each for each, later in pairwise(found)} == {minutes * MINUTE}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ZONES), st.data(), st.lists(walls, min_size=1, max_size=3))
def test_times_are_when_the_clock_first_shows_them(zone: ZoneInfo, data: st.DataObject, at: list[time]) -> None:
    start = data.draw(st.sampled_from(near_changes(zone)))
    seen = looked_at(zone, start)
    expected = {each for each in expected_times(tuple(at), seen) if each > start + timedelta(days=1)}

    found = set(Times(tuple(at)).between(start + timedelta(days=1), seen[-1][0], zone))

    assert found == expected


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ZONES), st.data(), st.integers(1, 1440))
def test_grids_show_every_slot_of_the_day_and_no_slot_too_soon(zone: ZoneInfo, data: st.DataObject, step: int) -> None:
    start = data.draw(st.sampled_from(near_changes(zone)))
    seen = looked_at(zone, start)
    slots = tuple(time(minute // 60, minute % 60) for minute in range(0, 1440, step))
    begin = start + timedelta(days=1)
    expected = {each for each in expected_times(slots, seen) if each > begin}

    found = set(Every(step * MINUTE).between(begin, seen[-1][0], zone))

    # what is there beyond the first showing of each slot stands in a repeated stretch, a whole step behind the last
    extra = found - expected
    assert expected <= found
    assert all(each.astimezone(zone).fold == 1 for each in extra)
    ordered = sorted(found)
    assert all(each - ordered[place - 1] >= step * MINUTE for place, each in enumerate(ordered) if place and each in extra)
    # and nothing that could stand there is left out
    folded = [each for each, wall in seen if each > begin and each.astimezone(zone).fold
              and (wall.hour * 60 + wall.minute) % step == 0]
    assert all(each in found or any(other < each < other + step * MINUTE for other in found) for each in folded)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(ZONES), moments, st.one_of(
    st.builds(lambda at: Times(tuple(at)), st.lists(walls, min_size=1, max_size=3)),
    st.builds(lambda step: Every(step * MINUTE), st.integers(1, 1440))))
def test_next_and_latest_agree(zone: ZoneInfo, moment: datetime, when: Times | Every) -> None:
    later, last = when.next_after(moment, zone), when.latest(moment, zone)

    assert last <= moment < later
    assert when.next_after(last, zone) == later
    assert when.latest(later, zone) == later
    assert when.latest(later - timedelta(microseconds=1), zone) == last


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(ZONES), moments, walls, walls)
def test_a_window_ends_where_it_says_and_holds_until_then(zone: ZoneInfo, moment: datetime, start: time, end: time) -> None:
    if start == end:
        return
    window = Window(start, end)
    leaves, enters = window.end_after(moment, zone), window.start_after(moment, zone)

    assert leaves > moment and enters > moment
    assert not window.contains(leaves, zone)
    assert window.contains(leaves - timedelta(seconds=1), zone) and window.contains(enters, zone)
    if window.contains(moment, zone):
        assert all(window.contains(moment + (leaves - moment) * part / 10, zone) for part in range(10))
    elif enters < leaves:
        assert not any(window.contains(moment + (enters - moment) * part / 10, zone) for part in range(10))
