"""The schedule's rows on both databases: what is due becomes a run with its jobs, once, and ends as one outcome."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from models.agenda import launching, records
from models.db import Database
from models.sites import targets
from tasks.periodic import crawl
from tasks.periodic.base import WORKS
from tasks.schedule.terms import Kind, Outcome
from tests.support.agenda import Beat, at, fleet

HOURLY = {"every": "1h"}


@pytest.fixture
def beat(database: Database) -> Beat:
    beat = fleet(database, "2026-05-01 06:30")
    beat.configure(hourly=HOURLY)
    beat.tick()
    return beat


def test_s1_a_first_start_forces_nothing_and_plans_the_next_moments(database: Database) -> None:
    beat = fleet(database, "2026-05-01 06:30")
    assert beat.tick().started == 0
    assert beat.jobs() == []
    due = {name: beat.entry(name)["due_at"] for name in ("snapshot", "snapshot_recent", "vitals", "candidate_cleanup")}
    assert due == {"snapshot": at("2026-05-01 23:15"), "snapshot_recent": at("2026-05-01 07:00"),
                   "vitals": at("2026-05-01 07:00"), "candidate_cleanup": at("2026-05-02 03:30")}


def test_a_due_entry_becomes_a_run_with_a_job_for_every_enabled_target(beat: Beat) -> None:
    with beat.db.write() as conn:
        conn.execute(update(targets).where(targets.c.target_code == "t3").values(enabled=False))
    assert beat.tick("2026-05-01 06:59:59").started == 0
    ticked = beat.tick("2026-05-01 07:00")
    assert (ticked.started, ticked.next_due_sec) == (1, 3600.0)
    [run] = beat.runs()
    assert (run["occurrence"], run["try_no"], run["stat_date"].isoformat(), run["outcome"], run["total"]) == (
        at("2026-05-01 07:00"), 1, "2026-05-01", None, 3)
    made = beat.jobs(run["run_id"])
    assert [(job["target_code"], job["dedupe_key"], job["group_key"], job["site_code"], job["source"], job["status"],
             job["run_id"]) for job in made] == [
        (code, f"crawl:{code}", group, site, "schedule", "queued", run["run_id"])
        for code, group, site in (("t1", "g1", "s1"), ("t1b", "g1", "s1"), ("t2", "g2", "s2"))]
    row = beat.entry()
    assert (row["status"], row["run_id"], row["due_at"]) == ("running", run["run_id"], at("2026-05-01 08:00"))
    assert len(beat.bench.claims()) == 2, "the lanes were not woken"


def test_s8_a_run_is_over_when_its_jobs_are_and_only_then(beat: Beat, caplog: pytest.LogCaptureFixture) -> None:
    beat.tick("2026-05-01 07:00")
    beat.finish("t1", "t1b", "t2")
    assert beat.later(seconds=5).ended == 0
    beat.finish("t3")
    with caplog.at_level(logging.INFO):
        assert beat.later(seconds=5).ended == 1
    [run] = beat.runs()
    assert (run["outcome"], run["ended_at"], run["progress"]) == (
        "success", at("2026-05-01 07:00:10"), {"done": 4, "failed": 0, "total": 4})
    row = beat.entry()
    assert (row["status"], row["run_id"], row["last_success_at"]) == ("done", None, at("2026-05-01 07:00:10"))
    assert "scheduler.task_ok entry=hourly" in caplog.text
    assert "due_at=2026-05-01T08:00:00+08:00" in caplog.text, "moments are told in the entry's zone (rule U6)"
    assert beat.later(seconds=5).ended == 0
    assert beat.told() == ["07:00 success"]


def test_s8_too_few_done_fails_and_the_next_try_submits_only_what_is_missing(beat: Beat) -> None:
    beat.tick("2026-05-01 07:00")
    beat.finish("t1", "t2")
    beat.finish("t3", status="failed", error_msg="OSError: x", result={"error_type": "OSError"})
    beat.finish("t1b", outcome="partial")
    beat.later(seconds=5)
    row = beat.entry()
    assert (row["status"], row["due_at"], row["last_success_at"]) == ("failed", at("2026-05-01 07:05:05"), None)
    beat.tick("2026-05-01 07:05:05")
    second = beat.runs()[1]
    assert (second["try_no"], second["total"]) == (2, 2)
    assert [job["target_code"] for job in beat.jobs(second["run_id"])] == ["t1b", "t3"]
    beat.finish()
    beat.later(seconds=5)
    assert beat.told() == ["07:00 failed(2 of 4 targets are done, 0.9 of them are needed)", "07:00 success"]
    assert beat.runs()[1]["progress"] == {"done": 4, "failed": 0, "total": 4}


def test_s8_what_failed_for_good_is_settled_and_listed(beat: Beat) -> None:
    beat.tick("2026-05-01 07:00")
    beat.finish("t1", "t1b", "t2")
    beat.finish("t3", status="failed", error_msg="gone", result={"error_type": "PermanentJobError"})
    beat.later(seconds=5)
    [run] = beat.runs()
    assert (run["outcome"], run["progress"]["settled"]) == ("success", ["t3"])


def test_s4_a_run_that_never_succeeds_ends_at_its_third_try(beat: Beat) -> None:
    beat.tick("2026-05-01 07:00")
    for _ in range(3):
        beat.finish(status="failed", error_msg="x", result={"error_type": "OSError"})
        beat.later(seconds=1)
        beat.later(minutes=5)
    assert [run["try_no"] for run in beat.runs()] == [1, 2, 3]
    assert beat.entry()["due_at"] == at("2026-05-01 08:00")


def test_s7_a_moment_during_a_run_is_made_up_by_it(beat: Beat) -> None:
    beat.tick("2026-05-01 07:00")
    beat.tick("2026-05-01 08:00")
    first, second = beat.runs()
    assert (second["outcome"], second["by_run"], second["started_at"]) == ("made_up", first["run_id"], None)
    assert len(beat.jobs()) == 4


def test_j3_a_job_that_somebody_submitted_answers_for_its_target(beat: Beat) -> None:
    mine = beat.bench.submit("t1", dedupe_key="crawl:t1").job_id
    beat.tick("2026-05-01 07:00")
    [run] = beat.runs()
    made = beat.jobs(run["run_id"])
    assert [job["target_code"] for job in made] == ["t1", "t1b", "t2", "t3"]
    assert made[0]["job_id"] == mine
    assert run["total"] == 4


def test_s6_due_inside_the_quiet_window_is_deferred_to_its_end_and_follows(database: Database) -> None:
    beat = fleet(database, "2026-05-01 22:30")
    beat.configure(hourly=HOURLY | {"quiet": ["23:00", "01:00"]})
    beat.tick()
    beat.tick("2026-05-01 23:00")
    assert beat.told() == ["23:00 deferred(quiet_window)"]
    assert (beat.entry()["status"], beat.entry()["due_at"]) == ("deferred", at("2026-05-02 01:00"))
    assert beat.jobs() == []
    beat.tick("2026-05-02 01:00")
    assert beat.told() == ["23:00 made_up(deferred)", "00:00 made_up(deferred)", "01:00 running"]
    assert {run["by_run"] for run in beat.runs()[:2]} == {beat.runs()[2]["run_id"]}


def test_s1_of_several_missed_moments_the_last_runs_and_too_late_ones_are_skipped(
    beat: Beat, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        beat.tick("2026-05-02 08:30")
    told = beat.told()
    assert told[0] == "07:00 skipped(missed)"
    assert told[-2:] == ["07:00 made_up(missed)", "08:00 running"]
    assert len(told) == 26
    assert "scheduler.task_skip entry=hourly" in caplog.text


def test_s7_a_new_snapshot_takes_over_the_queued_jobs_of_the_old_one(database: Database) -> None:
    beat = fleet(database, "2026-05-01 23:00")
    beat.configure(hourly={"at": ["23:15"], "overlap": "next"})
    beat.tick()
    beat.tick("2026-05-01 23:15")
    old = beat.runs()[0]["run_id"]
    [claim] = beat.bench.claims(1, lanes=["^g2$"])
    with beat.db.write() as conn:
        conn.exec_driver_sql("UPDATE jobs SET last_completed_page = 7, failures = 2 WHERE target_code = 't1'")
    beat.tick("2026-05-02 23:15")
    first, second = beat.runs()
    assert (first["outcome"], first["reason"], first["by_run"]) == ("made_up", "overlap", second["run_id"])
    made = {job["target_code"]: job for job in beat.jobs(second["run_id"])}
    assert sorted(made) == ["t1", "t1b", "t2", "t3"]
    assert (made["t1"]["run_id"], made["t1"]["last_completed_page"], made["t1"]["failures"]) == (second["run_id"], 0, 0)
    # the running one goes on for its own day, and the new day has one behind it
    assert made["t2"]["job_id"] != claim.job_id
    running = next(job for job in beat.jobs() if job["job_id"] == claim.job_id)
    assert (running["run_id"], running["dedupe_key"]) == (old, "crawl:t2:2026-05-01")
    assert len(beat.jobs()) == 5


class Broken(crawl.Crawl):
    """Work that makes a mistake of its own."""

    def plan(self, conn: Any, run: Any) -> Any:
        """Divide by nothing."""
        return 1 // 0


class Refused(crawl.Crawl):
    """Work that the database refuses."""

    def plan(self, conn: Any, run: Any) -> Any:
        """Store a job without anything in it."""
        return conn.exec_driver_sql("INSERT INTO jobs (kind) VALUES ('crawl')").all()


BROKEN, REFUSED = Broken(), Refused()


@pytest.mark.parametrize(("work", "reason"), [("BROKEN", "ZeroDivisionError"), ("REFUSED", "IntegrityError")])
def test_one_entrys_mistake_is_its_failure_and_stops_no_other(
    beat: Beat, monkeypatch: pytest.MonkeyPatch, work: str, reason: str
) -> None:
    monkeypatch.setitem(WORKS, "vitals", f"{__name__}:{work}")
    beat.configure(bad={"every": "1h", "task": "vitals"}, hourly=HOURLY)
    beat.tick()
    beat.tick("2026-05-01 07:00")
    assert beat.told() == ["07:00 running"]
    [bad] = beat.runs("bad")
    assert bad["outcome"] == "failed"
    assert reason in bad["reason"]
    row = beat.entry("bad")
    assert (row["status"], row["due_at"], row["last_success_at"]) == ("failed", at("2026-05-01 07:05"), None)
    beat.tick("2026-05-01 07:05")
    assert [(run["try_no"], run["outcome"]) for run in beat.runs("bad")] == [(1, "failed"), (2, "failed")]
    beat.finish()
    beat.tick("2026-05-01 08:00")
    assert [run["occurrence"] for run in beat.runs("bad")][-1] == at("2026-05-01 08:00"), "its next moment was lost"


def test_rules_that_cannot_be_read_fail_their_entry_alone(beat: Beat) -> None:
    beat.configure(hourly=HOURLY, bad={"every": "soon"})
    beat.tick()
    beat.tick("2026-05-01 07:00")
    assert beat.told() == ["07:00 running"]
    assert beat.told("bad")[0].startswith("07:00 failed(the entry cannot be read: every must be a duration")


def test_a_row_that_nobody_can_read_fails_its_entry_alone(beat: Beat) -> None:
    beat.configure(bad=HOURLY, hourly=HOURLY)
    beat.tick()
    with beat.db.write() as conn:
        row = beat.entry("bad")
        records.write(conn, [row | {"plan": row["plan"] | {"due_for": "nothing"}}])
    beat.tick("2026-05-01 07:00")
    assert (beat.told(), beat.told("bad")) == (["07:00 running"], ["07:00 failed(ValueError: 'nothing' is not a valid DueFor)"])
    beat.tick("2026-05-01 07:05")
    assert beat.told("bad")[1] == "07:00 running", "its next try goes on from a row that can be read"


def test_a_mistake_in_judging_fails_the_run(beat: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
    beat.tick("2026-05-01 07:00")
    monkeypatch.setattr(crawl.Crawl, "judge", lambda *_: 1 // 0)
    beat.finish()
    assert beat.later(seconds=5).ended == 1
    assert beat.told() == ["07:00 failed(ZeroDivisionError: integer division or modulo by zero)"]


class Killed(BaseException):
    """The process died on this line."""


@pytest.mark.parametrize(("where", "name"), [
    (records, "start"), (records, "record"), (launching, "launch"), (records, "write")])
def test_a_crash_on_any_line_of_a_turn_leaves_it_to_be_done_once(
    beat: Beat, monkeypatch: pytest.MonkeyPatch, where: Any, name: str
) -> None:
    real = getattr(where, name)

    def dies(*args: Any, **more: Any) -> None:
        real(*args, **more)
        raise Killed

    before = beat.entry()
    monkeypatch.setattr(where, name, dies)
    with pytest.raises(Killed):
        beat.tick("2026-05-01 07:00")
    assert (beat.entry(), beat.runs(), beat.jobs()) == (before, [], [])
    monkeypatch.setattr(where, name, real)
    beat.later(seconds=20)
    beat.later(seconds=1)
    assert beat.told() == ["07:00 running"]
    assert len(beat.jobs()) == 4


def test_a_crash_while_a_run_is_ended_leaves_it_to_be_ended_once(beat: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
    beat.tick("2026-05-01 07:00")
    beat.finish()

    def dies(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(records, "write", dies)
        beat.later(seconds=5)
    assert beat.told() == ["07:00 running"]
    assert beat.later(seconds=5).ended == 1
    assert beat.told() == ["07:00 success"]


def test_s2_an_edit_fires_no_past_moment_and_a_second_process_sees_it(beat: Beat) -> None:
    beat.tick("2026-05-01 06:50")
    beat.configure(hourly={"at": ["06:40", "09:10"]})
    other = Beat(beat.db, beat.now, beat.settings)
    other.tick("2026-05-01 06:51")
    assert beat.entry()["due_at"] == at("2026-05-01 09:10")
    beat.tick("2026-05-01 07:00")
    assert beat.runs() == []
    beat.configure()
    beat.tick("2026-05-01 07:01")
    assert (beat.entry()["enabled"], beat.entry()["due_at"]) == (False, None)


def test_s2_an_occurrence_that_was_taken_is_not_taken_again(beat: Beat) -> None:
    """A row of the entry that was put back, as by a restore, repeats nothing."""
    before = beat.entry()
    beat.tick("2026-05-01 07:00")
    with beat.db.write() as conn:
        records.write(conn, [before])
    beat.later(seconds=5)
    assert beat.told() == ["07:00 running"]
    assert beat.entry()["due_at"] == at("2026-05-01 08:00")
    beat.finish()
    beat.later(seconds=5)
    assert beat.told() == ["07:00 success"]


def test_a_plan_that_answers_at_once_needs_no_job(beat: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Outcome(Kind.DEFERRED, "busy", again_in=600), Outcome(Kind.SKIPPED, "no_source", again_in=600),
               Outcome(Kind.SUCCESS, "already_completed")]
    monkeypatch.setattr(crawl.Crawl, "plan", lambda *_: answers.pop(0))
    for moment, due in (("07:00", "07:10"), ("07:10", "07:20"), ("07:20", "08:00")):
        beat.tick(f"2026-05-01 {moment}")
        assert beat.entry()["due_at"] == at(f"2026-05-01 {due}")
    assert beat.told() == ["07:00 deferred(busy)", "07:00 skipped(no_source)", "07:00 success(already_completed)"]
    assert beat.entry()["last_success_at"] == at("2026-05-01 07:20")


def test_a_fleet_without_targets_is_done_at_once(database: Database) -> None:
    beat = fleet(database, "2026-05-01 06:30", {"g1": {"s1": []}})
    beat.configure(hourly=HOURLY)
    beat.tick()
    ticked = beat.tick("2026-05-01 07:00")
    assert (ticked.started, ticked.ended) == (1, 1)
    assert beat.told() == ["07:00 success"]


def test_an_own_entry_crawls_what_its_globs_name(database: Database) -> None:
    shape = {"g1": {"gd-a": ["gd-a_x.y", "gd-a_xzy", "other"]}, "g2": {"b": ["gd-a_q"]}}
    beat = fleet(database, "2026-05-01 06:30", shape)
    beat.configure(hourly=HOURLY | {"targets": ["gd-a_x.*", "oth[a-f]r", "nothing?"], "sites": ["gd*"], "priority": 5})
    beat.tick()
    beat.tick("2026-05-01 07:00")
    assert [(job["target_code"], job["priority"]) for job in beat.jobs()] == [("gd-a_x.y", 5), ("other", 5)]


def test_what_the_database_may_be_asked_again_is_asked_again_and_stops_no_other(
    beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that another transaction holds for long: the moment stays, for a minute."""
    beat.configure(slow=HOURLY | {"targets": ["t1"]}, hourly=HOURLY | {"targets": ["t2"]})
    beat.tick()
    real, busy = launching.launch, [True]

    def launch(conn: Any, launches: Any, now: Any = None) -> Any:
        if busy[0] and any(launch.fan.among.compile().params.get("target_code_1") == "t1" for launch in launches):
            raise OperationalError("INSERT", {}, Exception("canceling statement due to lock timeout"))
        return real(conn, launches, now)

    monkeypatch.setattr(launching, "launch", launch)
    beat.tick("2026-05-01 07:00")
    assert (beat.told(), beat.told("slow")) == (["07:00 running"], [])
    busy[0] = False
    beat.later(seconds=5)
    assert beat.told("slow") == ["07:00 running"]
    busy[0] = True
    beat.finish()
    beat.tick("2026-05-01 08:00")
    beat.later(seconds=61)
    assert beat.told("slow")[1].startswith("08:00 failed(OperationalError")
