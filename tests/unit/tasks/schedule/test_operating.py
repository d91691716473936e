"""Running by hand, editing, enabling, disabling and resuming (rules S2, S6, S9)."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from tasks.schedule.builtin import QUIET
from tasks.schedule.calendar import Every, Times
from tasks.schedule.terms import Action, DueFor, Entry, Kind, Outcome, Overlap, Refusal, Status, Turn
from tests.support.schedule import Row, moment

HOURLY = Entry("hourly", "crawl", Every(timedelta(hours=1)), ZoneInfo("Asia/Shanghai"), quiet=QUIET)
EVENING = replace(HOURLY, when=Times((time(23, 15),)), quiet=None, overlap=Overlap.NEXT)
FAILED, SUCCESS = Outcome(Kind.FAILED, "no"), Outcome(Kind.SUCCESS)


def at(text: str) -> datetime:
    return moment(f"2026-05-{text}", HOURLY)


def by_hand(row: Row, now: str, *, force: bool = False, day: date | None = None) -> Turn:
    answer = row.by_hand(at(now), force=force, stat_date=day)
    assert isinstance(answer, Turn)
    return answer


def test_s9_a_run_by_hand_starts_at_once_and_leaves_the_next_moment_as_it_is() -> None:
    row = Row.new(HOURLY, at("01 09:30"))

    started = by_hand(row, "01 09:40")
    row.end(SUCCESS, at("01 09:45"))

    assert started.run is not None
    assert (started.run.occurrence, started.run.stat_date, started.run.source) == (at("01 09:40"), date(2026, 5, 1), "manual")
    assert (row.standing.due_at, row.standing.status) == (at("01 10:00"), Status.DONE)
    assert row.standing.last_success_at == at("01 09:45")


def test_s6_inside_the_quiet_window_it_is_refused_without_force() -> None:
    row = Row.new(HOURLY, at("01 22:30"))

    assert row.by_hand(at("01 23:30")) == Refusal("quiet_window", until=at("02 01:00"))
    assert by_hand(row, "01 23:30", force=True).action == Action.RUN
    assert row.runs[0].force and row.outcome(at("01 23:00")) == "made_up(by 1)"


def test_s9_while_it_runs_it_is_refused_with_the_run_that_does_it() -> None:
    row = Row.new(HOURLY, at("01 09:30"))
    row.tick(at("01 10:00"))

    assert row.by_hand(at("01 10:10")) == Refusal("running", run=row.runs[0])
    assert row.by_hand(at("01 10:10"), force=True) == Refusal("running", run=row.runs[0])


def test_s9_force_takes_over_from_a_running_snapshot() -> None:
    row = Row.new(EVENING, at("01 12:00"))
    row.tick(at("01 23:15"))

    assert isinstance(row.by_hand(at("02 08:00")), Refusal)
    started = by_hand(row, "02 08:00", force=True, day=date(2026, 5, 1))

    assert started.closes == row.runs[0] and row.outcome(at("01 23:15")) == "made_up(by 2)"
    assert row.runs[1].stat_date == date(2026, 5, 1) and row.standing.due_at == at("02 23:15")


def test_s9_a_run_by_hand_makes_up_what_waits_for_the_same_date() -> None:
    row = Row.new(EVENING, at("01 12:00"))
    row.tick(at("01 23:15"))
    row.end(FAILED, at("01 23:30"))

    by_hand(row, "01 23:31")

    assert row.outcome(at("01 23:15")) == "made_up(by 2)"
    assert row.standing.due_at == at("02 23:15")


def test_s9_a_run_by_hand_for_another_date_makes_up_nothing() -> None:
    row = Row.new(EVENING, at("01 12:00"))
    row.tick(at("01 23:15"))
    row.end(FAILED, at("01 23:30"))

    by_hand(row, "01 23:31", day=date(2026, 4, 20))

    assert row.outcome(at("01 23:15")) == "failed(no)"
    assert (row.standing.due_at, row.standing.due_for) == (at("01 23:35"), DueFor.AGAIN)


def test_s4_a_failed_run_by_hand_is_tried_again_for_its_own_date_and_with_its_force() -> None:
    row = Row.new(EVENING, at("01 12:00"))
    by_hand(row, "01 14:00", force=True, day=date(2026, 4, 20))

    row.end(FAILED, at("01 14:10"))
    row.tick(at("01 14:15"))

    again = row.runs[1]
    assert (again.occurrence, again.try_no, again.stat_date) == (at("01 14:00"), 2, date(2026, 4, 20))
    assert again.force and again.source == "manual" and row.standing.due_at == at("01 23:15")


def test_a_skip_answers_whoever_ran_it_and_is_not_repeated() -> None:
    row = Row.new(EVENING, at("01 12:00"))
    by_hand(row, "01 14:00", day=date(2026, 4, 20))

    assert row.end(Outcome(Kind.SKIPPED, "no_source", again_in=600), at("01 14:00:01")).reason == "answered_by_hand"
    assert row.standing.due_at == at("01 23:15")


def test_a_run_by_hand_on_a_regular_moment_is_still_another_one() -> None:
    row = Row.new(replace(HOURLY, overlap=Overlap.ALWAYS), at("01 09:30"))
    row.tick(at("01 10:00"))

    by_hand(row, "01 10:00")

    assert len({(run.occurrence, run.try_no) for run in row.runs}) == 2


def test_a_moment_owed_before_a_run_by_hand_is_not_put_off_by_its_end() -> None:
    row = Row.new(HOURLY, at("01 09:30"))
    by_hand(row, "01 10:08", day=date(2026, 4, 1))

    ending = row.end(Outcome(Kind.DEFERRED, "busy", again_in=600), at("01 10:09"))

    assert (ending.outcome.kind, row.standing.due_at) == (Kind.SKIPPED, at("01 10:00"))
    assert row.tick(at("01 10:10")).action == Action.RUN


def test_w61_an_entry_that_is_enabled_again_fires_at_its_next_moment_only() -> None:
    row = Row.new(HOURLY, at("01 09:30"))
    row.live(at("01 09:30"), at("01 10:00"))
    row.edit(at("01 10:05"), enabled=False)
    assert (row.standing.due_at, row.settle(at("01 10:30"))) == (None, [])

    row.edit(at("01 12:55"), enabled=True)

    assert row.settle(at("01 12:55")) == []
    assert row.standing.due_at == at("01 13:00")
    assert set(row.ends()) == {at("01 10:00")}


def test_w61_a_pause_that_is_lifted_fires_nothing_of_what_came_before() -> None:
    row = Row.new(HOURLY, at("01 10:05"))
    row.pause()

    lifted = row.resume(at("01 12:30"))

    assert (lifted.action, len(lifted.recorded), row.standing.due_at) == (Action.SKIP, 2, at("01 13:00"))
    assert row.outcome(at("01 11:00")) == row.outcome(at("01 12:00")) == "skipped(paused)"


def test_s2_an_edit_fires_no_past_moment_and_says_what_became_of_those_that_were_owed() -> None:
    row = Row.new(HOURLY, at("01 09:30"))

    row.edit(at("01 11:10"), when=Every(timedelta(minutes=5)))

    assert row.settle(at("01 11:10")) == []
    assert row.standing.due_at == at("01 11:15")
    assert [row.outcome(each) for each in sorted(row.ends())] == ["skipped(edited)"] * 2


def test_s2_an_edit_that_changes_no_moment_changes_no_row() -> None:
    row = Row.new(HOURLY, at("01 09:30"))
    before = row.standing

    row.edit(at("01 11:10"), when=Every(timedelta(hours=1)), priority=5)

    assert row.standing == before
    assert row.tick(at("01 11:10")).reason == "missed"


@pytest.mark.parametrize(("outcome", "due_for"), [(FAILED, DueFor.AGAIN), (Outcome(Kind.DEFERRED, "x"), DueFor.DEFERRED)])
def test_s2_an_edit_keeps_a_try_that_is_still_to_come(outcome: Outcome, due_for: DueFor) -> None:
    row = Row.new(HOURLY, at("01 09:30"))
    row.tick(at("01 10:00"))
    row.end(outcome, at("01 10:02"))

    row.edit(at("01 10:03"), when=Every(timedelta(minutes=30)))

    assert (row.standing.due_at, row.standing.due_for, row.standing.try_no) == (at("01 10:07"), due_for, 2)
    row.tick(at("01 10:07"))
    assert row.runs[-1].occurrence == at("01 10:00") and row.standing.due_at == at("01 10:30")


def test_s2_an_edit_lets_a_new_moment_come_before_a_try_that_was_planned_for_later() -> None:
    row = Row.new(HOURLY, at("01 09:30"))
    row.tick(at("01 10:00"))
    row.end(FAILED, at("01 10:02"))

    row.edit(at("01 10:03"), when=Every(timedelta(minutes=5)))

    assert (row.standing.due_at, row.standing.due_for) == (at("01 10:05"), DueFor.REGULAR)
    assert row.outcome(at("01 10:00")) == "failed(no)"


def test_s3_disabling_ends_a_deferral_that_still_lasts() -> None:
    row = Row.new(HOURLY, at("01 22:30"))
    row.tick(at("01 23:00"))

    row.edit(at("02 00:30"), enabled=False)

    assert [row.outcome(each) for each in sorted(row.ends())] == ["skipped(disabled)"] * 2


@pytest.mark.parametrize("kind", [Kind.SKIPPED, Kind.DEFERRED, Kind.FAILED])
def test_s4_a_run_by_hand_that_made_up_a_waiting_try_is_tried_again_in_its_stead(kind: Kind) -> None:
    """The schedule was to try again in ten minutes: an operator who asks before that takes nothing away from it."""
    row = Row.new(EVENING, at("01 12:00"))
    row.tick(at("01 23:15"))
    row.end(Outcome(Kind.SKIPPED, "no_source", again_in=600), at("01 23:15"))
    by_hand(row, "01 23:20")
    for minute in (20, 30, 40):
        ending = row.end(Outcome(kind, "no_source", again_in=600), at(f"01 23:{minute}"))
        assert ending.again_at == at(f"01 23:{minute + 10}"), "nobody asks again"
        row.tick(ending.again_at)
    assert [run.source for run in row.runs] == ["schedule", "manual", "schedule", "schedule", "schedule"]
    assert row.standing.skips_row == (4 if kind == Kind.SKIPPED else 0)


def test_a_skip_that_answers_somebody_makes_no_later_try_rarer() -> None:
    row = Row.new(EVENING, at("01 12:00"))
    by_hand(row, "01 14:00", day=date(2026, 4, 20))
    row.end(Outcome(Kind.SKIPPED, "no_source"), at("01 14:00"))
    assert row.standing.skips_row == 0
