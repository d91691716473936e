"""The order of jobs in a lane and of lanes among each other, on both databases (rules R4, R5)."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from config.errors import Parked
from models.db import Database
from models.groups import rate_groups
from tests.support.ledger import SMALL, START, Bench, objection, seed


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def order_of(bench: Bench) -> list[str]:
    """Run everything that is due in the lane g1, one after the other, and return the ids in that order."""
    found = []
    while claims := bench.claims(1, lanes=["^g1$"]):
        started = bench.start(claims[0])
        bench.settle(started)
        found.append(started.claim.job_id)
    return found


def test_r4_smaller_priorities_come_first_then_those_that_were_submitted_first(bench: Bench) -> None:
    ids = [bench.submit("t1", priority=priority).job_id for priority in (100, 50, 100, -5)]
    bench.clock.advance(1)
    late = bench.submit("t1b", priority=50).job_id
    assert order_of(bench) == [ids[3], ids[1], late, ids[0], ids[2]]


def test_r4_of_the_same_moment_the_order_of_submitting_counts(bench: Bench) -> None:
    ids = [bench.submit("t1").job_id for _ in range(5)]
    assert order_of(bench) == ids


def test_r4_a_job_that_is_not_due_does_not_hold_up_a_due_one(bench: Bench) -> None:
    later = bench.submit("t1", priority=1, delay_sec=60.0).job_id
    due = bench.submit("t1").job_id
    assert order_of(bench) == [due]
    bench.clock.advance(59.9)
    assert bench.claims() == []
    bench.clock.advance(0.2)
    assert order_of(bench) == [later]


@pytest.mark.parametrize("error", [ValueError("x"), objection()])
def test_r4_a_failure_and_a_cooldown_go_to_the_back(bench: Bench, error: BaseException) -> None:
    first = bench.begin("t1")
    others = [bench.submit("t1").job_id for _ in range(2)]
    bench.clock.advance(5)
    bench.settle(first, error)
    bench.clock.advance(700)
    assert order_of(bench) == [*others, first.claim.job_id]


@pytest.mark.parametrize("reason", ["paused", "parked", "soft_stop", "quiet_window"])
def test_r4_a_park_keeps_its_place(bench: Bench, reason: str) -> None:
    first = bench.begin("t1")
    other = bench.submit("t1").job_id
    bench.clock.advance(5)
    bench.settle(first, Parked(reason, 30.0))
    assert bench.job(first.claim.job_id)["queue_at"] == START
    bench.clock.advance(30)
    assert order_of(bench) == [first.claim.job_id, other]


def test_r4_a_crash_keeps_its_place(bench: Bench) -> None:
    first = bench.begin("t1")
    other = bench.submit("t1").job_id
    bench.clock.advance(61)
    bench.reaper.reap()
    bench.clock.advance(60)
    assert order_of(bench) == [first.claim.job_id, other]


def test_r5_the_group_that_has_been_ready_longest_comes_first(bench: Bench) -> None:
    for code in ("t3", "t1", "t2", "t3"):
        bench.submit(code)
        bench.clock.advance(1)
    order = []
    for _ in range(4):
        started = bench.start(bench.claim())
        order.append(started.claim.group)
        bench.settle(started)
        bench.clock.advance(1)
    assert order == ["g3", "g1", "g2", "g3"]


def test_r5_a_lane_goes_on_at_once_only_if_no_other_group_is_ready(bench: Bench) -> None:
    first = bench.begin("t1")
    bench.clock.advance(1)
    bench.submit("t1")
    bench.clock.advance(1)
    bench.submit("t2")
    bench.clock.advance(1)
    bench.settle(first)
    assert bench.claim().group == "g2", "the lane that has just had its turn had waited for nothing"
    assert bench.claim().group == "g1"


def test_r5_a_group_that_stays_ready_keeps_its_age(bench: Bench) -> None:
    bench.submit("t1")
    other = bench.submit("t1")
    bench.ledger.fold()
    bench.clock.advance(1)
    bench.submit("t2")
    bench.ledger.fold()
    bench.clock.advance(1)
    bench.ledger.cancel(other.job_id)
    bench.submit("t1")
    bench.ledger.fold()
    assert bench.group()["ready_at"] == START
    assert bench.claim().group == "g1"


def test_r5_wakes_that_were_folded_while_a_job_ran_make_its_lane_no_older(bench: Bench) -> None:
    first = bench.begin("t1")
    bench.clock.advance(1)
    bench.submit("t1")
    bench.ledger.fold()
    bench.clock.advance(1)
    bench.submit("t2")
    bench.clock.advance(1)
    bench.settle(first)
    assert bench.claim().group == "g2"


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_r5_no_lane_gets_more_than_one_turn_ahead_of_another(database: Database, slots: int) -> None:
    seed(database, {f"g{n}": {f"s{n}": [f"t{n}"]} for n in range(5)})
    bench = Bench(database)
    with database.write() as conn:
        for n in range(5):
            for _ in range(6):
                bench.submit(f"t{n}", conn=conn)
    turns: Counter[str] = Counter({f"g{n}": 0 for n in range(5)})
    while claims := bench.claims(slots):
        turns.update(claim.group for claim in claims)
        assert max(turns.values()) - min(turns.values()) <= 1, turns
        for claim in claims:
            bench.clock.advance(0.5)
            bench.settle(bench.start(claim))
    assert set(turns.values()) == {6}


@pytest.mark.parametrize("turns_before", [0, 250])
def test_r5_a_lane_with_a_thousand_jobs_delays_a_lane_with_one_by_at_most_one_job(
    database: Database, turns_before: int
) -> None:
    """One slot, and the single job comes while a job of the long lane runs: it is the next one."""
    seed(database, SMALL)
    bench = Bench(database)
    with database.write() as conn:
        for _ in range(1000):
            bench.submit("t1", conn=conn)
    for _ in range(turns_before):
        bench.settle(bench.start(bench.claim()))
        bench.clock.advance(0.01)
    running = bench.start(bench.claim())
    assert running.claim.group == "g1"
    single = bench.submit("t2").job_id
    bench.clock.advance(0.01)
    bench.settle(running)
    assert bench.claim().job_id == single


def test_r4_a_head_that_backs_off_delays_nobody_behind_it(bench: Bench) -> None:
    """Neither in its own lane nor in another one: five failures that wait, and what is behind them runs at once."""
    waiting = []
    for _ in range(5):
        failed = bench.begin("t1", priority=1)
        bench.settle(failed, ValueError("x"))
        waiting.append(failed.claim.job_id)
    behind, elsewhere = bench.submit("t1").job_id, bench.submit("t2").job_id
    assert {claim.job_id for claim in bench.claims()} == {behind, elsewhere}
    assert {bench.job(job_id)["status"] for job_id in waiting} == {"queued"}


def test_r5_a_group_that_waits_behind_its_pause_is_as_old_as_the_end_of_the_pause(bench: Bench) -> None:
    bench.change(rate_groups, rate_groups.c.key == "g1", pause_until=START + timedelta(seconds=10))
    bench.submit("t1")
    assert bench.claims() == []
    bench.clock.advance(5)
    bench.submit("t2")
    bench.ledger.fold()
    bench.clock.advance(10)
    assert [claim.group for claim in bench.claims(1) + bench.claims(1)] == ["g2", "g1"]
