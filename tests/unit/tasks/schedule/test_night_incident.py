"""The nights in which the whole schedule went wrong, told with the built-in entries (rules S1, S3 to S7)."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tasks.schedule.builtin import entries
from tasks.schedule.planner import made_pending
from tasks.schedule.terms import Action, Kind, Outcome, Status
from tests.support.schedule import Row, moment

ENTRIES = entries(ZoneInfo("Asia/Shanghai"))
SNAPSHOT, RECENT, SEED = ENTRIES["snapshot"], ENTRIES["snapshot_recent"], ENTRIES["snapshot_seed"]
MAY_1, MAY_2 = date(2026, 5, 1), date(2026, 5, 2)


def at(text: str) -> datetime:
    return moment(f"2026-05-{text}", SNAPSHOT)


def finished_snapshot(start: str = "01 12:00") -> Row:
    """Return the snapshot's row after an evening that went well."""
    row = Row.new(SNAPSHOT, at(start))
    row.tick(at("01 23:15"))
    row.end(Outcome(Kind.SUCCESS, progress={"done": 10}), at("02 02:00"))
    return row


def test_s7_the_snapshot_runs_beside_an_hourly_crawl_that_goes_on() -> None:
    recent, snapshot = Row.new(RECENT, at("01 21:30")), Row.new(SNAPSHOT, at("01 21:30"))
    recent.tick(at("01 22:00"))
    at_eleven = recent.tick(at("01 23:00"))

    started = snapshot.tick(at("01 23:15"))

    assert recent.standing.running is not None and recent.standing.status == Status.RUNNING
    assert (at_eleven.action, at_eleven.until) == (Action.DEFER, at("02 01:00"))
    assert (started.action, started.reason) == (Action.RUN, "regular")
    assert started.run is not None and started.run.stat_date == MAY_1


def test_s7_the_snapshot_takes_over_from_one_that_has_not_ended() -> None:
    row = Row.new(SNAPSHOT, at("01 12:00"))
    row.tick(at("01 23:15"))

    started = row.tick(at("02 23:15"))

    assert started.run is not None and started.run.stat_date == MAY_2
    assert started.closes is not None and started.closes.run_id == 1
    assert row.outcome(at("01 23:15")) == "made_up(by 2)"
    assert row.standing.due_at == at("03 23:15")


def test_s7_a_beat_that_starts_at_noon_after_the_seed_crawls_nothing_by_day() -> None:
    row = finished_snapshot()
    assert (row.standing.status, row.standing.due_at) == (Status.DONE, at("02 23:15"))
    row.standing = made_pending(SNAPSHOT, row.standing, at("02 00:05")).standing

    assert row.settle(at("02 12:00")) == []
    assert (row.standing.status, row.standing.due_at) == (Status.PENDING, at("02 23:15"))
    assert [turn.action for turn in row.settle(at("02 23:15"))] == [Action.RUN]


def test_s7_the_seed_touches_no_snapshot_that_runs_or_is_to_be_tried_again() -> None:
    row = Row.new(SNAPSHOT, at("01 12:00"))
    row.tick(at("01 23:15"))
    assert made_pending(SNAPSHOT, row.standing, at("02 00:05")).standing == row.standing

    row.end(Outcome(Kind.FAILED, "half"), at("02 00:04"))
    assert made_pending(SNAPSHOT, row.standing, at("02 00:05")).standing.due_at == at("02 00:09")


def test_s1_a_beat_that_dies_just_before_the_moment_makes_it_up_once_for_the_same_date() -> None:
    row = Row.new(SNAPSHOT, at("01 23:14:59"))

    done = row.settle(at("01 23:20:00"))

    assert [(turn.action, turn.reason, turn.run and turn.run.stat_date) for turn in done] == [
        (Action.RUN, "missed", MAY_1)]
    assert row.standing.due_at == at("02 23:15")


def test_s1_a_make_up_after_midnight_is_for_the_evenings_date() -> None:
    row = Row.new(SNAPSHOT, at("01 23:00"))

    (made_up,) = row.settle(at("02 00:40"))

    assert made_up.run is not None and made_up.run.stat_date == MAY_1


def test_s1_a_night_without_a_beat_is_skipped_and_the_evening_stays_pending() -> None:
    row = Row.new(SNAPSHOT, at("01 23:00"))

    (skip,) = row.settle(at("02 12:00"))

    assert (skip.action, skip.reason, skip.run) == (Action.SKIP, "missed", None)
    assert row.outcome(at("01 23:15")) == "skipped(missed)"
    assert (row.standing.status, row.standing.due_at) == (Status.PENDING, at("02 23:15"))
    assert row.standing.last_success_at is None


@pytest.mark.parametrize(("back", "action"), [("02 01:15:00", Action.RUN), ("02 01:15:01", Action.SKIP)])
def test_s1_the_snapshot_is_made_up_for_two_hours(back: str, action: Action) -> None:
    assert [turn.action for turn in Row.new(SNAPSHOT, at("01 23:00")).settle(at(back))] == [action]


@pytest.mark.parametrize(("back", "action"), [("02 12:00:00", Action.RUN), ("02 12:00:01", Action.SKIP)])
def test_s1_the_seed_is_made_up_until_noon(back: str, action: Action) -> None:
    assert [turn.action for turn in Row.new(SEED, at("01 23:00")).settle(at(back))] == [action]


def test_s7_a_seed_for_a_completed_date_is_a_success_without_a_loop() -> None:
    row = Row.new(SEED, at("01 12:00"))
    row.tick(at("02 00:05"))

    ending = row.end(Outcome(Kind.SUCCESS, "already_completed"), at("02 00:05:01"))

    assert (ending.again_at, row.standing.status, row.standing.due_at) == (None, Status.DONE, at("03 00:05"))
    assert row.standing.last_success_at == at("02 00:05:01") and row.standing.stat_date == MAY_2
    assert row.settle(at("02 12:00")) == []


def test_s7_a_seed_waits_for_a_running_snapshot_and_asks_again_as_its_task_says() -> None:
    row = Row.new(SEED, at("01 12:00"))
    row.tick(at("02 00:05"))

    row.end(Outcome(Kind.DEFERRED, "snapshot_running", again_in=600), at("02 00:05:10"))
    assert (row.standing.status, row.standing.due_at) == (Status.DEFERRED, at("02 00:15:10"))
    row.tick(at("02 00:15:10"))
    row.end(Outcome(Kind.SUCCESS), at("02 00:16"))

    assert [outcome and outcome.kind for outcome in row.ends()[at("02 00:05")]] == [Kind.DEFERRED, Kind.SUCCESS]
    assert [run.stat_date for run in row.runs] == [MAY_2, MAY_2]


def test_s7_a_seed_without_a_source_asks_every_ten_minutes_and_later_hourly() -> None:
    row, now, waits = Row.new(SEED, at("01 12:00")), at("02 00:05"), []
    while now < at("02 06:00"):
        row.tick(now)
        wait = 600 if row.standing.skips_row < 6 else 3_600
        row.end(Outcome(Kind.SKIPPED, "no_source", again_in=wait), now)
        assert row.standing.due_at is not None and row.standing.status == Status.DEFERRED
        waits.append((row.standing.due_at - now) // timedelta(minutes=1))
        now = row.standing.due_at

    assert waits == [10] * 6 + [60] * 5
    assert row.standing.last_success_at is None
    assert {run.occurrence for run in row.runs} == {at("02 00:05")}


def test_s5_a_failed_run_keeps_progress_and_stat_date() -> None:
    row = finished_snapshot()
    row.tick(at("02 23:15"))

    row.end(Outcome(Kind.FAILED, "RuntimeError: no"), at("02 23:16"))

    assert (row.standing.progress, row.standing.stat_date) == ({"done": 10}, MAY_1)
    assert (row.standing.status, row.standing.due_at) == (Status.FAILED, at("02 23:21"))
    assert row.standing.last_success_at == at("02 02:00")


def test_s5_new_progress_of_a_failed_run_is_kept_with_its_date() -> None:
    row = finished_snapshot()
    row.tick(at("02 23:15"))

    row.end(Outcome(Kind.FAILED, "half", progress={"done": 5}), at("03 03:00"))

    assert (row.standing.progress, row.standing.stat_date) == ({"done": 5}, MAY_2)
    assert (row.standing.due_at, row.standing.due_date) == (at("03 03:05"), MAY_2)


def test_s1_a_try_that_was_missed_for_a_whole_morning_crawls_nothing_by_day() -> None:
    row = Row.new(SNAPSHOT, at("01 12:00"))
    row.tick(at("01 23:15"))
    row.end(Outcome(Kind.FAILED, "half"), at("02 00:30"))

    (skip,) = row.settle(at("02 10:00"))

    assert (skip.action, row.outcome(at("01 23:15"))) == (Action.SKIP, "failed(half)")
    assert row.standing.due_at == at("02 23:15")
