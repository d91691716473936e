"""Claiming on both databases: one job a group and a site, and only what may run now (rules R2, R3, R6, R7, R9, J4)."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import func, insert, select
from sqlalchemy.exc import IntegrityError

from models.base import FAR
from models.db import Database
from models.groups import lane_wake, rate_groups
from models.jobs import attempts, jobs
from models.ledger import no_clock
from models.sites import sites
from tests.support.ledger import SMALL, START, Bench, in_thread, objection, seed


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def test_j4_a_claim_moves_the_job_and_writes_its_history(bench: Bench) -> None:
    made = bench.submit("t1")
    bench.clock.advance(3)
    claim = bench.claim(worker="w1")
    assert claim == (made.job_id, 1, 1, "g1", "crawl", "t1")
    row, history = bench.job(made.job_id), bench.attempt(made.job_id)
    assert (row["status"], row["worker"], row["boot_id"], row["started_at"]) == ("running", "w1", "boot-w1", None)
    assert row["lease_until"] == bench.clock.now + timedelta(seconds=60)
    assert (history["claimed_at"], history["finished_at"], history["worker"]) == (bench.clock.now, None, "w1")


def test_j4_a_claimed_job_is_claimed_by_nobody_else(bench: Bench) -> None:
    bench.submit("t1")
    bench.claim()
    assert bench.claims(worker="other") == []


def test_j4_every_claim_of_a_lane_has_the_next_number(bench: Bench) -> None:
    numbers = []
    for _ in range(3):
        started = bench.begin("t1")
        numbers.append(started.claim.claim_no)
        bench.settle(started)
    assert numbers == [1, 2, 3]
    assert bench.begin("t2").claim.claim_no == 1


def test_r3_one_job_of_a_group_runs_whatever_waits_in_it(bench: Bench) -> None:
    for code in ("t1", "t1b", "t1", "t2"):
        bench.submit(code)
    assert sorted(claim.group for claim in bench.claims(10)) == ["g1", "g2"]
    assert bench.claims(10) == []


@pytest.mark.parametrize("same", ["group_key", "site_code"])
def test_r3_the_database_itself_refuses_a_second_running_row(bench: Bench, same: str) -> None:
    claim = bench.begin("t1").claim
    row = bench.job(claim.job_id)
    row |= {"seq": None, "job_id": "second", "group_key": "g2", "site_code": "s2", same: row[same]}
    row.pop("seq")
    with pytest.raises(IntegrityError), bench.db.write() as conn:
        conn.execute(insert(jobs).values(**row))


def test_r3_two_different_groups_and_sites_may_run(bench: Bench) -> None:
    row = bench.job(bench.begin("t1").claim.job_id)
    row.pop("seq")
    with bench.db.write() as conn:
        conn.execute(insert(jobs).values(**row | {"job_id": "second", "group_key": "g2", "site_code": "s2"}))


def test_r3_a_site_that_runs_in_its_old_lane_is_not_taken_in_its_new_one(bench: Bench) -> None:
    running = bench.begin("t1")
    bench.change(sites, sites.c.site_code == "s1", group_key="g2")
    made = bench.submit("t1")
    assert made.group == "g2"
    assert bench.claims() == []
    bench.settle(running)
    bench.clock.advance(2)
    assert bench.claim().job_id == made.job_id


def test_r2_a_group_takes_nothing_while_a_job_of_one_of_its_sites_runs_elsewhere(bench: Bench) -> None:
    running = bench.begin("t1")
    bench.change(sites, sites.c.site_code == "s1", group_key="g2")
    other = bench.submit("t2")
    assert bench.claims() == []
    bench.settle(running)
    bench.clock.advance(2)
    assert bench.claim().job_id == other.job_id


def test_r2_a_running_job_whose_site_moved_goes_on_in_the_new_lane(bench: Bench) -> None:
    running = bench.begin("t1")
    bench.change(sites, sites.c.site_code == "s1", group_key="g2")
    bench.settle(running, ValueError("again"), response_age_sec=0.0, response_interval_sec=40.0)
    assert bench.job(running.claim.job_id)["group_key"] == "g2"
    assert bench.group("g2")["next_request_at"] == bench.group("g1")["next_request_at"] == START + timedelta(seconds=40)
    bench.clock.advance(40)
    assert bench.claim().job_id == running.claim.job_id
    assert bench.reaper.sweep() == 0


def test_r2_a_cooldown_of_a_site_that_moved_pauses_both_groups(bench: Bench) -> None:
    running = bench.begin("t1")
    bench.change(sites, sites.c.site_code == "s1", group_key="g2")
    bench.settle(running, objection())
    assert bench.group("g1")["pause_until"] == bench.group("g2")["pause_until"] == START + timedelta(seconds=600)
    assert bench.claims() == []
    bench.clock.advance(600)
    assert bench.claim().job_id == running.claim.job_id


def test_r2_a_job_left_in_the_old_lane_by_an_overlapping_submit_is_moved_by_the_sweep(bench: Bench) -> None:
    made = bench.submit("t1")
    bench.change(sites, sites.c.site_code == "s1", group_key="g2")
    assert bench.claims() == []
    bench.reaper.sweep()
    assert bench.job(made.job_id)["group_key"] == "g2"
    assert bench.claim().group == "g2"


@pytest.mark.parametrize("gate", ["pause_until", "operator_pause_until", "next_request_at"])
def test_r6_a_group_that_waits_is_not_claimed_before_its_moment(bench: Bench, gate: str) -> None:
    bench.submit("t1")
    moment = START + timedelta(seconds=90)
    bench.change(rate_groups, rate_groups.c.key == "g1", **{gate: moment})
    assert bench.claims() == []
    assert bench.group()["ready_at"] == moment
    assert bench.ledger.next_ready(None) == pytest.approx(90)
    bench.clock.advance(89.999)
    assert bench.claims() == []
    bench.clock.advance(0.001)
    assert bench.claim().group == "g1"


def test_r9_an_endless_pause_makes_a_group_ready_never(bench: Bench) -> None:
    bench.submit("t1")
    bench.change(rate_groups, rate_groups.c.key == "g1", operator_pause_until=FAR)
    assert bench.claims() == []
    bench.clock.advance(366 * 86_400)
    assert bench.claims() == []
    assert bench.reaper.sweep() == 0


def test_r7_a_worker_with_lanes_serves_just_those(bench: Bench) -> None:
    for code in ("t1", "t2", "t3"):
        bench.submit(code)
    assert bench.claims(lanes=[]) == []
    assert [claim.group for claim in bench.claims(lanes=["^g2$"])] == ["g2"]
    assert bench.ledger.next_ready(["^g2$"]) is None
    assert bench.ledger.next_ready(["^g[13]$"]) is not None
    assert sorted(claim.group for claim in bench.claims(lanes=["^g[13]$"])) == ["g1", "g3"]


def test_a_wake_without_a_job_makes_nobody_sleep_or_spin(bench: Bench) -> None:
    with bench.db.write() as conn:
        conn.execute(insert(lane_wake).values(group_key="g1", at=START))
    assert bench.claims() == []
    assert bench.group()["ready_at"] is None
    assert bench.ledger.next_ready(None) is None


def test_j1_a_million_wakes_are_folded_in_pieces(bench: Bench) -> None:
    with bench.db.write() as conn:
        conn.execute(insert(lane_wake), [{"group_key": f"g{n % 3 + 1}", "at": START} for n in range(1_500)])
    assert bench.ledger.fold() == 3
    assert len(bench.rows(lane_wake)) == 500
    assert bench.ledger.fold() == 3
    assert bench.ledger.fold() == 0


def test_j4_many_claiming_at_once_never_get_the_same_job(database: Database) -> None:
    lanes, each = 6, 5
    seed(database, {f"g{n}": {f"s{n}": [f"t{n}"]} for n in range(lanes)})
    bench = Bench(database, clock=no_clock)
    with database.write() as conn:
        for n in range(lanes):
            for _ in range(each):
                bench.submit(f"t{n}", conn=conn)
    bench.ledger.fold()
    done: list[tuple[str, int]] = []

    def work(name: str) -> None:
        def left() -> int:
            with database.read() as conn:
                return int(conn.execute(select(func.count()).where(jobs.c.status == "queued")).scalar_one())

        while left():
            for claim in bench.claims(2, worker=name):
                started = bench.start(claim)
                done.append(claim[:2])
                bench.settle(started)

    workers = [in_thread(lambda name=name: work(f"w{name}")) for name in range(6)]
    for worker in workers:
        worker.result(timeout=60)
    assert len(done) == len(set(done)) == lanes * each
    assert {attempt for _, attempt in done} == {1}
    assert {row["status"] for row in bench.rows(jobs)} == {"done"}
    assert overlaps(bench.rows(attempts)) == []


def overlaps(rows: list[dict[str, Any]]) -> list[Any]:
    """Return attempts of one group of which the later was claimed before the earlier had ended."""
    ordered = sorted(rows, key=lambda row: (row["group_key"], row["claimed_at"], row["finished_at"]))
    return [(one, two) for one, two in pairwise(ordered)
            if one["group_key"] == two["group_key"] and two["claimed_at"] < one["finished_at"]]
