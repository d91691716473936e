"""Requeueing, and cancelling and requeueing by a filter, on both databases (rules J10, J14, R2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select

from config.errors import Cancelled, PermanentJobError
from models import queries
from models.base import db_now
from models.claim import Commit
from models.db import Database
from models.groups import lane_wake, rate_groups
from models.jobs import jobs
from models.ledger import Answer
from models.operations import Operator, operations
from models.queries import JobFilter
from models.sites import sites, targets
from tests.support.ledger import SMALL, START, Bench, held_group, in_thread, objection, seed, wait_until_blocked

ANN = Operator("ann@desk", "cli", "the site is back")
COUNTERS = ("failures", "recoveries", "recoveries_row", "cooldown_retries", "cooldown_row", "deadlines", "deadlines_row",
            "js_challenges")


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def dead(bench: Bench, target: str = "t1", **more: Any) -> str:
    """Return the id of a job that failed for good behind page 6, with everything spent and noted."""
    started = bench.begin(target, **more)
    job, number = started.claim[:2]
    bench.ledger.commit(job, number, started.claim.group, Commit(
        last_completed_page=6, current_page=7, checkpoint={"at": "6"}, progress={"page": 7}))
    bench.settle(started, PermanentJobError("gone"), page=6)
    bench.change(jobs, jobs.c.job_id == job, **dict.fromkeys(COUNTERS, 2), callbacks_sent_at=START, outcome="partial",
                 stop_requested=True, run_after=START - timedelta(hours=1))
    return job


def test_j14_a_dead_job_comes_back_with_nothing_spent_from_its_checkpoint(bench: Bench) -> None:
    job = dead(bench)
    bench.clock.advance(3_600)
    assert bench.ledger.requeue(job, ANN) == Answer("requeued")
    row = bench.job(job)
    assert {name: row[name] for name in COUNTERS} == dict.fromkeys(COUNTERS, 0)
    assert (row["status"], row["error_msg"], row["result"], row["outcome"], row["stop_requested"], row["wait_reason"],
            row["started_at"], row["finished_at"], row["callbacks_sent_at"]) == (
        "queued", "", None, None, False, "", None, None, None)
    assert (row["run_after"], row["queue_at"], row["enqueued_at"]) == (bench.clock.now, bench.clock.now, START)
    assert (row["checkpoint"], row["last_completed_page"], row["row_page"], row["progress"]) == (
        {"at": "6"}, 6, 6, {"page": 7})
    again = bench.start(bench.claim())
    assert (again.claim.job_id, again.claim.attempt, again.last_completed_page) == (job, 2, 6)
    assert bench.attempt(job, 2)["source"] == "manual"
    (log,) = bench.rows(operations)
    assert (log["action"], log["job_id"], log["group_key"], log["target_code"], log["who"], log["reason"]) == (
        "requeue", job, "g1", "t1", *ANN[::2])
    with bench.db.look() as conn:
        assert [one["action"] for one in queries.operations_of_job(conn, job)] == ["requeue"]


def test_j14_with_restart_it_begins_where_it_was_submitted(bench: Bench) -> None:
    job = dead(bench, resume_from_page=2)
    assert bench.ledger.requeue(job, ANN, restart=True) == Answer("requeued")
    row = bench.job(job)
    assert (row["last_completed_page"], row["row_page"], row["current_page"], row["checkpoint"], row["progress"]) == (
        2, 2, 2, None, None)
    assert bench.rows(operations)[0]["details"] == {"restart": True}


def test_j14_a_cancelled_job_comes_back_and_the_stop_does_not_haunt_it(bench: Bench) -> None:
    started = bench.begin("t1")
    job, number = started.claim[:2]
    bench.ledger.commit(job, number, "g1", Commit(last_completed_page=3, checkpoint={"at": "3"}))
    bench.ledger.cancel(job, ANN)
    bench.settle(started, Cancelled(), page=3)
    assert bench.ledger.requeue(job, ANN) == Answer("requeued")
    again = bench.start(bench.claim())
    assert bench.ledger.pulse(job, again.claim.attempt).stop_requested is False
    assert again.checkpoint == {"at": "3"}
    assert [row["action"] for row in bench.rows(operations)] == ["cancel", "requeue"]


def test_j14_asking_a_job_to_stop_again_is_no_operation(bench: Bench) -> None:
    bench.begin("t1")
    for _ in range(2):
        assert bench.ledger.cancel_matching(JobFilter(status="running"), ANN).flagged == 1
    assert len(bench.rows(operations)) == 1


def test_j14_what_is_active_done_or_unknown_is_refused(bench: Bench) -> None:
    queued, done = bench.submit("t1").job_id, bench.begin("t2")
    bench.settle(done)
    before = bench.everything()
    assert bench.ledger.requeue(queued, ANN) == Answer("refused", "cannot requeue status=queued")
    assert bench.ledger.requeue(done.claim.job_id, ANN) == Answer("refused", "cannot requeue status=done")
    assert bench.ledger.requeue("nobody", ANN) == Answer("refused", "not_found")
    assert bench.everything() == before
    assert bench.rows(operations) == []


def test_j14_an_active_job_of_its_key_is_named_and_nothing_changes(bench: Bench) -> None:
    job = dead(bench, dedupe_key="crawl:t1")
    active = bench.submit("t1", dedupe_key="crawl:t1").job_id
    before = bench.everything()
    refused = Answer("refused", f"dedupe key crawl:t1 is active as job {active}")
    assert bench.ledger.requeue(job, ANN) == refused
    found = bench.ledger.requeue_matching(JobFilter(status="failed"), ANN)
    assert (found.requeued, found.refused) == (0, [(job, refused.reason)])
    assert bench.everything() == before
    bench.settle(bench.start(bench.claim()))
    assert bench.ledger.requeue(job, ANN) == Answer("requeued")


def test_j14_an_expiry_that_is_past_is_lifted_and_one_that_is_not_stays(bench: Bench) -> None:
    past, future = dead(bench, "t1", expires_sec=60.0), dead(bench, "t2", expires_sec=6_000.0)
    bench.clock.advance(3_600)
    for job in (past, future):
        bench.ledger.requeue(job, ANN)
    assert bench.job(past)["expires_at"] is None
    assert bench.job(future)["expires_at"] == START + timedelta(seconds=6_000)
    assert len(bench.claims()) == 2


def test_j14_r2_a_site_that_moved_meanwhile_takes_its_job_into_the_present_group(bench: Bench) -> None:
    job, inner = dead(bench), dead(bench, "t1b")
    bench.change(sites, sites.c.site_code == "s1", group_key="g3")
    bench.change(jobs, jobs.c.job_id == inner, group_key="_export")
    bench.ledger.requeue(job, ANN)
    bench.ledger.requeue(inner, ANN)
    assert (bench.job(job)["group_key"], bench.job(job)["site_code"]) == ("g3", "s1")
    assert bench.job(inner)["group_key"] == "_export"
    assert bench.claim(lanes=["^g3$"]).job_id == job


def test_j14_r2_a_target_that_went_to_another_site_goes_on_there(bench: Bench) -> None:
    job = dead(bench)
    bench.change(targets, targets.c.target_code == "t1", site_code="s2")
    bench.ledger.requeue(job, ANN)
    assert (bench.job(job)["group_key"], bench.job(job)["site_code"]) == ("g2", "s2")


def test_j14_a_requeue_waits_for_the_move_of_its_site(bench: Bench) -> None:
    """R2: a group that somebody changes just now is waited for, so that no job is left in a lane that lost its site."""
    if bench.db.dialect == "sqlite":
        return  # one writer at a time
    job = dead(bench)
    with held_group(bench.db, "g1") as conn:
        answer = in_thread(lambda: bench.ledger.requeue(job, ANN))
        wait_until_blocked(bench.db)
        conn.execute(sites.update().where(sites.c.site_code == "s1").values(group_key="g3"))
    assert answer.result(10) == Answer("requeued")
    assert bench.job(job)["group_key"] == "g3"
    assert [row["group_key"] for row in bench.rows(lane_wake)] == ["g3"]


def test_j14_a_submit_that_comes_between_wins_and_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unique index of active keys decides, whatever was seen before."""
    if bench.db.dialect == "sqlite":
        return  # one writer at a time
    job = dead(bench, dedupe_key="k")
    with bench.db.write() as conn:
        active = bench.submit("t1", conn, dedupe_key="k").job_id
        answer = in_thread(lambda: bench.ledger.requeue(job, ANN))
        wait_until_blocked(bench.db)
    assert answer.result(10) == Answer("refused", f"dedupe key k is active as job {active}")
    assert bench.job(job)["status"] == "failed"


def test_j14_a_job_that_prune_deletes_in_between_is_not_told_as_requeued(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, once = dead(bench), bench.ledger._requeue_once

    def late(*what: Any) -> Any:
        with bench.db.write() as conn:
            conn.execute(jobs.delete().where(jobs.c.job_id == job))
        return once(*what)

    monkeypatch.setattr(bench.ledger, "_requeue_once", late)
    assert bench.ledger.requeue(job, ANN) == Answer("refused", "not_found")


def test_j14_of_several_dead_jobs_of_a_key_the_newest_goes_on(bench: Bench) -> None:
    old, new = dead(bench, dedupe_key="k"), dead(bench, dedupe_key="k")
    plain = dead(bench, "t2")
    found = bench.ledger.requeue_matching(JobFilter(status="failed"), ANN)
    assert (found.requeued, found.refused) == (2, [(old, f"dedupe key k is active as job {new}")])
    assert {bench.job(job)["status"] for job in (new, plain)} == {"queued"}
    assert bench.job(old)["status"] == "failed"
    assert bench.rows(operations)[0]["details"] == {"filter": {"status": "failed"}}


def test_j14_a_filter_brings_back_failed_and_cancelled_jobs_alone(bench: Bench) -> None:
    failed, other_site, done = dead(bench), dead(bench, "t2"), bench.begin("t1")
    bench.settle(done)
    cancelled = bench.submit("t1b").job_id
    bench.ledger.cancel(cancelled)
    found = bench.ledger.requeue_matching(JobFilter(site="s1"), ANN)
    assert (found.requeued, found.refused) == (2, [])
    states = {job: bench.job(job)["status"] for job in (failed, cancelled, other_site, done.claim.job_id)}
    assert list(states.values()) == ["queued", "queued", "failed", "done"]


def test_j14_cancelling_by_a_filter_ends_what_waits_and_asks_what_runs(bench: Bench) -> None:
    running = bench.begin("t1").claim.job_id
    waiting, elsewhere = bench.submit("t1b").job_id, bench.submit("t2").job_id
    bench.ledger.fold()
    found = bench.ledger.cancel_matching(JobFilter(site="s1"), ANN)
    assert (found.cancelled, found.flagged) == (1, 1)
    assert bench.job(waiting)["status"] == "cancelled"
    assert bench.job(running)["stop_requested"] is True
    assert bench.job(elsewhere)["status"] == "queued"
    assert {row["job_id"] for row in bench.rows(operations)} == {running, waiting}
    assert bench.rows(operations)[0]["details"] == {"filter": {"site": "s1"}}


def test_j14_a_filter_on_queued_jobs_stops_none_that_started_meanwhile(bench: Bench) -> None:
    bench.begin("t1")
    bench.submit("t1")
    assert vars(bench.ledger.cancel_matching(JobFilter(status="queued", site="s1"), ANN)) == {
        "cancelled": 1, "flagged": 0, "requeued": 0, "refused": []}


def test_j10_without_an_operator_nothing_is_logged_as_one(bench: Bench) -> None:
    bench.ledger.cancel(bench.submit("t1").job_id)
    assert bench.rows(operations) == []


def test_j14_portions_hold_no_lane_longer_than_their_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.ledger.operating.JOBS_AT_ONCE", 2)
    made = [bench.submit(code).job_id for code in ("t3", "t1", "t2", "t1b", "t1")]
    bench.ledger.fold()
    assert bench.ledger.cancel_matching(JobFilter(kind="crawl"), ANN).cancelled == 5
    assert {bench.group(key)["ready_at"] for key in ("g1", "g2", "g3")} == {None}
    assert bench.ledger.requeue_matching(JobFilter(kind="crawl"), ANN).requeued == 5
    assert len(bench.claims()) == 3
    assert len(made) == 5


def test_a_cooled_group_stays_cool_when_its_dead_job_comes_back(bench: Bench) -> None:
    """J14, C3: a requeue lifts no pause."""
    for _ in range(13):
        started = bench.begin("t1") if _ == 0 else bench.start(bench.claim())
        bench.settle(started, objection())
        bench.clock.advance(0 if _ == 12 else 601)
    job = started.claim.job_id
    assert bench.job(job)["status"] == "failed"
    bench.ledger.requeue(job, ANN)
    assert bench.claims() == []
    bench.clock.advance(600)
    assert bench.claim().job_id == job


@pytest.mark.slow
def test_j14_twenty_thousand_jobs_are_cancelled_and_brought_back(bench: Bench) -> None:
    """In portions, each as quick as the first; the log has a row for each job."""
    number, groups = 20_000, 1_000
    with bench.db.write() as conn:
        now = conn.execute(select(db_now())).scalar_one()
        conn.execute(insert(rate_groups), [{"key": f"many{one:04d}", "created_at": now} for one in range(groups)])
        for start in range(0, number, 10_000):
            conn.execute(insert(jobs), [
                {"job_id": f"j{one}", "kind": "export", "group_key": f"many{one % groups:04d}", "status": "queued",
                 "dedupe_key": f"k{one}", "enqueued_at": now, "queue_at": now, "updated_at": now}
                for one in range(start, start + 10_000)])
    assert bench.ledger.cancel_matching(JobFilter(kind="export"), ANN).cancelled == number
    assert bench.ledger.requeue_matching(JobFilter(kind="export"), ANN).requeued == number
    with bench.db.look() as conn:
        assert queries.counts(conn)["queued"] == number
    assert len(bench.rows(operations)) == 2 * number
