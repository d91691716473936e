"""A snapshot's run counts only what was walked for its own stat date, on both databases (rules S7, S8)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from config import clock
from models.base import db_now
from models.db import Database
from models.jobs import jobs
from models.operations import Operator
from models.snapshots import snapshots
from tasks.schedule.by_hand import run_by_hand
from tests.support.agenda import Beat, fleet

ANN = Operator("ann@desk", "cli")
ALL = ["t1", "t1b", "t2", "t3"]
MAY_1, MAY_2 = date(2026, 5, 1), date(2026, 5, 2)


@pytest.fixture
def beat(database: Database, monkeypatch: pytest.MonkeyPatch) -> Beat:
    """A beat in the evening of May 1, whose commands see the same clock."""
    beat = fleet(database, "2026-05-01 22:00")
    beat.configure(snapshot={})
    monkeypatch.setattr(clock, "now", lambda: beat.now)
    beat.tick()
    return beat


def change(beat: Beat, *where: Any, **values: Any) -> None:
    beat.bench.change(jobs, *where, **values)


def over(beat: Beat, job_id: str) -> None:
    """Let one job end whole."""
    change(beat, jobs.c.job_id == job_id, status="done", outcome="complete", lease_until=None, finished_at=db_now())


def by_hand(beat: Beat, **options: Any) -> int:
    """Run the snapshot by hand and return its run."""
    found = run_by_hand(beat.db, beat.settings, "snapshot", ANN, **options)
    assert isinstance(found, int), found
    return found


def counted(beat: Beat, run_id: int) -> list[tuple[str, str, bool]]:
    """Return target, stat date and `refetch` of the jobs that a run counts."""
    return [(job["target_code"], job["options"]["snapshot"], job["options"]["refetch"]) for job in beat.jobs(run_id)]


def walks(day: str, refetch: bool = False) -> list[tuple[str, str, bool]]:
    return [(code, day, refetch) for code in ALL]


def test_a_job_of_yesterday_that_was_requeued_answers_for_nothing_today(beat: Beat) -> None:
    beat.tick("2026-05-01 23:15")
    beat.finish()
    beat.later(minutes=1)
    old = next(job for job in beat.jobs() if job["target_code"] == "t1")
    change(beat, jobs.c.job_id == old["job_id"], status="queued", finished_at=None, outcome=None)
    change(beat, jobs.c.job_id != old["job_id"], queue_at=old["queue_at"] + timedelta(seconds=1))
    beat.tick("2026-05-02 23:15")
    run = beat.runs("snapshot")[-1]
    assert counted(beat, run["run_id"]) == walks("2026-05-02")
    mine = next(job for job in beat.jobs(run["run_id"]) if job["target_code"] == "t1")
    assert mine["dedupe_key"] == "snapshot:t1:2026-05-02"
    first = beat.bench.claim(lanes=["^g1$"])
    assert first.job_id == old["job_id"], "yesterday's is in front of today's in their lane"
    over(beat, old["job_id"])
    beat.finish("t1b", "t2", "t3")
    assert beat.later(minutes=1).ended == 0, "the run counts a walk for another date"
    beat.finish("t1")
    assert beat.later(minutes=1).ended == 1
    assert beat.runs("snapshot")[-1]["progress"] == {"done": 4, "failed": 0, "total": 4}


def test_a_job_of_yesterday_that_somebody_has_in_hand_at_the_takeover_answers_for_nothing(beat: Beat) -> None:
    """A claim, a settle or a heartbeat holds its row this moment."""
    if beat.db.dialect == "sqlite":
        pytest.skip("one writer at a time")
    beat.tick("2026-05-01 23:15")
    running = beat.bench.claim(lanes=["^g2$"]).job_id
    waiting = next(job["job_id"] for job in beat.jobs() if job["target_code"] == "t3")
    with beat.db.write() as conn:
        conn.execute(select(jobs.c.job_id).where(jobs.c.job_id.in_((running, waiting))).with_for_update()).all()
        beat.tick("2026-05-02 23:15")
    run = beat.runs("snapshot")[-1]
    assert counted(beat, run["run_id"]) == walks("2026-05-02")
    assert not {running, waiting} & {job["job_id"] for job in beat.jobs(run["run_id"])}


def test_a_crawl_that_somebody_submitted_under_the_key_is_no_snapshot(beat: Beat) -> None:
    other = beat.bench.submit("t1", dedupe_key="snapshot:t1").job_id
    beat.tick("2026-05-01 23:15")
    [run] = beat.runs("snapshot")
    assert counted(beat, run["run_id"]) == walks("2026-05-01")
    assert other not in {job["job_id"] for job in beat.jobs(run["run_id"])}


def test_an_own_entrys_walk_answers_on_its_day_and_not_on_the_next(beat: Beat) -> None:
    beat.configure(snapshot={}, part={"at": "23:00", "task": "snapshot", "targets": "t1*"})
    beat.tick()
    beat.tick("2026-05-01 23:00")
    beat.tick("2026-05-01 23:15")
    assert len(beat.jobs()) == 4, "two walks of a target for one date"
    with beat.db.write() as conn:
        conn.exec_driver_sql("UPDATE jobs SET status = 'done', finished_at = queue_at, outcome = 'complete' "
                             "WHERE target_code NOT IN ('t1', 't1b')")
    beat.tick("2026-05-02 23:15")
    assert counted(beat, beat.runs("snapshot")[-1]["run_id"]) == walks("2026-05-02")


def test_what_was_taken_over_for_another_date_is_missing_on_its_own(beat: Beat) -> None:
    beat.tick("2026-05-01 23:15")
    beat.finish("t1")
    beat.tick("2026-05-02 23:15")
    first, second = beat.runs("snapshot")
    assert (first["outcome"], first["by_run"]) == ("made_up", second["run_id"])
    beat.finish()
    beat.later(minutes=1)
    assert beat.told("snapshot")[-1] == "23:15 success"
    again = by_hand(beat, date=MAY_1)
    assert [job["target_code"] for job in beat.jobs(again)] == ["t1b", "t2", "t3"]
    beat.finish()
    beat.later(minutes=1)
    days = {row["stat_date"]: row["completed_run"] for row in beat.bench.rows(snapshots)}
    assert days == {MAY_1: again, MAY_2: second["run_id"]}


def test_a_parked_walk_of_the_same_date_is_in_nobodys_way_when_a_running_one_leaves_its_key(beat: Beat) -> None:
    beat.tick("2026-05-01 23:15")
    parked = beat.bench.claim(lanes=["^g2$"]).job_id
    beat.tick("2026-05-02 23:15")
    later = datetime.now(UTC) + timedelta(hours=1)
    change(beat, jobs.c.job_id == parked, status="queued", lease_until=None, wait_reason="cooldown", run_after=later)
    forced = by_hand(beat, force=True, date=MAY_1)
    beat.bench.reaper.sweep()
    mine = beat.bench.claim(lanes=["^g2$"]).job_id
    assert mine in {job["job_id"] for job in beat.jobs(forced)}
    beat.tick("2026-05-03 23:15")
    run = beat.runs("snapshot")[-1]
    assert (run["outcome"], run["stat_date"]) == (None, date(2026, 5, 3))
    assert counted(beat, run["run_id"]) == walks("2026-05-03")
    keys = {job["job_id"]: job["dedupe_key"] for job in beat.jobs()}
    assert (keys[parked], keys[mine]) == ("snapshot:t2:2026-05-01", f"snapshot:t2:2026-05-01:{mine}")


def test_force_over_a_running_run_reads_every_target_anew_behind_what_runs(beat: Beat) -> None:
    beat.tick("2026-05-01 23:15")
    [old] = beat.runs("snapshot")
    running = beat.bench.claim(lanes=["^g2$"])
    change(beat, jobs.c.target_code == "t1", last_completed_page=7, failures=2)
    beat.finish("t3")
    beat.later(minutes=5)
    forced = by_hand(beat, force=True)
    row = next(run for run in beat.runs("snapshot") if run["run_id"] == old["run_id"])
    assert (row["outcome"], row["reason"], row["by_run"]) == ("made_up", "by_hand", forced)
    assert counted(beat, forced) == walks("2026-05-01", refetch=True)
    mine = {job["target_code"]: job for job in beat.jobs(forced)}
    assert (mine["t1"]["last_completed_page"], mine["t1"]["failures"]) == (0, 0), "its first pages stay unread"
    assert mine["t2"]["job_id"] != running.job_id
    assert beat.bench.claims(5, lanes=["^g2$"]) == [], "two walks of a target at once"
    beat.finish("t1", "t1b", "t3")
    over(beat, running.job_id)
    assert beat.later(minutes=1).ended == 0, "the forced run counts a walk that was not forced"
    beat.bench.reaper.sweep()
    assert beat.bench.claim(lanes=["^g2$"]).job_id == mine["t2"]["job_id"]
    beat.finish()
    assert beat.later(minutes=1).ended == 1
    assert beat.runs("snapshot")[-1]["outcome"] == "success"


def test_the_evenings_run_takes_over_a_forced_one_and_what_was_to_be_read_anew_still_is(beat: Beat) -> None:
    beat.now = beat.now.replace(minute=30)
    forced = by_hand(beat, force=True)
    beat.finish("t1")
    running = beat.bench.claim(lanes=["^g2$"]).job_id
    beat.tick("2026-05-01 23:15")
    evening = beat.runs("snapshot")[-1]
    assert (beat.runs("snapshot")[0]["run_id"], beat.runs("snapshot")[0]["outcome"]) == (forced, "made_up")
    assert counted(beat, evening["run_id"]) == walks("2026-05-01", refetch=True)[1:]
    assert running in {job["job_id"] for job in beat.jobs(evening["run_id"])}, "it walks for the same date, and reads more"
    assert len(beat.jobs()) == 4
