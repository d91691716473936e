"""What will fire, told by the planner itself, and whether a group's day is long enough for it (rule S9)."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from tasks.schedule.builtin import entries
from tasks.schedule.capacity import Usual, needs, overloads, runs_of
from tasks.schedule.planner import first
from tasks.schedule.preview import Occurrence, preview
from tasks.schedule.terms import Entry, Kind, Outcome
from tests.support.schedule import Row, moment

ENTRIES = entries(ZoneInfo("Asia/Shanghai"))
RECENT, SNAPSHOT, VITALS = ENTRIES["snapshot_recent"], ENTRIES["snapshot"], ENTRIES["vitals"]


def at(text: str) -> datetime:
    return moment(f"2026-05-{text}", RECENT)


def told(lines: list[Occurrence]) -> list[str]:
    """Return lines as ``name 01 23:00 defer 02 01:00 quiet_window``."""
    clock = "%d %H:%M"
    return [" ".join(filter(None, (each.name, each.due_at.astimezone(RECENT.zone).strftime(clock), each.action,
                                   each.until and each.until.astimezone(RECENT.zone).strftime(clock), each.reason)))
            for each in lines]


def foretold(entry: Entry, start: str, end: str, *, minutes: int = 10) -> list[str]:
    now = at("01 12:00")
    return told(preview([(entry, first(entry, now))], at(start), at(end), now, usual={entry.name: timedelta(minutes=minutes)}))


def test_s9_the_quiet_window_is_foretold() -> None:
    assert foretold(RECENT, "01 22:00", "02 02:00") == [
        "snapshot_recent 01 22:00 run regular", "snapshot_recent 01 23:00 defer 02 01:00 quiet_window",
        "snapshot_recent 02 00:00 defer 02 01:00 quiet_window", "snapshot_recent 02 01:00 run regular",
        "snapshot_recent 02 02:00 run regular"]
    assert foretold(ENTRIES["discovery"], "01 20:00", "02 07:00") == [
        "discovery 02 00:00 defer 02 01:00 quiet_window", "discovery 02 01:00 run deferred", "discovery 02 06:00 run regular"]


def test_s9_a_run_that_usually_lasts_longer_than_the_step_makes_up_what_comes_meanwhile() -> None:
    assert foretold(RECENT, "01 14:00", "01 17:00", minutes=90) == [
        "snapshot_recent 01 14:00 make_up overlap", "snapshot_recent 01 15:00 run regular",
        "snapshot_recent 01 16:00 make_up overlap", "snapshot_recent 01 17:00 run regular"]


def test_s9_stat_dates_are_those_of_the_occurrences() -> None:
    now = at("01 12:00")
    both = [(each, first(each, now)) for each in (SNAPSHOT, ENTRIES["snapshot_seed"])]

    lines = preview(both, now, at("03 12:00"), now, usual={})

    assert [(each.name, each.stat_date.day) for each in lines] == [
        ("snapshot", 1), ("snapshot_seed", 2), ("snapshot", 2), ("snapshot_seed", 3)]


def test_s9_what_is_overdue_is_foretold_as_it_will_be_made_up() -> None:
    standing, now = first(RECENT, at("01 09:30")), at("01 12:10")

    lines = preview([(RECENT, standing)], now, at("01 12:30"), now, usual={})

    assert told(lines) == ["snapshot_recent 01 10:00 make_up missed", "snapshot_recent 01 11:00 make_up missed",
                           "snapshot_recent 01 12:00 run missed"]


def test_s9_the_preview_is_what_the_planner_then_does() -> None:
    now, end = at("01 09:30"), at("04 12:00")
    for entry in ENTRIES.values():
        row = Row.new(entry, now)
        lines = preview([(entry, row.standing)], now, end, now, usual={entry.name: timedelta(minutes=45)})

        row.live(now, end, lasting=timedelta(minutes=45))

        assert [(each.stat_date, each.due_at) for each in lines if each.action == "run"] == [
            (run.stat_date, run.started_at) for run in row.runs], entry.name
        assert {each.due_at for each in lines} >= set(row.ends()), entry.name


def test_s9_a_run_under_way_a_pause_and_a_disabled_entry_are_told_of() -> None:
    row = Row.new(SNAPSHOT, at("01 12:00"))
    row.tick(at("01 23:15"))
    row.end(Outcome(Kind.FAILED, "half"), at("02 01:00"))
    now = at("02 01:01")

    assert told(preview([(SNAPSHOT, row.standing)], now, at("02 12:00"), now, usual={})) == ["snapshot 02 01:05 run again"]
    assert foretold(replace(SNAPSHOT, paused=True), "01 12:00", "02 12:00") == ["snapshot 01 23:15 skip paused"]
    assert foretold(replace(SNAPSHOT, enabled=False), "01 12:00", "02 12:00") == []


def test_runs_of_a_day_are_those_that_the_planner_starts() -> None:
    day = date(2026, 5, 2)

    assert {name: runs_of(entry, day) for name, entry in ENTRIES.items()} == {
        "snapshot": 1, "snapshot_recent": 22, "snapshot_seed": 1, "discovery": 4, "candidate_cleanup": 1, "vitals": 48}
    berlin = replace(VITALS, zone=ZoneInfo("Europe/Berlin"))
    assert [runs_of(berlin, each) for each in (date(2026, 3, 29), date(2026, 10, 25))] == [46, 50]


def test_a_group_whose_day_is_too_short_is_named_with_the_entry_that_takes_most() -> None:
    usual = [Usual("snapshot", "slow", "a", 50, 1_500), Usual("snapshot", "slow", "b", 10, 500, response_sec=1),
             Usual("snapshot_recent", "slow", "a", 50, 8), Usual("snapshot_recent", "fine", "c", 10, 20)]

    found = overloads(ENTRIES.values(), usual, date(2026, 5, 2))

    assert [(each.group, each.entry, each.seconds) for each in found] == [("slow", "snapshot", 75_000 + 5_500 + 8_800)]
    assert [(need.entry, need.runs, need.seconds) for need in found[0].needs] == [
        ("snapshot", 1, 80_500), ("snapshot_recent", 22, 8_800)]
    assert found[0].reason == "slow needs 89,300 s of a day's 86,400 s; snapshot takes 80,500 s of them in 1 run"


def test_a_day_that_is_just_long_enough_is_no_overload() -> None:
    day, usual = date(2026, 5, 2), [Usual("snapshot", "g", "a", 10, 8_640)]

    assert overloads([SNAPSHOT], usual, day) == []
    assert [need.seconds for need in needs([SNAPSHOT], usual, day)] == [86_400]
    assert needs([RECENT], usual, day) == []
    assert len(overloads([SNAPSHOT], [*usual, Usual("snapshot", "g", "b", 1, 1)], day)) == 1
