"""Moments of a day by the clock on the wall, across changes of that clock (rules S1, S2, S6; W56, W64, W65)."""

from __future__ import annotations

import os
import time as system_time
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from tasks.schedule.calendar import Every, Times, Window, first_shown, stat_date

SHANGHAI, BERLIN, SANTIAGO = ZoneInfo("Asia/Shanghai"), ZoneInfo("Europe/Berlin"), ZoneInfo("America/Santiago")
LORD_HOWE, APIA, LOS_ANGELES = ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Pacific/Apia"), ZoneInfo("America/Los_Angeles")
HOURLY = Every(timedelta(hours=1))
NIGHT = Window(time(23), time(1))


def daily(*at: str) -> Times:
    return Times(tuple(time.fromisoformat(each) for each in at))


def minutes(step: int) -> Every:
    return Every(timedelta(minutes=step))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def shown(when: Times | Every, zone: ZoneInfo, day: str, *, before: str = "24") -> list[str]:
    """Return what the clock shows at the moments of a day, up to the hour `before`."""
    start = first_shown(datetime.fromisoformat(day), zone)
    end = first_shown(datetime.fromisoformat(day) + timedelta(days=1), zone)
    tick = timedelta(microseconds=1)
    texts = [each.astimezone(zone).strftime("%H:%M%z") for each in when.between(start - tick, end - tick, zone)]
    return [text for text in texts if text < before]


@pytest.fixture(params=["UTC", "America/New_York"])
def machine_zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """Put the machine into another zone."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    system_time.tzset()
    yield request.param
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    system_time.tzset()


def test_w56_the_machines_own_zone_changes_no_moment(machine_zone: str) -> None:
    found = daily("09:00").next_after(utc("2026-05-01 00:30"), SHANGHAI)

    assert found == utc("2026-05-01 01:00")
    assert found.astimezone(SHANGHAI).isoformat() == "2026-05-01T09:00:00+08:00"


@pytest.mark.parametrize("zone", [SHANGHAI, LOS_ANGELES])
def test_w64_a_schedule_in_another_zone_fires_once_a_slot_around_both_midnights(zone: ZoneInfo) -> None:
    for when in (daily("00:00"), daily("23:59"), minutes(720)):
        found = list(when.between(utc("2026-05-01 00:00"), utc("2026-05-11 00:00"), zone))
        slots = [(each.astimezone(zone).date(), each.astimezone(zone).time()) for each in found]

        assert len(slots) == len(set(slots)) == (20 if isinstance(when, Every) else 10)


def test_w65_a_time_that_the_day_does_not_have_is_the_first_moment_after_the_gap() -> None:
    assert shown(daily("02:30"), BERLIN, "2026-03-29") == ["03:00+0200"]
    assert shown(daily("00:05"), SANTIAGO, "2026-09-06") == ["01:00-0300"]
    assert shown(daily("02:15", "02:30", "03:00"), BERLIN, "2026-03-29") == ["03:00+0200"]


def test_w65_a_time_that_the_day_has_twice_is_the_first_of_them() -> None:
    assert shown(daily("02:30"), BERLIN, "2026-10-25") == ["02:30+0200"]
    assert shown(daily("23:15"), SANTIAGO, "2026-04-04") == ["23:15-0300"]
    assert shown(daily("23:15"), SANTIAGO, "2026-04-05") == ["23:15-0400"]


def test_s2_an_hourly_grid_fires_each_real_hour_and_both_of_the_repeated_one() -> None:
    assert shown(HOURLY, BERLIN, "2026-10-25", before="04") == [
        "00:00+0200", "01:00+0200", "02:00+0200", "02:00+0100", "03:00+0100"]
    assert shown(HOURLY, BERLIN, "2026-03-29", before="05") == ["00:00+0100", "01:00+0100", "03:00+0200", "04:00+0200"]
    assert [len(shown(HOURLY, BERLIN, day)) for day in ("2026-03-29", "2026-10-25", "2026-06-01")] == [23, 25, 24]
    assert [len(shown(HOURLY, SANTIAGO, day)) for day in ("2026-09-06", "2026-04-04", "2026-04-05")] == [23, 25, 24]


@pytest.mark.parametrize(("step", "ordinary", "spring", "autumn"), [
    (30, 48, 46, 50), (60, 24, 23, 25), (120, 12, 12, 12), (180, 8, 8, 8), (360, 4, 4, 4), (1440, 1, 1, 1)])
def test_s2_long_steps_repeat_and_drop_no_slot_and_short_ones_no_real_time(
    step: int, ordinary: int, spring: int, autumn: int
) -> None:
    days = ("2026-06-01", "2026-03-29", "2026-10-25")

    assert [len(shown(minutes(step), BERLIN, day)) for day in days] == [ordinary, spring, autumn]


def test_s2_a_step_that_divides_neither_day_nor_hour_keeps_its_distance() -> None:
    assert shown(minutes(40), BERLIN, "2026-10-25", before="04") == [
        "00:00+0200", "00:40+0200", "01:20+0200", "02:00+0200", "02:40+0200", "02:40+0100", "03:20+0100"]
    assert shown(minutes(420), SHANGHAI, "2026-05-01") == ["00:00+0800", "07:00+0800", "14:00+0800", "21:00+0800"]


def test_s2_odd_changes_of_the_clock() -> None:
    assert shown(HOURLY, LORD_HOWE, "2026-04-05", before="04") == [
        "00:00+1100", "01:00+1100", "02:00+1030", "03:00+1030"]
    skipped_day = minutes(720).between(utc("2011-12-29 09:00"), utc("2011-12-31 09:00"), APIA)
    assert [each.astimezone(APIA).strftime("%d %H") for each in skipped_day] == ["29 00", "29 12", "31 00", "31 12"]


@pytest.mark.parametrize("when", [daily("09:00", "21:00"), HOURLY, minutes(1440), Every(timedelta(seconds=1))])
def test_latest_is_at_or_before_and_next_is_strictly_later(when: Times | Every) -> None:
    found = when.next_after(utc("2026-05-01 00:30"), SHANGHAI)

    assert when.latest(found, SHANGHAI) == found
    assert when.latest(found - timedelta(microseconds=1), SHANGHAI) < found
    assert when.next_after(found, SHANGHAI) > found
    assert when.next_after(when.latest(found - timedelta(microseconds=1), SHANGHAI), SHANGHAI) == found


def test_between_leaves_out_its_start_and_holds_its_end() -> None:
    found = list(HOURLY.between(utc("2026-05-01 00:00"), utc("2026-05-01 02:00"), SHANGHAI))

    assert found == [utc("2026-05-01 01:00"), utc("2026-05-01 02:00")]


def test_a_second_after_second_grid_is_cheap_to_ask_in_the_repeated_hour() -> None:
    found = list(Every(timedelta(seconds=1)).between(utc("2026-10-25 00:59:58"), utc("2026-10-25 01:00:02"), BERLIN))

    assert [each.astimezone(BERLIN).strftime("%H:%M:%S%z") for each in found] == [
        "02:59:59+0200", "02:00:00+0100", "02:00:01+0100", "02:00:02+0100"]


@pytest.mark.parametrize("wrong", [timedelta(), timedelta(seconds=1.5), timedelta(hours=25), timedelta(seconds=-60)])
def test_a_step_is_whole_seconds_up_to_a_day(wrong: timedelta) -> None:
    with pytest.raises(ValueError, match="whole number of seconds"):
        Every(wrong)


def test_times_of_a_day_are_wall_times() -> None:
    with pytest.raises(ValueError, match="without a zone"):
        Times((time(9, tzinfo=UTC),))
    with pytest.raises(ValueError, match="at least one"):
        Times(())


@pytest.mark.parametrize(("clock", "inside"), [
    ("22:59:59", False), ("23:00:00", True), ("00:00:00", True), ("00:59:59", True), ("01:00:00", False), ("12:00:00", False)])
def test_s6_the_quiet_window_holds_its_start_and_not_its_end(clock: str, inside: bool) -> None:
    moment = datetime.fromisoformat(f"2026-05-01 {clock}").replace(tzinfo=SHANGHAI)

    assert NIGHT.contains(moment, SHANGHAI) is inside


def test_s6_a_window_tells_its_end_and_the_next_ones() -> None:
    inside, outside = utc("2026-05-01 16:30"), utc("2026-05-01 04:00")

    assert NIGHT.end_after(inside, SHANGHAI) == utc("2026-05-01 17:00")
    assert NIGHT.start_after(inside, SHANGHAI) == utc("2026-05-02 15:00")
    assert NIGHT.end_after(outside, SHANGHAI) == utc("2026-05-01 17:00")
    assert NIGHT.start_after(outside, SHANGHAI) == utc("2026-05-01 15:00")
    assert NIGHT.end_after(utc("2026-05-01 17:00"), SHANGHAI) == utc("2026-05-02 17:00")


def test_s6_a_window_over_a_repeated_hour_is_one_window() -> None:
    start = utc("2026-04-05 02:00")

    assert [NIGHT.contains(start + timedelta(hours=hours), SANTIAGO) for hours in range(-1, 5)] == [
        False, True, True, True, False, False]
    assert NIGHT.end_after(start, SANTIAGO) == start + timedelta(hours=3)
    assert Window(time(1), time(2, 30)).end_after(utc("2026-10-25 00:00"), BERLIN) == utc("2026-10-25 01:30")


def test_s6_a_window_that_falls_into_a_gap_is_none_that_day() -> None:
    window = Window(time(2), time(3))

    assert not any(window.contains(utc("2026-03-29 00:00") + timedelta(minutes=15 * each), BERLIN) for each in range(12))
    assert window.end_after(utc("2026-03-28 23:00"), BERLIN) == utc("2026-03-30 01:00")
    assert window.start_after(utc("2026-03-28 23:00"), BERLIN) == utc("2026-03-30 00:00")


def test_a_window_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="whole day"):
        Window(time(1), time(1))


def test_the_stat_date_is_the_date_of_the_zone() -> None:
    assert stat_date(utc("2026-04-30 15:59"), SHANGHAI) == date(2026, 4, 30)
    assert stat_date(utc("2026-04-30 16:00"), SHANGHAI) == date(2026, 5, 1)
    assert stat_date(utc("2026-05-01 03:00"), SANTIAGO) == date(2026, 4, 30)
