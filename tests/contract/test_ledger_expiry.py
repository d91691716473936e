"""J1: a queued job past `expires_at` becomes cancelled, on both databases; and a claim that comes at the same moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from config.errors import BadInput
from models.db import Database
from models.jobs import jobs
from models.ledger import Ledger, NewJob, no_clock
from models.statements import upkeep
from routing import dispatch
from tests.support.ledger import SMALL, START, Bench, held_group, in_thread, seed


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def is_expired(bench: Bench, job_id: str) -> bool:
    row = bench.job(job_id)
    return (row["status"], row["error_msg"], row["wait_reason"]) == ("cancelled", "expired", "")


def test_j1_a_queued_job_expires_at_its_moment_and_not_before(bench: Bench) -> None:
    by_moment = bench.submit(expires_at=START + timedelta(seconds=30)).job_id
    by_wait = bench.submit("t2", expires_sec=30).job_id
    never = bench.submit("t3").job_id

    assert bench.ledger.expire() == 0
    bench.clock.advance(30)
    assert bench.ledger.expire() == 2
    assert is_expired(bench, by_moment)
    assert is_expired(bench, by_wait)
    assert bench.job(by_wait)["finished_at"] == bench.clock.now
    assert bench.job(never)["status"] == "queued"
    assert bench.ledger.expire() == 0


def test_j1_an_expired_job_leaves_no_group_that_wakes_for_nothing(bench: Bench) -> None:
    bench.submit(expires_sec=5)
    bench.ledger.fold()
    bench.clock.advance(5)
    assert bench.claims() == []
    assert bench.group()["ready_at"] is not None  # claims never take it, but look for it each second
    bench.ledger.expire()
    assert bench.group()["ready_at"] is None
    assert bench.reaper.sweep() == 0


def test_j1_a_job_that_waits_for_its_next_try_expires_too(bench: Bench) -> None:
    started = bench.begin(expires_sec=60)
    bench.settle(started, RuntimeError("no"))
    bench.clock.advance(60)
    assert bench.ledger.expire() == 1
    assert is_expired(bench, started.claim.job_id)
    assert bench.attempt(started.claim.job_id)["outcome"] == "failed_attempt"


def test_j1_a_running_job_does_not_expire(bench: Bench) -> None:
    started = bench.begin(expires_sec=5)
    bench.clock.advance(5)
    assert bench.ledger.expire() == 0
    bench.settle(started, result={"ok": True})
    assert bench.job(started.claim.job_id)["status"] == "done"


def test_j1_many_expire_in_bounded_portions(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.ledger.upkeep.EXPIRE_AT_ONCE", 3)
    for number in range(7):
        bench.submit(("t1", "t2", "t3")[number % 3], expires_sec=number)
    bench.clock.advance(10)
    assert [bench.ledger.expire() for _ in range(4)] == [3, 3, 1, 0]


def test_j1_a_job_in_a_group_that_has_no_row_expires(bench: Bench) -> None:
    job_id = bench.ledger.submit(None, NewJob(group="_nobody", expires_sec=1)).job_id
    bench.clock.advance(1)
    assert bench.ledger.expire() == 1
    assert is_expired(bench, job_id)


def test_j3_an_expired_job_does_not_stand_in_the_way_of_the_next_one(bench: Bench) -> None:
    first = bench.submit(dedupe_key="crawl:t1", expires_sec=5)
    again = bench.submit(dedupe_key="crawl:t1", expires_sec=5)
    assert (again.job_id, again.created) == (first.job_id, False)
    bench.clock.advance(5)
    later = bench.submit(dedupe_key="crawl:t1", job_id="named")
    assert (later.job_id, later.created) == ("named", True)
    assert is_expired(bench, first.job_id)


def test_j4_whoever_comes_first_has_the_job(bench: Bench) -> None:
    """The statements of a claim and of an expiry that begin at the same moment: one of them finds nothing."""
    job_id = bench.submit(expires_sec=5).job_id
    bench.ledger.fold()
    late = Bench(bench.db)
    late.clock.now = START + timedelta(seconds=5)
    claim = bench.claim()  # its clock is a moment behind
    assert late.ledger.expire() == 0
    assert bench.job(job_id)["status"] == "running"
    assert bench.start(claim)


def test_j4_what_was_found_to_be_past_its_time_is_looked_at_again_when_it_is_ended(bench: Bench) -> None:
    """Between the look and the write a claim, a longer time or another group may have come."""
    claimed, longer, moved = (bench.submit(target, expires_sec=5).job_id for target in ("t1", "t2", "t3"))
    bench.claim(lanes=["^g1$"])
    bench.change(jobs, jobs.c.job_id == longer, expires_at=START + timedelta(days=1))
    bench.clock.advance(5)
    with bench.db.write() as conn:
        ended = conn.execute(upkeep.expire([claimed, longer, moved], ["g1", "g2"]), bench.ledger.at()).all()
    assert ended == []
    assert {name: bench.job(name)["status"] for name in (claimed, longer, moved)} == {
        claimed: "running", longer: "queued", moved: "queued"}


def test_j4_an_expiry_waits_for_nobody_and_never_ends_what_was_claimed_meanwhile(bench: Bench) -> None:
    if bench.db.dialect == "sqlite":
        pytest.skip("SQLite has one writer: nothing can come between")
    held, free = bench.submit(expires_sec=5).job_id, bench.submit("t2", expires_sec=5).job_id
    bench.clock.advance(5)
    with held_group(bench.db, "g1") as conn:
        assert in_thread(bench.ledger.expire).result(5) == 1
        assert is_expired(bench, free)
        assert bench.job(held)["status"] == "queued"
        # the holder of the group is a claim that began a moment earlier
        conn.execute(jobs.update().where(jobs.c.job_id == held).values(
            status="running", attempt=1, lease_until=bench.clock.now + timedelta(seconds=60)))
    assert bench.ledger.expire() == 0
    assert bench.job(held)["status"] == "running"


def test_a_chore_has_one_turn_in_its_time_whoever_asks(bench: Bench) -> None:
    other = Ledger(bench.db, bench.settings, now=bench.clock)
    assert bench.ledger.take_turn("prune", 3600)
    assert not other.take_turn("prune", 3600)
    bench.clock.advance(3599)
    assert not other.take_turn("prune", 3600)
    bench.clock.advance(1)
    asked = [in_thread(lambda ledger=ledger: ledger.take_turn("prune", 3600)) for ledger in (bench.ledger, other) * 2]
    assert sorted(one.result(10) is not None for one in asked) == [False, False, False, True]


def test_looking_for_what_expires_reads_an_index_alone(bench: Bench) -> None:
    word = "EXPLAIN QUERY PLAN " if bench.db.dialect == "sqlite" else "EXPLAIN "
    compiled = upkeep.expirable(10, bench.db.dialect).compile(dialect=bench.db.engine.dialect)
    with bench.db.write() as conn:
        if bench.db.dialect == "postgresql":
            conn.exec_driver_sql("SET LOCAL enable_seqscan = off")
        values = tuple(compiled.params[name] for name in compiled.positiontup or ())
        plan = " ".join(str(row) for row in conn.exec_driver_sql(word + str(compiled), values or dict(compiled.params)))
    assert "ix_jobs_expires" in plan


def test_j1_submit_takes_a_moment_or_seconds_and_refuses_what_it_cannot_mean(bench: Bench) -> None:
    def submit(**more: object) -> str:
        return dispatch.submit(bench.db, bench.settings, "t1", **more).job_id  # type: ignore[arg-type]

    with pytest.raises(BadInput, match="not both"):
        submit(expires_at=START, expires_sec=1)
    with pytest.raises(BadInput, match="no time zone"):
        submit(expires_at=START.replace(tzinfo=None))
    for seconds in (float("nan"), float("inf"), 1e12):
        with pytest.raises(BadInput, match="more than a year"):
            submit(expires_sec=seconds)
    for moment in (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))):
        for name in ("run_after", "expires_at"):
            with pytest.raises(BadInput, match="out of range"):
                submit(**{name: moment})
    assert bench.rows(jobs) == []
    over = [submit(expires_sec=-1e300), submit(expires_at=START - timedelta(days=9_000))]
    real = Bench(bench.db, clock=no_clock)
    assert real.claims() == []
    assert real.ledger.expire() == 2
    assert all(is_expired(bench, job_id) for job_id in over)
