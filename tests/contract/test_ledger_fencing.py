"""Writes of attempts that are no longer current are refused and change nothing, on both databases (rule J7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from config import clock
from config.errors import Parked, PermanentJobError, StaleClaim
from models.attempt import Attempt
from models.claim import Claim, Commit, Started, Taker
from models.db import Database
from models.ledger import no_clock
from models.queries.reading import db_moment
from models.requests import requests
from tests.support.ledger import SMALL, START, Bench, objection, seed

GROWING = {"gd": {"gd_site": ["gd_news", "gd_other"]}, "hn": {"hn_site": ["hn_news"]}}


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def commit(bench: Bench, old: Started, **what: Any) -> None:
    bench.ledger.commit(*old.claim[:2], old.claim.group, Commit(**what))


def claim_again(bench: Bench, old: Started) -> Claim:
    found = bench.claim(worker="other", lanes=[f"^{old.claim.group}$"])
    assert found[:2] == (old.claim.job_id, 2)
    return found


TAKER = Taker("w", "boot-w", 60.0)


def test_r5_a_lane_goes_on_at_once_with_its_next_job_if_no_other_group_is_ready(bench: Bench) -> None:
    started = bench.begin("t1")
    following = bench.submit("t1b").job_id
    bench.ledger.fold()
    bench.clock.advance(2)
    found = bench.settle(started, take=TAKER).following
    assert found == (following, 1, 2, "g1", "crawl", "t1b")
    row, history = bench.job(following), bench.attempt(following)
    assert (row["status"], row["boot_id"], row["lease_until"]) == (
        "running", "boot-w", bench.clock.now + timedelta(seconds=60))
    assert history["claimed_at"] == bench.attempt(started.claim.job_id)["finished_at"] == bench.clock.now
    assert bench.group()["ready_at"] is None
    assert bench.start(found).claim == found


def test_r5_the_slot_goes_on_with_the_group_that_has_been_ready_longest(bench: Bench) -> None:
    started = bench.begin("t1")
    for code in ("t1b", "t2"):
        bench.submit(code)
    bench.ledger.fold()
    bench.clock.advance(2)
    following = bench.settle(started, take=TAKER).following
    assert following is not None and following.group == "g2"
    assert bench.start(following).claim == following
    assert bench.claim().group == "g1", "the lane that has just had its turn comes next"


def test_r5_nothing_is_taken_at_once_while_a_submit_waits_to_be_folded(bench: Bench) -> None:
    started = bench.begin("t1")
    for code in ("t1b", "t2"):
        bench.submit(code)
    bench.clock.advance(2)
    assert bench.settle(started, take=TAKER).following is None
    assert bench.claim().group == "g2"


def test_r7_the_slot_goes_on_only_with_lanes_that_its_worker_serves(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.submit("t2")
    bench.ledger.fold()
    bench.clock.advance(2)
    assert bench.settle(started, take=TAKER._replace(lanes=["^g1$"])).following is None
    assert bench.claim(lanes=["^g2$"]).group == "g2"


def test_r8_a_lane_whose_interval_is_not_over_does_not_go_on_at_once(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.submit("t1b")
    bench.ledger.fold()
    settled = bench.settle(started, take=TAKER, response_age_sec=1.0, response_interval_sec=10.0)
    assert settled.following is None
    assert bench.group()["ready_at"] == START + timedelta(seconds=9)


@pytest.mark.parametrize("error", [objection(), ValueError("x"), Parked("parked", 40.0)])
def test_a_job_that_waits_is_not_its_own_successor(bench: Bench, error: BaseException) -> None:
    started = bench.begin("t1")
    bench.ledger.fold()
    assert bench.settle(started, error, take=TAKER).following is None


def test_c2_a_lane_that_cools_down_does_not_go_on(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.submit("t1b")
    bench.ledger.fold()
    assert bench.settle(started, objection(), take=TAKER).following is None


def test_j7_a_late_settle_takes_nothing(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.clock.advance(61)
    bench.reaper.reap()
    bench.clock.advance(60)
    bench.ledger.fold()
    before = bench.everything()
    with pytest.raises(StaleClaim):
        bench.settle(started, take=TAKER)
    assert bench.everything() == before


STALE_WRITES: dict[str, Callable[[Bench, Started], Any]] = {
    "start": lambda bench, old: bench.start(old.claim),
    "look": lambda bench, old: bench.ledger.pulse(*old.claim[:2]),
    "commit a page": lambda bench, old: commit(
        bench, old, progress={"n": 9}, current_page=9, last_completed_page=9, checkpoint={"x": 1}),
    "commit an interval": lambda bench, old: commit(
        bench, old, response_age_sec=0.0, response_interval_sec=99.0, crawl_delay_sec=300.0),
    "commit what it saw": lambda bench, old: commit(bench, old, cooldown_seen={"kind": "rate"}),
    "move the frontier": lambda bench, old: commit(
        bench, old, target_code=old.claim.target_code, frontier=7, outcome="complete", weak_403=True),
    "report": lambda bench, old: Attempt(bench.ledger, old).report({"current_page": 9}),
    "done": lambda bench, old: bench.settle(old, result={"late": True}, response_age_sec=0.0),
    "fail": lambda bench, old: bench.settle(old, PermanentJobError("late")),
    "go on": lambda bench, old: bench.settle(old, ValueError("late"), response_age_sec=0.0, response_interval_sec=99.0),
    "park": lambda bench, old: bench.settle(old, Parked("paused", 900.0)),
}
#: what became of the job meanwhile, as the late attempt finds it
FOUND: dict[str, Callable[[Bench, Started], Any]] = {
    "queued": lambda bench, old: None,
    "claimed": claim_again,
    "running": lambda bench, old: bench.start(claim_again(bench, old)),
    "done": lambda bench, old: bench.settle(bench.start(claim_again(bench, old))),
    "cancelled": lambda bench, old: bench.ledger.cancel(old.claim.job_id),
}
LANES = {f"g{number}": {f"gd{number}": [f"t{number}"]} for number in range(len(FOUND))}


def late_attempts(bench: Bench) -> Iterator[tuple[str, Started]]:
    """Give attempts that were reaped, one after the other, with their jobs in every state that they can find."""
    for number, (found, happen) in enumerate(FOUND.items()):
        old = bench.begin(f"t{number}")
        bench.clock.advance(61)
        assert old.claim.job_id in {each.job_id for each in bench.reaper.reap()}
        bench.clock.advance(60)
        happen(bench, old)
        assert bench.job(old.claim.job_id)["status"] == ("running" if found == "claimed" else found)
        yield found, old


@pytest.fixture
def lanes(database: Database) -> Bench:
    seed(database, LANES)
    return Bench(database)


@pytest.mark.parametrize("write", list(STALE_WRITES))
def test_j7_a_late_write_is_refused_and_changes_nothing(lanes: Bench, write: str) -> None:
    for found, old in late_attempts(lanes):
        before = lanes.everything()
        with pytest.raises(StaleClaim):
            STALE_WRITES[write](lanes, old)
        assert lanes.everything() == before, found


def test_j7_other_verbs_of_a_late_attempt_answer_no_and_change_nothing(lanes: Bench) -> None:
    for found, old in late_attempts(lanes):
        before = lanes.everything()
        job, number = old.claim[:2]
        assert lanes.ledger.hand_back(job, number, old.claim.group) is False, found
        assert lanes.ledger.renew([(job, number)]) == [(job, number, "lost", 0.0, False)], found
        assert lanes.reaper.recover(job, number, old.claim.group) is None, found
        lanes.ledger.park([job], "boot-w")
        assert lanes.everything() == before, found


def test_j7_refused_writes_are_counted(lanes: Bench) -> None:
    old = next(old for found, old in late_attempts(lanes) if found == "running")
    attempt = Attempt(lanes.ledger, old)
    for _ in range(2):
        with pytest.raises(StaleClaim):
            attempt.commit(Commit(progress={}))
    assert lanes.count("fenced_writes") == 1
    with pytest.raises(StaleClaim):
        lanes.settle(old)
    assert lanes.count("fenced_writes") == 2


def test_j7_evidence_of_a_late_attempt_lengthens_the_pause_without_growth(lanes: Bench) -> None:
    untouched = ("jobs", "attempts", "targets", "interval_history")
    for found, old in late_attempts(lanes):
        before = lanes.everything()
        with pytest.raises(StaleClaim):
            lanes.settle(old, objection())
        after = lanes.everything()
        group = lanes.group(old.claim.group)
        assert group["pause_until"] == lanes.clock.now + timedelta(seconds=600), found
        assert group["cooldown_level"] == 0, found
        assert [after[name] for name in untouched] == [before[name] for name in untouched], found
        assert lanes.claims(lanes=[f"^{old.claim.group}$"]) == []


def test_j7_settling_twice_is_refused_the_second_time(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.settle(started, result={"n": 1})
    before = bench.everything()
    with pytest.raises(StaleClaim):
        bench.settle(started, result={"n": 2})
    assert bench.everything() == before


def test_p5_a_commit_that_waits_for_its_turn_tells_no_later_times(bench: Bench) -> None:
    """The ages were taken before the wait for a connection or a lock: without it no gap would look too short."""
    real = Bench(bench.db, clock=no_clock)
    started = real.begin()
    row = {"b_number": 1, "b_host": "h", "b_url": "http://h/", "b_started": 1.0, "b_ended": 0.5, "b_status": 200, "b_bytes": 1,
           "b_error": "", "b_interval": 0.0}
    taken = clock.monotonic() - 30.0
    real.ledger.commit(started.claim.job_id, 1, "g1", Commit(requests=(row,), response_age_sec=0.5, aged_at=taken))
    with real.db.read() as conn:
        now = db_moment(conn)
    (stored,) = real.rows(requests)
    assert 30.5 <= (now - stored["ended_at"]).total_seconds() < 33
    assert 30.5 <= (now - real.job(started.claim.job_id)["last_response_at"]).total_seconds() < 33


def test_p5_a_process_held_up_before_its_statement_runs_tells_no_later_times(bench: Bench) -> None:
    """Half a second between the ages and the statement that stores them: both are of one moment."""
    real = Bench(bench.db, clock=no_clock)
    started = real.begin()
    row = {"b_number": 1, "b_host": "h", "b_url": "http://h/", "b_started": 1.0, "b_ended": 0.5, "b_status": 200, "b_bytes": 1,
           "b_error": "", "b_interval": 0.0}
    held_up: list[str] = []

    def hold_up(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(("UPDATE jobs", "INSERT INTO requests")):
            held_up.append(statement)
            clock.pause(0.5)

    event.listen(real.db.engine, "before_cursor_execute", hold_up)
    try:
        with real.db.read() as conn:
            before = db_moment(conn)
        real.ledger.commit(started.claim.job_id, 1, "g1",
                           Commit(requests=(row,), response_age_sec=0.5, aged_at=clock.monotonic()))
    finally:
        event.remove(real.db.engine, "before_cursor_execute", hold_up)
    assert len(held_up) == 2
    (stored,) = real.rows(requests)
    for ended in (stored["ended_at"], real.job(started.claim.job_id)["last_response_at"]):
        assert abs((before - ended).total_seconds() - 0.5) < 0.3
