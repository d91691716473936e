"""J15: an entry is stale when nothing succeeded for longer than twice its period, its quiet window considered."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from tasks.schedule.builtin import QUIET, entries
from tasks.schedule.calendar import Every, Times
from tasks.schedule.stale import stale_at

SHANGHAI = ZoneInfo("Asia/Shanghai")
BUILT_IN = entries(SHANGHAI)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=SHANGHAI).astimezone(UTC)


@pytest.mark.parametrize(("name", "since", "stale"), [
    ("vitals", "05-01 10:05", "05-01 11:05"),
    ("vitals", "05-01 23:40", "05-02 00:40"),
    ("snapshot_recent", "05-01 10:00", "05-01 12:00"),
    ("snapshot_recent", "05-01 10:20", "05-01 12:20"),
    ("snapshot_recent", "05-01 21:05", "05-02 01:05"),  # 22:00, then 01:00 for 23:00, 00:00 and 01:00
    ("snapshot_recent", "05-01 22:05", "05-02 02:05"),
    ("snapshot_recent", "05-01 23:30", "05-02 03:30"),  # a run of 22:00 that ended inside the window
    ("snapshot_recent", "05-02 01:10", "05-02 03:10"),
    ("snapshot", "05-02 04:00", "05-04 04:00"),
    ("snapshot_seed", "05-02 00:06", "05-04 00:06"),
    ("discovery", "05-01 18:30", "05-02 06:30"),  # 18:00, 01:00 for 00:00, 06:00
])
def test_twice_its_period_after_the_last_success(name: str, since: str, stale: str) -> None:
    assert stale_at(BUILT_IN[name], at(since)) == at(stale)


def test_an_entry_that_is_only_due_inside_its_window_has_the_period_of_its_ends() -> None:
    entry = replace(BUILT_IN["snapshot_recent"], when=Times((time(23, 30),)), quiet=QUIET)
    assert stale_at(entry, at("05-02 01:10")) == at("05-04 01:10")
    assert stale_at(entry, at("05-01 23:40")) == at("05-03 23:40")


def test_uneven_times_make_a_period_of_what_really_lies_between_them() -> None:
    entry = replace(BUILT_IN["vitals"], when=Times((time(6), time(18), time(20))))
    assert stale_at(entry, at("05-01 18:10")) == at("05-02 06:10")
    assert stale_at(entry, at("05-01 06:10")) == at("05-01 20:10")


def test_a_disabled_entry_is_never_stale() -> None:
    assert stale_at(replace(BUILT_IN["vitals"], enabled=False), at("05-01 10:00")) is None


def test_it_is_never_earlier_than_one_period_after_any_moment_of_a_day() -> None:
    entry = replace(BUILT_IN["snapshot_recent"], when=Every(timedelta(hours=2)))
    for minute in range(0, 24 * 60, 7):
        since = at("05-01 00:00") + timedelta(minutes=minute)
        found = stale_at(entry, since)
        assert found is not None
        assert found - since >= timedelta(hours=3)
