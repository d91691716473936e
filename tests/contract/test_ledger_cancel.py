"""Cancelling on both databases: at once, as a request, or refused with the reason (rule J10)."""

from __future__ import annotations

import pytest

from config.errors import Cancelled, PermanentJobError
from models.claim import Commit
from models.db import Database
from models.ledger import Answer
from tests.support.ledger import SMALL, START, Bench, seed


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def test_a_queued_job_is_cancelled_at_once(bench: Bench) -> None:
    made = bench.submit("t1")
    assert bench.ledger.cancel(made.job_id) == Answer("cancelled")
    row = bench.job(made.job_id)
    assert (row["status"], row["finished_at"], row["error_msg"]) == ("cancelled", START, "cancelled")
    assert bench.claims() == []


def test_cancelling_the_head_leaves_the_lane_to_the_next(bench: Bench) -> None:
    head, other = bench.submit("t1"), bench.submit("t1", delay_sec=60.0)
    bench.ledger.fold()
    bench.ledger.cancel(head.job_id)
    assert bench.group()["ready_at"] == bench.job(other.job_id)["run_after"]
    assert bench.claims() == []
    bench.clock.advance(60)
    assert bench.claim().job_id == other.job_id


def test_cancelling_the_last_job_makes_the_lane_idle(bench: Bench) -> None:
    made = bench.submit("t1")
    bench.ledger.fold()
    bench.ledger.cancel(made.job_id)
    assert bench.group()["ready_at"] is None


def test_a_running_job_is_asked_to_stop_and_asked_again_it_answers_the_same(bench: Bench) -> None:
    started = bench.begin("t1")
    job, number = started.claim[:2]
    assert bench.ledger.pulse(job, number).stop_requested is False
    assert bench.ledger.cancel(job) == bench.ledger.cancel(job) == Answer("flagged")
    assert bench.job(job)["status"] == "running"
    assert bench.ledger.pulse(job, number).stop_requested is True


def test_a_body_that_noticed_ends_cancelled_with_its_checkpoint(bench: Bench) -> None:
    started = bench.begin("t1")
    job, number = started.claim[:2]
    bench.ledger.commit(job, number, "g1", Commit(last_completed_page=6, checkpoint={"at": "6"}))
    bench.ledger.cancel(job)
    assert bench.settle(started, Cancelled(), page=6).status == "cancelled"
    row = bench.job(job)
    assert (row["last_completed_page"], row["checkpoint"], row["error_msg"]) == (6, {"at": "6"}, "cancelled")


def test_a_claim_that_has_not_started_is_asked_to_stop_too(bench: Bench) -> None:
    bench.submit("t1")
    claim = bench.claim()
    assert bench.ledger.cancel(claim.job_id) == Answer("flagged")


@pytest.mark.parametrize(("error", "status"), [(None, "done"), (PermanentJobError("x"), "failed")])
def test_a_finished_job_cannot_be_cancelled(bench: Bench, error: BaseException | None, status: str) -> None:
    started = bench.begin("t1")
    bench.settle(started, error)
    before = bench.everything()
    assert bench.ledger.cancel(started.claim.job_id) == Answer("refused", f"cannot cancel status={status}")
    assert bench.everything() == before


def test_an_unknown_job_is_not_found(bench: Bench) -> None:
    assert bench.ledger.cancel("nowhere") == Answer("refused", "not_found")


def test_a_cancelled_job_that_is_cancelled_again_stays_as_it_is(bench: Bench) -> None:
    made = bench.submit("t1")
    bench.ledger.cancel(made.job_id)
    before = bench.everything()
    bench.clock.advance(5)
    bench.ledger.cancel(made.job_id)
    assert bench.everything() == before


def test_a_stop_request_does_not_outlive_its_attempt(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.ledger.cancel(started.claim.job_id)
    bench.settle(started, ValueError("x"))
    assert bench.job(started.claim.job_id)["stop_requested"] is False


def test_j10_asking_a_running_job_twice_answers_the_same(bench: Bench) -> None:
    running = bench.begin("t2").claim.job_id
    assert [bench.ledger.cancel(running).verdict for _ in range(2)] == ["flagged", "flagged"]


def test_a_stop_of_one_worker_does_not_park_the_next_attempt(bench: Bench) -> None:
    claim = bench.claim() if bench.submit("t1") else None
    assert claim is not None
    bench.ledger.park([claim.job_id], "boot-w")
    bench.ledger.hand_back(claim.job_id, claim.attempt, "g1")
    again = bench.claim()
    assert bench.ledger.pulse(again.job_id, again.attempt).park_requested is False
