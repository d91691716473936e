"""Taking attempts from the dead on both databases, and repairing what should never need it (rules J8, C2, P5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete

from models.claim import Commit
from models.db import Database
from models.groups import lane_wake, rate_groups
from models.jobs import jobs
from models.reaper import Reaped
from models.sites import targets
from tests.support.ledger import SMALL, START, Bench, seed

SEEN = {"kind": "rate", "status": 429, "url": "http://s1.example.org/x", "retry_after_sec": 900.0, "signs": ["429"]}
LEASE = START + timedelta(seconds=60)


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def test_a_running_attempt_is_not_reaped_before_its_lease_is_over(bench: Bench) -> None:
    bench.begin("t1")
    bench.clock.advance(60)
    assert bench.reaper.reap() == []


def test_a_lost_attempt_goes_back_to_its_place_with_its_checkpoint(bench: Bench) -> None:
    started = bench.begin("t1")
    other = bench.submit("t1b").job_id
    bench.ledger.commit(*started.claim[:2], "g1", Commit(progress={"n": 1}, last_completed_page=2, checkpoint={"x": 1}))
    bench.clock.advance(100)
    assert bench.reaper.reap() == [Reaped(started.claim.job_id, 1, "g1", "lost")]
    row, history = bench.job(started.claim.job_id), bench.attempt(started.claim.job_id)
    expected = {"status": "queued", "recoveries": 1, "failures": 0, "started_at": None, "queue_at": START,
                "progress": {"n": 1}, "last_completed_page": 2, "checkpoint": {"x": 1}, "run_after": None,
                "error_msg": "restart_during_run (recovery attempt 1/3)"}
    assert {name: row[name] for name in expected} == expected
    assert (history["finished_at"], history["outcome"], history["started_at"]) == (LEASE, "lost", START)
    assert bench.group()["next_request_at"] == LEASE + timedelta(seconds=10)
    assert bench.count("leases_lost") == 1
    assert bench.claim().job_id == started.claim.job_id
    assert bench.job(other)["status"] == "queued"


def test_the_next_request_comes_no_earlier_than_the_leases_end_plus_the_interval_in_force(bench: Bench) -> None:
    bench.change(targets, targets.c.target_code == "t1", grown_interval_sec=300.0)
    bench.begin("t1")
    bench.clock.advance(61)
    bench.reaper.reap()
    assert bench.group()["next_request_at"] == bench.group()["ready_at"] == LEASE + timedelta(seconds=300)
    bench.clock.now = LEASE + timedelta(seconds=299)
    assert bench.claims() == []
    bench.clock.advance(1)
    assert bench.claim().attempt == 2


def test_a_crawl_delay_counts_as_an_interval(bench: Bench) -> None:
    bench.change(rate_groups, rate_groups.c.key == "g1", crawl_delay_sec=45.0)
    bench.begin("t1")
    bench.clock.advance(61)
    bench.reaper.reap()
    assert bench.group()["next_request_at"] == LEASE + timedelta(seconds=45)


def test_the_third_lost_worker_without_a_new_page_abandons_the_job(bench: Bench) -> None:
    started = bench.begin("t1")
    for _ in range(2):
        bench.clock.advance(80)
        bench.reaper.reap()
        bench.start(bench.claim())
    bench.clock.advance(80)
    assert [each.verdict for each in bench.reaper.reap()] == ["abandoned"]
    row = bench.job(started.claim.job_id)
    assert (row["status"], row["recoveries"]) == ("failed", 3)
    assert row["error_msg"].endswith(" | abandoned after 3 restart recoveries")
    assert row["result"]["error_type"] == "WorkerLost"


def test_a_new_page_starts_the_recoveries_again(bench: Bench) -> None:
    started = bench.begin("t1")
    for page in range(1, 6):
        bench.ledger.commit(started.claim.job_id, page, "g1", Commit(last_completed_page=page))
        bench.clock.advance(80)
        assert [each.verdict for each in bench.reaper.reap()] == ["lost"]
        bench.start(bench.claim())
    row = bench.job(started.claim.job_id)
    assert (row["recoveries"], row["recoveries_row"]) == (5, 1)


def test_a_lost_job_with_a_stop_request_is_cancelled(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.ledger.cancel(started.claim.job_id)
    bench.clock.advance(61)
    assert [each.verdict for each in bench.reaper.reap()] == ["cancelled"]
    row = bench.job(started.claim.job_id)
    assert (row["status"], row["recoveries"], row["error_msg"]) == ("cancelled", 0, "cancelled")


def test_c2_a_lost_attempt_that_had_seen_a_block_is_cooled_down_and_not_crashed(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.ledger.commit(*started.claim[:2], "g1", Commit(cooldown_seen=SEEN, last_completed_page=1))
    bench.clock.advance(61)
    assert [each.verdict for each in bench.reaper.reap()] == ["cooldown"]
    row, group = bench.job(started.claim.job_id), bench.group()
    assert (row["status"], row["recoveries"], row["cooldown_retries"], row["cooldown_seen"]) == ("queued", 0, 1, None)
    assert row["error_msg"] == "cooldown_abort; auto_retry 1/12"
    assert group["pause_until"] == bench.clock.now + timedelta(seconds=900)
    assert bench.attempt(started.claim.job_id)["evidence"]["signs"] == ["429"]


def test_c2_a_stop_request_cancels_such_a_job_and_the_group_pauses_all_the_same(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.ledger.commit(*started.claim[:2], "g1", Commit(cooldown_seen=SEEN))
    bench.ledger.cancel(started.claim.job_id)
    bench.clock.advance(61)
    bench.reaper.reap()
    assert bench.job(started.claim.job_id)["status"] == "cancelled"
    assert bench.group()["pause_until"] == bench.clock.now + timedelta(seconds=900)


def test_c2_what_one_attempt_saw_is_not_held_against_the_next(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.ledger.commit(*started.claim[:2], "g1", Commit(cooldown_seen=SEEN))
    bench.settle(started, ValueError("x"))
    bench.clock.advance(10)
    bench.start(bench.claim())
    bench.clock.advance(61)
    assert [each.verdict for each in bench.reaper.reap()] == ["lost"]


def test_a_lease_renewed_after_the_reaper_looked_is_not_taken(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.clock.advance(61)
    end = bench.reaper._end

    def late(job_id: str, attempt: int, group: str, *, proved: bool) -> Any:
        bench.ledger.renew([(job_id, attempt)])
        return end(job_id, attempt, group, proved=proved)

    bench.reaper._end = late  # type: ignore[method-assign]
    assert bench.reaper.reap() == []
    assert bench.job(started.claim.job_id)["status"] == "running"


def test_a_lease_renewed_after_the_reaper_decided_is_not_taken(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = bench.begin("t1")
    bench.clock.advance(61)
    settle = bench.ledger.settle

    def late(*args: Any, **kwargs: Any) -> Any:
        bench.ledger.renew([started.claim[:2]])
        return settle(*args, **kwargs)

    monkeypatch.setattr(bench.ledger, "settle", late)
    assert bench.reaper.reap() == []
    assert bench.job(started.claim.job_id)["status"] == "running"
    assert bench.count("leases_lost") == 0


def test_j18_a_body_that_settled_after_the_reaper_decided_keeps_its_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = bench.begin("t1")
    bench.clock.advance(61)
    settle = bench.ledger.settle

    def late(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(bench.ledger, "settle", settle)
        bench.settle(started, result={"finished": "after all"})
        return settle(*args, **kwargs)

    monkeypatch.setattr(bench.ledger, "settle", late)
    assert bench.reaper.reap() == []
    assert bench.job(started.claim.job_id)["result"] == {"finished": "after all"}


def test_a_proved_death_waits_one_interval_from_now(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.clock.advance(5)
    assert bench.reaper.recover(*started.claim[:2], "g1") == Reaped(started.claim.job_id, 1, "g1", "lost")
    assert bench.attempt(started.claim.job_id)["finished_at"] == bench.clock.now
    assert bench.group()["next_request_at"] == bench.clock.now + timedelta(seconds=10)
    assert bench.count("workers_lost") == 1


def test_a_proved_death_is_recovered_once(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.reaper.recover(*started.claim[:2], "g1")
    before = bench.everything()
    assert bench.reaper.recover(*started.claim[:2], "g1") is None
    assert bench.everything() == before


def test_a_dead_workers_claims_go_back_and_its_attempts_are_recovered(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.submit("t2")
    claim = bench.claim()
    bench.submit("t3")
    alive = bench.claim(worker="other")
    found = {(each.job_id, each.verdict) for each in bench.reaper.recover_dead(["boot-w"])}
    assert found == {(started.claim.job_id, "lost"), (claim.job_id, "handed_back")}
    assert bench.job(claim.job_id)["recoveries"] == 0
    assert bench.job(alive.job_id)["status"] == "running"
    assert bench.reaper.recover_dead([]) == []


def test_a_claim_that_never_started_goes_back_when_its_lease_is_over_and_spends_nothing(bench: Bench) -> None:
    bench.submit("t1")
    claim = bench.claim()
    bench.clock.advance(61)
    assert bench.reaper.reap() == [Reaped(claim.job_id, 1, "g1", "handed_back")]
    row = bench.job(claim.job_id)
    assert (row["status"], row["recoveries"], row["error_msg"]) == ("queued", 0, "")
    assert bench.claim().attempt == 2


def test_several_reapers_take_an_attempt_once(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.clock.advance(61)
    other = Bench(bench.db, bench.settings, bench.clock)
    assert len(bench.reaper.reap()) + len(other.reaper.reap()) == 1
    assert bench.job(started.claim.job_id)["recoveries"] == 1


def test_a_sweep_finds_nothing_in_lanes_that_are_as_they_should_be(bench: Bench) -> None:
    bench.begin("t1")
    bench.submit("t1")
    bench.submit("t2", delay_sec=60.0)
    bench.change(rate_groups, rate_groups.c.key == "g3", pause_until=START + timedelta(hours=1))
    bench.submit("t3")
    assert bench.reaper.sweep() == 0
    bench.claims()
    assert bench.reaper.sweep() == 0
    bench.clock.advance(30)
    assert bench.reaper.sweep() == 0
    assert bench.count("repairs") == 0


@pytest.mark.parametrize("ready_at", [None, START + timedelta(hours=1)])
def test_a_sweep_wakes_a_lane_that_sleeps_on_due_work_and_counts_it(bench: Bench, ready_at: Any) -> None:
    made = bench.submit("t1")
    with bench.db.write() as conn:
        conn.execute(delete(lane_wake))
    bench.change(rate_groups, rate_groups.c.key == "g1", ready_at=ready_at)
    assert bench.claims() == []
    assert bench.reaper.sweep() == 1
    assert bench.count("repairs") == 1
    assert bench.claim().job_id == made.job_id


def test_a_sweep_folds_what_nobody_has_folded(bench: Bench) -> None:
    made = bench.submit("t1")
    assert bench.reaper.sweep() == 0
    assert bench.ledger.claim(1, "w", "b").claims[0].job_id == made.job_id


def test_reaping_goes_on_from_the_oldest(bench: Bench) -> None:
    old = bench.begin("t1").claim.job_id
    bench.clock.advance(10)
    bench.begin("t2")
    bench.clock.advance(55)
    assert [each.job_id for each in bench.reaper.reap()] == [old]
    assert {row["status"] for row in bench.rows(jobs)} == {"queued", "running"}


def test_one_round_reaps_every_lost_attempt_however_many(bench: Bench) -> None:
    seed(bench.db, {f"many{n}": {f"many{n}": [f"many{n}"]} for n in range(120)})
    for number in range(120):
        bench.submit(f"many{number}")
    bench.ledger.fold()
    for claim in bench.ledger.claim(200, "w", "b").claims:
        bench.start(claim)
    bench.clock.advance(61)
    assert len(bench.reaper.reap()) == 120


def test_r8_after_a_lost_attempt_the_next_targets_own_interval_counts_from_its_recorded_end(bench: Bench) -> None:
    bench.begin("t1")
    bench.clock.advance(61)
    bench.reaper.reap()
    assert bench.group()["last_response_at"] == START + timedelta(seconds=60)
    bench.clock.advance(30)
    assert bench.start(bench.claim()).since_response_sec == pytest.approx(31.0)
