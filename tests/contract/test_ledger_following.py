"""A body that follows has begun: the end of one job takes the next and writes that it begins, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from config.errors import StaleClaim
from models.claim import Commit, Started, Taker
from models.db import Database
from models.operations import Operator
from models.pacing import OperatorPacing
from tests.support.ledger import SMALL, Bench, objection, seed

TAKER = Taker("w", "boot-w", 60.0, busy_sec=50.0)
OPTIONS = {"depth": 2, "name": "北"}


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def follow(bench: Bench, target: str = "t1b", **job: object) -> Started:
    """End a job of `t1` two seconds after its start, and return what has begun with that end: a job of `target`."""
    started = bench.begin("t1")
    made = bench.submit(target, **job).job_id
    bench.ledger.fold()
    bench.clock.advance(2)
    settled = bench.settle(started, take=TAKER)
    assert settled.following is not None
    assert settled.begun is not None
    assert settled.begun.claim == settled.following
    assert settled.following.job_id == made
    return settled.begun


def test_a_body_that_follows_has_begun_at_the_moment_of_its_claim(bench: Bench) -> None:
    begun = follow(bench)
    row = bench.job(begun.claim.job_id)
    assert (row["status"], row["attempt"], row["boot_id"], row["claimed_at"], row["started_at"], row["updated_at"]) == (
        "running", 1, "boot-w", *[bench.clock.now] * 3)
    assert row["lease_until"] == bench.clock.now + timedelta(seconds=60)
    assert row["busy_until"] == bench.clock.now + timedelta(seconds=50)
    (found,) = bench.ledger.running_of("boot-w")
    assert (found.started, found.followed) == (True, True)
    assert bench.ledger.renew([begun.claim[:2]])[0][-1] is True


def test_it_knows_what_its_own_start_would_have_told_it(bench: Bench) -> None:
    """Everything but the claim: a job of the same kind in another lane starts by itself."""
    job = {"options": OPTIONS, "force": True, "resume_from_page": 3, "deadline_sec": 9.5, "max_attempts": 5}
    alone = bench.begin("t2", **job)
    begun = follow(bench, "t3", **job)
    assert replace(begun, claim=alone.claim, site_code="s2", tally=alone.tally) == alone
    assert replace(begun.tally, job_id=alone.claim.job_id) == alone.tally
    assert begun.options == OPTIONS
    assert begun.site_code == "s3"


def test_it_goes_on_from_its_checkpoint_and_knows_its_lanes_pace(bench: Bench) -> None:
    first = bench.begin("t3")
    commit = Commit(progress={"page": 4}, last_completed_page=4, checkpoint={"x": "é"}, response_age_sec=0.0,
                    response_interval_sec=1.5, crawl_delay_sec=0.5, usual_latency_sec=0.25)
    bench.ledger.commit(*first.claim[:2], first.claim.group, commit)
    bench.settle(first, ValueError("once"), page=4)
    started = bench.begin("t1")
    bench.clock.advance(20)
    bench.reaper.sweep()
    bench.ledger.fold()
    begun = bench.settle(started, take=TAKER).begun
    assert begun is not None
    assert begun.claim[:2] == (first.claim.job_id, 2)
    assert (begun.last_completed_page, begun.checkpoint, begun.progress) == (4, {"x": "é"}, {"page": 4})
    assert (begun.tally.failures, begun.tally.error_msg) == (1, "ValueError: once")
    assert (begun.since_response_sec, begun.wait_sec, begun.last_interval_sec) == (20.0, 0.0, 1.5)
    assert (begun.crawl_delay_sec, begun.usual_latency_sec) == (0.5, 0.25)


def test_j7_nobody_else_starts_it(bench: Bench) -> None:
    """A second delivery of its message finds it started, as it would behind a body's own write."""
    begun = follow(bench)
    with pytest.raises(StaleClaim):
        bench.start(begun.claim)


def test_j8_a_worker_that_dies_before_its_first_line_has_lost_an_attempt(bench: Bench) -> None:
    begun = follow(bench)
    assert not bench.ledger.hand_back(*begun.claim[:2], begun.claim.group), "nobody else can tell that it has not run"
    bench.clock.advance(61)
    (reaped,) = bench.reaper.reap()
    assert (reaped.job_id, reaped.verdict) == (begun.claim.job_id, "lost")
    row = bench.job(begun.claim.job_id)
    assert (row["status"], row["recoveries"], row["failures"], row["started_at"]) == ("queued", 1, 0, None)
    assert bench.attempt(begun.claim.job_id)["outcome"] == "lost"


def test_j8_its_own_process_hands_it_back_and_nothing_is_spent(bench: Bench) -> None:
    begun = follow(bench)
    job, number, *_ = begun.claim
    assert bench.ledger.hand_back(job, number, "g1", begun=True)
    row = bench.job(job)
    assert (row["status"], row["recoveries"], row["started_at"], row["busy_until"], row["wait_reason"]) == (
        "queued", 0, None, None, "handed_back")
    assert (bench.attempt(job)["outcome"], bench.attempt(job)["started_at"]) == ("handed_back", None)
    assert not bench.ledger.hand_back(job, number, "g1", begun=True)
    assert bench.claim().job_id == job


def test_j8_a_body_that_wrote_its_start_itself_is_never_handed_back(bench: Bench) -> None:
    bench.submit("t1")
    claim = bench.claim()
    bench.clock.advance(1)
    bench.start(claim)
    before = bench.everything()
    assert not bench.ledger.hand_back(*claim[:2], claim.group, begun=True)
    assert bench.everything() == before


def test_c6_a_retry_after_a_cooldown_stays_one_when_it_is_handed_back(bench: Bench) -> None:
    cooled = bench.begin("t3")
    bench.settle(cooled, objection())
    started = bench.begin("t1")
    bench.clock.advance(700)
    bench.ledger.fold()
    begun = bench.settle(started, take=TAKER).begun
    assert begun is not None
    job, number, *_ = begun.claim
    assert (job, number) == (cooled.claim.job_id, 2)
    assert bench.attempt(job, 2)["source"] == "retry"
    bench.ledger.hand_back(job, number, "g3", begun=True)
    assert bench.job(job)["wait_reason"] == "cooldown"
    bench.claim(lanes=["^g3$"])
    assert bench.attempt(job, 3)["source"] == "retry"


def test_j10_a_stop_request_that_came_in_between_is_seen_or_ends_what_is_handed_back(bench: Bench) -> None:
    begun = follow(bench)
    job, number, *_ = begun.claim
    assert bench.ledger.cancel(job).verdict == "flagged"
    assert bench.ledger.pulse(job, number).stop_requested
    bench.ledger.hand_back(job, number, "g1", begun=True)
    assert (bench.job(job)["status"], bench.attempt(job)["outcome"]) == ("cancelled", "cancelled")


def test_r9_a_pause_that_came_in_between_is_seen_before_the_first_request(bench: Bench) -> None:
    begun = follow(bench)
    OperatorPacing(bench.db, bench.clock).pause("g1", Operator("ann", "cli", "they asked"), for_sec=900.0)
    pulse = bench.ledger.pulse(*begun.claim[:2])
    assert (pulse.paused_sec, pulse.pause_reason) == (900, "they asked")


def test_its_history_begins_where_its_predecessors_ends(bench: Bench) -> None:
    begun = follow(bench)
    bench.clock.advance(3)
    bench.settle(begun)
    history = bench.attempt(begun.claim.job_id)
    assert history["claimed_at"] == history["started_at"] == bench.clock.now - timedelta(seconds=3)
    assert (history["finished_at"], history["outcome"]) == (bench.clock.now, "done")
