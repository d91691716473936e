"""What the end of a run does: when it is tried again, what is remembered (rules S3, S4, S5, S8)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tasks.schedule.calendar import Every
from tasks.schedule.planner import ended
from tasks.schedule.terms import DueFor, Entry, Kind, Outcome, Overlap, Status
from tests.support.schedule import Row, moment

HOURLY = Entry("hourly", "crawl", Every(timedelta(hours=1)), ZoneInfo("Asia/Shanghai"))
FAILED, SUCCESS = Outcome(Kind.FAILED, "no"), Outcome(Kind.SUCCESS)


def at(text: str) -> datetime:
    return moment(f"2026-05-01 {text}", HOURLY)


def running(entry: Entry = HOURLY) -> Row:
    """Return a row whose run of 10:00 is under way."""
    row = Row.new(entry, at("09:30"))
    row.tick(at("10:00"))
    return row


def test_s4_after_a_success_comes_the_next_regular_moment() -> None:
    row = running()

    ending = row.end(Outcome(Kind.SUCCESS, progress={"done": 3}), at("10:20"))

    assert (ending.again_at, ending.reason) == (None, "success")
    assert (row.standing.due_at, row.standing.status) == (at("11:00"), Status.DONE)
    assert (row.standing.last_success_at, row.standing.progress) == (at("10:20"), {"done": 3})


@pytest.mark.parametrize(("outcome", "due", "status"), [
    (FAILED, "10:25", Status.FAILED),
    (Outcome(Kind.FAILED, "ValueError: x", again_in=60), "10:21", Status.FAILED),
    (Outcome(Kind.SKIPPED, "nothing"), "10:25", Status.DEFERRED),
    (Outcome(Kind.SKIPPED, "no_source", again_in=600), "10:30", Status.DEFERRED),
    (Outcome(Kind.DEFERRED, "busy", again_in=600), "10:30", Status.DEFERRED),
    (Outcome(Kind.DEFERRED, "busy", until=at("10:42")), "10:42", Status.DEFERRED),
    (Outcome(Kind.FAILED, "odd", again_in=float("nan")), "10:25", Status.FAILED),
    (Outcome(Kind.FAILED, "odd", again_in=-5), "10:20", Status.FAILED),
])
def test_s4_after_anything_else_it_is_tried_again_soon(outcome: Outcome, due: str, status: Status) -> None:
    row = running()

    row.end(outcome, at("10:20"))

    assert (row.standing.due_at, row.standing.status) == (at(due), status)
    assert (row.standing.occurrence, row.standing.try_no) == (at("10:00"), 2)
    assert row.standing.last_success_at is None
    row.tick(at(due))
    assert (row.runs[-1].occurrence, row.runs[-1].try_no) == (at("10:00"), 2)
    assert row.standing.due_at == at("11:00")


@pytest.mark.parametrize("outcome", [FAILED, Outcome(Kind.SKIPPED, "no_source", again_in=600),
                                     Outcome(Kind.FAILED, "far", again_in=1e300)])
def test_s4_tries_end_at_the_next_regular_moment(outcome: Outcome) -> None:
    row = running()

    row.end(outcome, at("10:57"))

    assert (row.standing.due_at, row.standing.due_for, row.standing.try_no) == (at("11:00"), DueFor.REGULAR, 1)
    assert row.standing.status in (Status.FAILED, Status.DEFERRED)
    assert row.outcome(at("10:00")).startswith(outcome.kind)


def test_s4_a_try_that_no_beat_took_ends_at_the_next_regular_moment_as_the_failure_it_followed() -> None:
    row = running()
    row.end(FAILED, at("10:20"))

    row.settle(at("11:10"))

    assert [row.outcome(each) for each in sorted(row.ends())] == ["failed(no)", "running"]
    assert (row.runs[-1].occurrence, row.runs[-1].try_no) == (at("11:00"), 1)


def test_s3_a_deferral_lasts_to_the_next_regular_moment_at_most_and_is_made_up_there() -> None:
    row = running()

    ending = row.end(Outcome(Kind.DEFERRED, "busy", again_in=7_200), at("10:20"))
    row.tick(at("11:00"))

    assert ending.outcome.until == at("11:00")
    assert [row.outcome(each) for each in sorted(row.ends())] == ["made_up(by 2)", "running"]


def test_s4_a_run_that_other_moments_joined_is_tried_again_after_them() -> None:
    row = running()
    row.tick(at("11:00"))

    row.end(FAILED, at("11:10"))

    assert (row.standing.due_at, row.standing.occurrence) == (at("11:15"), at("10:00"))


def test_s8_a_run_that_fans_out_is_tried_three_times() -> None:
    row = running(replace(HOURLY, max_tries=3))
    reasons = []
    for minute in (1, 11, 21):
        reasons.append(row.end(FAILED, at(f"10:{minute:02}")).reason)
        row.settle(at(f"10:{minute + 9:02}"))

    assert reasons == ["again", "again", "tries_used_up"]
    assert (row.standing.due_at, row.standing.status, len(row.runs)) == (at("11:00"), Status.FAILED, 3)


def test_s8_skips_and_deferrals_use_no_try_up() -> None:
    row = running(replace(HOURLY, max_tries=1))

    row.end(Outcome(Kind.SKIPPED, "no_source", again_in=60), at("10:01"))
    row.tick(at("10:02"))
    row.end(Outcome(Kind.DEFERRED, "busy", again_in=60), at("10:03"))

    assert (row.standing.due_at, row.standing.failures, row.standing.skips_row) == (at("10:04"), 0, 0)


def test_s3_skips_are_counted_in_a_row() -> None:
    row = running()
    for minute in range(1, 5):
        row.end(Outcome(Kind.SKIPPED, "no_source", again_in=60), at(f"10:{minute:02}"))
        assert row.standing.skips_row == minute
        row.tick(at(f"10:{minute + 1:02}"))


def test_s5_a_success_without_progress_keeps_that_of_its_own_date_alone() -> None:
    row = running()
    row.end(Outcome(Kind.FAILED, "half", progress={"done": 4}), at("10:01"))
    row.tick(at("10:06"))
    row.end(SUCCESS, at("10:07"))
    assert row.standing.progress == {"done": 4}

    row.standing = replace(row.standing, stat_date=at("10:00").date() - timedelta(days=1))
    row.tick(at("11:00"))
    row.end(SUCCESS, at("11:01"))

    assert row.standing.progress is None


def test_the_end_of_a_run_that_was_taken_over_changes_only_what_is_remembered() -> None:
    row = running(replace(HOURLY, overlap=Overlap.ALWAYS))
    row.tick(at("11:00"))

    ending = row.end(SUCCESS, at("11:01"), run=row.runs[0])

    assert (ending.standing.last_success_at, ending.standing.running) == (at("11:01"), row.runs[1])
    assert (ending.standing.due_at, ending.standing.status) == (at("12:00"), Status.RUNNING)
    assert row.end(Outcome(Kind.DEFERRED, "busy"), at("11:02")).outcome.kind == Kind.DEFERRED


def test_the_end_of_a_disabled_entrys_run_plans_nothing() -> None:
    row = running()
    row.edit(at("10:01"), enabled=False)

    ending = row.end(Outcome(Kind.DEFERRED, "busy", again_in=60), at("10:02"))

    assert (ending.outcome.kind, ending.again_at, ending.reason) == (Kind.SKIPPED, None, "disabled")
    assert row.standing.due_at is None


def test_what_is_no_end_of_a_run_is_refused() -> None:
    row = running()

    with pytest.raises(ValueError, match="ends no run"):
        ended(HOURLY, row.standing, Outcome(Kind.MADE_UP), at("10:01"))
    row.end(SUCCESS, at("10:01"))
    with pytest.raises(ValueError, match="no running run"):
        ended(HOURLY, row.standing, SUCCESS, at("10:02"))
