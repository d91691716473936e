"""Quiet windows on both databases: not taken inside, no lane polls, a running one parks, the window moves on (rule S6)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sqlalchemy import update

from config import clock
from config.errors import Parked
from console.explain import explain
from models.db import Database
from models.jobs import jobs
from models.queries.waiting import facts
from routing.lanes.guard import Guard
from tests.support.agenda import SHANGHAI, Beat, at, fleet
from tests.support.ledger import SMALL, START, Bench, seed

HOUR = 3600.0


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def hold(bench: Bench, job_id: str, start_sec: float, end_sec: float) -> datetime:
    """Give a job a quiet window, in seconds from now, and return its end."""
    now = bench.clock()
    bench.change(jobs, jobs.c.job_id == job_id, hold_from=now + timedelta(seconds=start_sec),
                 hold_until=now + timedelta(seconds=end_sec))
    return now + timedelta(seconds=end_sec)


def test_inside_the_window_a_job_is_not_taken_and_its_lane_sleeps_until_the_end(bench: Bench) -> None:
    job = bench.submit("t1").job_id
    end = hold(bench, job, -60, HOUR)
    assert bench.claims() == []
    assert bench.group()["ready_at"] == end, "the lane would be looked at all the time"
    bench.clock.advance(HOUR)
    assert bench.claim().job_id == job


def test_before_the_window_it_is_taken(bench: Bench) -> None:
    job = bench.submit("t1").job_id
    hold(bench, job, 1, HOUR)
    assert bench.claim().job_id == job


def test_others_of_the_lane_pass_by(bench: Bench) -> None:
    job, other = bench.submit("t1").job_id, bench.submit("t1b").job_id
    hold(bench, job, 0, HOUR)
    assert bench.claim().job_id == other


def test_a_job_that_comes_due_inside_the_window_opens_the_lane_at_its_own_moment(bench: Bench) -> None:
    end = hold(bench, bench.submit("t1").job_id, 0, HOUR)
    later = bench.submit("t1b", delay_sec=600.0).job_id
    assert bench.claims() == []
    assert bench.group()["ready_at"] == START + timedelta(seconds=600)
    bench.clock.advance(600)
    started = bench.start(bench.claim())
    assert started.claim.job_id == later
    bench.settle(started, result={})
    assert bench.group()["ready_at"] == end


def test_no_sweep_takes_such_a_lane_for_one_that_sleeps(bench: Bench) -> None:
    hold(bench, bench.submit("t1").job_id, 0, HOUR)
    assert bench.claims() == []
    bench.clock.advance(120)
    assert bench.reaper.sweep() == 0


def test_a_running_one_learns_of_it_and_parks_with_nothing_spent(bench: Bench) -> None:
    started = bench.begin("t1")
    job, number = started.claim[:2]
    assert bench.ledger.pulse(job, number).quiet_sec == 0
    end = hold(bench, job, 30, HOUR)
    assert bench.ledger.pulse(job, number).quiet_sec == 0
    bench.clock.advance(30)
    assert bench.ledger.pulse(job, number).quiet_sec == HOUR - 30
    guard = Guard(bench.ledger, started, clock.Stopwatch())
    with pytest.raises(Parked) as parked:
        guard.heed(at_most_old=0)
    assert (parked.value.reason, parked.value.delay_sec) == ("quiet_window", HOUR - 30)
    bench.settle(started, parked.value, page=4)
    row = bench.job(job)
    assert (row["status"], row["failures"], row["recoveries"], row["run_after"], row["wait_reason"]) == (
        "queued", 0, 0, None, "quiet_window")
    assert bench.group()["ready_at"] == end
    assert bench.claims() == []
    bench.clock.advance(HOUR - 30)
    assert bench.claim().job_id == job


def test_why_says_so(bench: Bench) -> None:
    job = bench.submit("t1").job_id
    end = hold(bench, job, 0, HOUR)
    with bench.db.look() as conn:
        found = facts(conn, job, START)
    assert found is not None
    reasons = {reason.code: reason for reason in explain(found, SHANGHAI).reasons}
    assert reasons["quiet_window"].until == end
    assert "quiet window holds" in reasons["quiet_window"].text


@pytest.fixture
def beat(database: Database) -> Beat:
    beat = fleet(database, "2026-05-01 21:30")
    beat.configure(hourly={"every": "1h", "quiet": ["23:00", "01:00"]})
    beat.tick()
    return beat


def window(beat: Beat, row: dict[str, object]) -> tuple[datetime, datetime]:
    """Return a job's window on the schedule's clock, to the minute."""
    with beat.db.read() as conn:
        now = conn.exec_driver_sql(
            "SELECT clock_timestamp()" if beat.db.dialect == "postgresql" else "SELECT rl_now()").scalar()
    if isinstance(now, int):
        now = datetime.fromtimestamp(now / 1e6, SHANGHAI)
    return tuple(rounded(beat.now + (row[name] - now)) for name in ("hold_from", "hold_until"))  # type: ignore[return-value]


def rounded(moment: datetime) -> datetime:
    """Return the nearest minute."""
    return (moment + timedelta(seconds=30)).replace(second=0, microsecond=0)


def test_an_entrys_jobs_know_their_next_window_by_the_databases_clock(beat: Beat) -> None:
    beat.tick("2026-05-01 22:00")
    assert {window(beat, job) for job in beat.jobs()} == {(at("2026-05-01 23:00"), at("2026-05-02 01:00"))}


def test_once_it_is_over_they_get_the_next_one_queued_or_running(beat: Beat) -> None:
    beat.tick("2026-05-01 22:00")
    beat.bench.start(beat.bench.claim(lanes=["^g2$"]))
    past = {"hold_from": beat.jobs()[0]["enqueued_at"] - timedelta(hours=3),
            "hold_until": beat.jobs()[0]["enqueued_at"] - timedelta(hours=1)}
    with beat.db.write() as conn:
        conn.execute(update(jobs).values(past))
    beat.tick("2026-05-02 01:30")
    assert {job["status"] for job in beat.jobs()} == {"queued", "running"}
    assert {window(beat, job) for job in beat.jobs()} == {(at("2026-05-02 23:00"), at("2026-05-03 01:00"))}


def test_a_beat_that_comes_back_inside_a_window_closes_it_to_what_waits_and_to_what_runs(beat: Beat) -> None:
    """Beats were away from the evening before until half an hour into the next window: lanes went on meanwhile."""
    beat.tick("2026-05-01 22:00")
    running = beat.bench.start(beat.bench.claim(lanes=["^g2$"])).claim
    with beat.db.write() as conn:
        conn.execute(update(jobs).values(hold_from=jobs.c.enqueued_at, hold_until=jobs.c.enqueued_at))
    beat.tick("2026-05-02 23:30")
    assert {window(beat, job) for job in beat.jobs()} == {(at("2026-05-02 23:30"), at("2026-05-03 01:00"))}
    assert beat.bench.claims() == [], "crawls by night"
    assert 5_300 < beat.bench.ledger.pulse(*running[:2]).quiet_sec <= 5_400, "the running one does not park"
    assert "23:00 deferred(quiet_window)" in beat.told(), "it started inside"
    run = beat.runs()[0]
    assert [job["run_id"] for job in beat.jobs()] == [run["run_id"]] * 4, "something was started inside"
    # without any beat at the edge the end of the window opens the lanes by itself
    with beat.db.write() as conn:
        conn.execute(update(jobs).values(hold_until=jobs.c.enqueued_at))
        conn.exec_driver_sql("UPDATE rate_groups SET ready_at = NULL")
    beat.bench.reaper.sweep()
    assert {claim.group for claim in beat.bench.claims()} == {"g1", "g3"}


def test_an_entry_that_has_no_window_any_more_gives_its_jobs_none(beat: Beat) -> None:
    beat.tick("2026-05-01 22:00")
    with beat.db.write() as conn:
        conn.exec_driver_sql("UPDATE jobs SET hold_from = enqueued_at, hold_until = enqueued_at")
    beat.configure(hourly={"every": "1h"})
    beat.tick("2026-05-01 22:30")
    assert {(job["hold_from"], job["hold_until"]) for job in beat.jobs()} == {(None, None)}
