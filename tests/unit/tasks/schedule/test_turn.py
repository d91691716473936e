"""What a tick does: first moments, missed ones, quiet hours, overlap, pauses (rules S1, S2, S3, S6, S7)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from tasks.schedule.builtin import QUIET, entries
from tasks.schedule.calendar import Every, Times
from tasks.schedule.owed import MOST_SKIPPED
from tasks.schedule.planner import first, turn
from tasks.schedule.terms import Action, DueFor, Entry, Kind, Outcome, Overlap, Status
from tests.support.schedule import Row, moment

SHANGHAI = ZoneInfo("Asia/Shanghai")
HOURLY = Entry("hourly", "crawl", Every(timedelta(hours=1)), SHANGHAI)
QUIET_HOURLY = replace(HOURLY, quiet=QUIET)


def at(text: str) -> datetime:
    return moment(f"2026-05-{text}", HOURLY)


def kinds(row: Row) -> dict[str, str]:
    """Return what became of each occurrence by day and time of the clock."""
    return {each.astimezone(SHANGHAI).strftime("%d %H:%M"): row.outcome(each) for each in sorted(row.ends())}


def test_s1_an_entry_without_state_gets_its_next_moment_and_fires_nothing() -> None:
    standing = first(HOURLY, at("01 10:05"))

    assert (standing.due_at, standing.occurrence, standing.status) == (at("01 11:00"), at("01 11:00"), Status.PENDING)
    assert turn(HOURLY, standing, at("01 10:05")).action == Action.WAIT
    assert first(replace(HOURLY, enabled=False), at("01 10:05")).due_at is None


def test_s1_a_future_moment_is_honoured_exactly() -> None:
    row = Row.new(HOURLY, at("01 10:05"))

    assert row.tick(at("01 10:59:59")).reason == "not_due"
    assert row.tick(at("01 11:00")).action == Action.RUN


def test_s2_a_moment_fires_once_however_many_beats_ask() -> None:
    row = Row.new(HOURLY, at("01 10:05"))

    assert [row.tick(at("01 11:00:01")).action for _ in range(3)] == [Action.RUN, Action.WAIT, Action.WAIT]
    assert row.standing.due_at == at("01 12:00")


def test_s2_a_clock_that_is_set_back_repeats_nothing() -> None:
    row = Row.new(HOURLY, at("01 10:05"))
    row.live(at("01 10:05"), at("01 13:30"))

    assert row.live(at("01 11:30"), at("01 13:59")) == []
    row.edit(at("01 11:30"), when=Every(timedelta(minutes=30)))
    assert row.standing.due_at == at("01 13:30")


def test_s1_of_several_missed_moments_the_last_is_run_and_makes_up_the_others() -> None:
    row = Row.new(HOURLY, at("01 09:30"))

    (only,) = row.settle(at("01 13:10"))

    assert only.run is not None and only.run.occurrence == at("01 13:00") and only.reason == "missed"
    assert kinds(row) == {"01 10:00": "made_up(by 1)", "01 11:00": "made_up(by 1)", "01 12:00": "made_up(by 1)",
                          "01 13:00": "running"}


def test_s1_what_is_later_than_catch_up_is_skipped_and_the_rest_made_up() -> None:
    row = Row.new(replace(HOURLY, catch_up=timedelta(hours=2)), at("01 09:30"))

    row.settle(at("01 13:10"))

    assert kinds(row) == {"01 10:00": "skipped(missed)", "01 11:00": "skipped(missed)", "01 12:00": "made_up(by 1)",
                          "01 13:00": "running"}


def test_s1_a_tick_that_is_a_little_late_is_no_downtime() -> None:
    row = Row.new(replace(HOURLY, catch_up=timedelta(0)), at("01 09:30"))

    assert row.tick(at("01 10:00:40")).reason == "regular"
    assert row.tick(at("01 11:01:01")).reason == "missed"
    assert kinds(row)["01 11:00"] == "skipped(missed)"


def test_s1_a_long_downtime_of_a_fast_entry_is_told_in_pieces_and_ends_in_one_run() -> None:
    row = Row.new(replace(HOURLY, when=Every(timedelta(seconds=10)), catch_up=timedelta(minutes=1)), at("01 09:30"))

    done = row.settle(at("02 09:30"))

    assert [each.action for each in done] == [Action.SKIP, Action.RUN]
    assert len(done[0].recorded) == MOST_SKIPPED
    assert len(row.rows) == 8_640


def test_s6_what_is_due_in_the_quiet_window_is_deferred_to_its_end_and_made_up_there() -> None:
    row = Row.new(QUIET_HOURLY, at("01 21:30"))
    row.live(at("01 21:30"), at("01 23:00"))
    deferred = row.standing

    row.live(at("01 23:00"), at("02 02:00"))

    assert (deferred.status, deferred.due_at, deferred.due_for) == (Status.DEFERRED, at("02 01:00"), DueFor.DEFERRED)
    assert kinds(row) == {"01 22:00": "success", "01 23:00": "made_up(by 2)", "02 00:00": "made_up(by 2)",
                          "02 01:00": "success", "02 02:00": "success"}


def test_s6_a_deferral_that_ends_at_no_regular_moment_is_run_for_its_own_date() -> None:
    row = Row.new(replace(QUIET_HOURLY, when=Times((time(23, 30),))), at("01 12:00"))

    row.live(at("01 12:00"), at("02 12:00"))

    assert [(run.occurrence, run.started_at, run.stat_date.day) for run in row.runs] == [
        (at("01 23:30"), at("02 01:00"), 1)]
    assert kinds(row) == {"01 23:30": "success"}


def test_s6_what_was_missed_before_the_quiet_window_waits_for_its_end_too() -> None:
    row = Row.new(QUIET_HOURLY, at("01 20:30"))

    (deferral,) = row.settle(at("01 23:40"))
    assert (deferral.action, deferral.until, len(deferral.recorded)) == (Action.DEFER, at("02 01:00"), 3)
    row.settle(at("02 01:00"))

    assert [run.occurrence for run in row.runs] == [at("02 01:00")]
    assert set(kinds(row).values()) == {"made_up(by 1)", "running"}


def test_s6_a_late_tick_at_the_end_of_deferrals_tells_of_them_and_one_after_it_of_the_moment_it_missed() -> None:
    deferred = Row.new(QUIET_HOURLY, at("01 22:30"))
    for inside in ("01 23:00", "02 00:00", "02 23:10"):  # a beat that is there in quiet windows alone
        assert all(each.action == Action.DEFER for each in deferred.settle(at(inside)))
    late, later = (replace(deferred, rows=dict(deferred.rows), runs=[]) for _ in range(2))

    assert [each.reason for each in deferred.settle(at("03 01:00"))] == ["regular"]
    assert [each.reason for each in late.settle(at("03 01:02"))] == ["deferred"]
    assert [each.reason for each in later.settle(at("03 02:02"))] == ["missed"]
    assert late.standing.running is not None and late.standing.running.occurrence == at("03 01:00")


def test_s1_a_deferral_that_was_missed_for_too_long_is_skipped() -> None:
    row = Row.new(replace(QUIET_HOURLY, when=Times((time(23, 30),)), catch_up=timedelta(hours=2)), at("01 12:00"))
    row.tick(at("01 23:30"))

    row.settle(at("02 03:01"))

    assert kinds(row) == {"01 23:30": "skipped(missed)"}


def test_w54_a_run_that_sits_paused_makes_up_the_moments_that_come_meanwhile() -> None:
    row = Row.new(HOURLY, at("01 07:59"))
    row.tick(at("01 08:00"))

    done = [row.tick(at("01 09:00")), row.tick(at("01 10:00"))]
    row.end(Outcome(Kind.SUCCESS), at("01 10:20"))
    row.tick(at("01 11:00"))

    assert [(each.action, each.by and each.by.run_id) for each in done] == [(Action.MAKE_UP, 1), (Action.MAKE_UP, 1)]
    assert kinds(row) == {"01 08:00": "success", "01 09:00": "made_up(by 1)", "01 10:00": "made_up(by 1)",
                          "01 11:00": "running"}


def test_w63_a_schedule_of_a_second_with_no_worker_has_one_run_and_no_pile() -> None:
    row = Row.new(replace(HOURLY, when=Every(timedelta(seconds=1))), at("01 09:00"))

    row.live(at("01 09:00"), at("01 09:01"), lasting=None)

    assert len(row.runs) == 1
    assert sum(each == "made_up(by 1)" for each in map(row.outcome, row.ends())) == 59


def test_w58_w67_a_moment_has_one_key_whoever_asks_and_after_any_restart() -> None:
    row = Row.new(replace(HOURLY, when=Times((time(9),))), at("01 08:00"))

    for clock in ("01 08:59:59", "01 09:00", "01 09:00:01", "01 12:00", "01 16:59", "01 17:00", "01 23:00"):
        row.settle(at(clock))

    assert [(run.occurrence, run.try_no) for run in row.runs] == [(at("01 09:00"), 1)]


def test_w60_an_interval_longer_than_the_time_between_restarts_runs_on_its_grid() -> None:
    row = Row.new(replace(HOURLY, when=Every(timedelta(seconds=60))), at("01 09:00"))

    for seconds in range(0, 200, 20):
        row.live(at("01 09:00") + timedelta(seconds=seconds), at("01 09:00") + timedelta(seconds=seconds))

    assert [run.started_at - at("01 09:00") for run in row.runs] == [timedelta(seconds=each) for each in (60, 120, 180)]


def test_overlap_next_hands_the_old_run_over_and_always_starts_beside_it() -> None:
    over, beside = (Row.new(replace(HOURLY, overlap=each), at("01 07:59")) for each in (Overlap.NEXT, Overlap.ALWAYS))
    for row in (over, beside):
        row.tick(at("01 08:00"))
        row.tick(at("01 09:00"))

    assert over.turns[-1].closes == over.runs[0] and kinds(over)["01 08:00"] == "made_up(by 2)"
    assert beside.turns[-1].closes is None and kinds(beside)["01 08:00"] == "running"
    beside.end(Outcome(Kind.FAILED, "late"), at("01 09:30"), run=beside.runs[0])
    assert beside.standing.running == beside.runs[1] and beside.standing.due_at == at("01 10:00")


def test_s2_the_moments_of_a_paused_entry_are_skipped_as_they_come() -> None:
    row = Row.new(HOURLY, at("01 09:30"))
    row.pause()

    row.live(at("01 09:30"), at("01 11:00"))
    row.resume(at("01 11:30"))
    row.live(at("01 11:30"), at("01 12:00"))

    assert kinds(row) == {"01 10:00": "skipped(paused)", "01 11:00": "skipped(paused)", "01 12:00": "success"}


def test_a_disabled_entry_has_no_occurrences() -> None:
    row = Row.new(replace(HOURLY, enabled=False), at("01 09:30"))

    assert row.tick(at("05 12:00")).reason == "disabled"


def test_built_in_entries_have_the_rules_of_the_specification() -> None:
    found = entries(SHANGHAI)

    assert {name: (entry.overlap, entry.quiet is not None, entry.priority) for name, entry in found.items()} == {
        "snapshot": ("next", False, 100), "snapshot_recent": ("join", True, 100), "snapshot_seed": ("next", False, 100),
        "discovery": ("join", True, 100), "candidate_cleanup": ("join", True, 100), "vitals": ("join", False, 10)}
    assert [(entry.name, first(entry, at("01 12:00")).due_at) for entry in found.values()] == [
        ("snapshot", at("01 23:15")), ("snapshot_recent", at("01 13:00")), ("snapshot_seed", at("02 00:05")),
        ("discovery", at("01 18:00")), ("candidate_cleanup", at("02 03:30")), ("vitals", at("01 12:30"))]
    waits = {name: entry.retry_after // timedelta(minutes=1) for name, entry in found.items()}
    assert waits == dict.fromkeys(found, 5) | {"snapshot_seed": 10}
    assert entries(SHANGHAI, retry=timedelta(seconds=3))["vitals"].retry_after == timedelta(seconds=3)
