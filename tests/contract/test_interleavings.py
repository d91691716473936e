"""Two transactions forced into the orders that lose work with other statements (design, section 2): PostgreSQL only.

A gate is an advisory lock that the test holds. Copies of the stored functions, made from the text of `functions.sql`
with one waiting line put in, stop there until the test lets them go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, select, update
from sqlalchemy.exc import OperationalError

from models.claim import Claim, Commit, Started, Taker
from models.db import Database
from models.groups import lane_wake
from models.jobs import jobs
from models.ledger import NewJob, writes_of
from models.outcome import Ended
from models.reaper import Reaped
from models.sites import sites
from models.statements import running
from tests.support.ledger import (
    SMALL,
    Bench,
    gated_copy,
    held_gate,
    held_group,
    in_thread,
    seed,
    wait_until_blocked,
)
from tests.support.servers import PostgresServer
from tests.support.store import Shelf

GATE = 7
WAIT = f"(SELECT pg_advisory_xact_lock({GATE}) IS NULL)"


@pytest.fixture
def bench(postgres: PostgresServer, shelf: Shelf) -> Iterator[Bench]:
    database = shelf.postgresql(postgres)
    seed(database, SMALL)
    yield Bench(database)
    database.dispose()
    postgres.drop_database(database.url)


@contextmanager
def open_settle(bench: Bench, started: Started) -> Iterator[None]:
    """Settle `started` as done in a transaction that commits at the end of the block."""
    with bench.db.write() as conn:
        assert settle_in(conn, bench, started, Ended(result={})) == "done"
        yield


def settle_in(conn: Connection, bench: Bench, started: Started, ended: Ended) -> str | None:
    """End an attempt inside the transaction of `conn`; return the job's new state."""
    writes = writes_of(bench.verdict(started, ended))
    status, *_ = bench.ledger.hot.settle(
        conn, *started.claim[:2], started.claim.group, writes, refresh=True, take=None, now=bench.clock())
    return None if status is None else str(status)


def gated_claim(db: Database, name: str, bench: Bench) -> list[Claim]:
    """Claim one job for worker A by the copy called `name`."""
    with db.write() as conn:
        rows = conn.exec_driver_sql(
            f"SELECT o_job_id, o_attempt, o_claim_no, o_group, o_kind, o_target FROM {name}(1, 'a', 'boot-a', 60, NULL, %s)",
            (bench.clock(),)).all()
    return [Claim(*row) for row in rows if row.o_job_id is not None]


def test_a_submit_that_commits_while_a_settle_waits_for_the_group_is_found(bench: Bench) -> None:
    started = bench.begin("t1")
    with held_group(bench.db, "g1"):
        settling = in_thread(lambda: bench.settle(started))
        wait_until_blocked(bench.db)
        made = bench.submit("t1")
    assert settling.result(timeout=10).status == "done"
    assert bench.group()["ready_at"] is not None, "the settle itself has seen the new job"
    assert bench.reaper.sweep() == 0
    assert bench.claim().job_id == made.job_id
    assert bench.count("repairs") == 0


def test_a_submit_that_commits_while_a_settle_recomputes_its_lane_is_found(bench: Bench) -> None:
    started = bench.begin("t1")
    verdict = json.dumps(writes_of(bench.verdict(started, Ended(result={}))))
    settle = gated_copy(bench.db, "rl_settle_v4", "UPDATE rate_groups SET ready_at = v_ready", f"PERFORM {WAIT};\n")

    def slowly() -> None:
        with bench.db.write() as conn:
            conn.exec_driver_sql(f"SELECT {settle}(%s, %s, 'g1', %s::jsonb, true, NULL, NULL, NULL, NULL, NULL, %s)",
                                 (*started.claim[:2], verdict, bench.clock()))

    with held_gate(bench.db, GATE):
        settling = in_thread(slowly)
        wait_until_blocked(bench.db)
        made = bench.submit("t1")
        assert bench.ledger.fold() == 0, "a fold waits for nobody"
        assert len(bench.rows(lane_wake)) == 1, "and leaves what it could not put down"
    settling.result(timeout=10)
    assert bench.group()["ready_at"] is None, "the settle could not see the new job"
    assert bench.reaper.sweep() == 0
    assert bench.claim().job_id == made.job_id
    assert bench.count("repairs") == 0


def test_a_job_that_was_run_between_a_scouts_look_and_its_lock_is_not_run_again(bench: Bench) -> None:
    first, second = bench.submit("t1"), bench.submit("t1b")
    bench.ledger.fold()
    # the scout's statement has its snapshot and then waits, as it would for a slow page of the index
    claim = gated_copy(bench.db, "rl_claim_v3", "ORDER BY g.ready_at LIMIT p_slots FOR", f"AND {WAIT} IS NOT NULL ")
    with held_gate(bench.db, GATE):
        late = in_thread(lambda: gated_claim(bench.db, claim, bench))
        wait_until_blocked(bench.db)
        taken = bench.start(bench.claim(worker="b"))
        assert taken.claim.job_id == first.job_id
        bench.settle(taken, ValueError("again in 5 s"))
    assert [found.job_id for found in late.result(timeout=10)] == [second.job_id]
    row = bench.job(first.job_id)
    assert (row["status"], row["attempt"], row["failures"]) == ("queued", 1, 1)


def test_a_job_that_was_finished_between_a_scouts_look_and_its_lock_leaves_nothing_to_take(bench: Bench) -> None:
    made = bench.submit("t1")
    bench.ledger.fold()
    claim = gated_copy(bench.db, "rl_claim_v3", "ORDER BY g.ready_at LIMIT p_slots FOR", f"AND {WAIT} IS NOT NULL ")
    with held_gate(bench.db, GATE):
        late = in_thread(lambda: gated_claim(bench.db, claim, bench))
        wait_until_blocked(bench.db)
        bench.settle(bench.start(bench.claim(worker="b")))
    assert late.result(timeout=10) == []
    assert (bench.job(made.job_id)["status"], bench.job(made.job_id)["attempt"]) == ("done", 1)


def test_what_commits_between_a_scouts_lock_and_its_choice_is_seen(bench: Bench) -> None:
    cancelled, urgent = bench.submit("t1"), None
    bench.ledger.fold()
    claim = gated_copy(bench.db, "rl_claim_v3", "o_locked := coalesce(", f"PERFORM {WAIT};\n")
    with held_gate(bench.db, GATE):
        late = in_thread(lambda: gated_claim(bench.db, claim, bench))
        wait_until_blocked(bench.db)
        assert bench.claims(worker="b") == [], "the lane is somebody else's at this moment"
        urgent = bench.submit("t1", priority=1)
        cancelling = in_thread(lambda: bench.ledger.cancel(cancelled.job_id))
        wait_until_blocked(bench.db, number=2)
    assert [found.job_id for found in late.result(timeout=10)] == [urgent.job_id]
    assert cancelling.result(timeout=10).verdict == "cancelled"
    assert bench.reaper.sweep() == 0


def test_a_scout_passes_by_a_lane_that_a_settle_holds_and_finds_it_afterwards(bench: Bench) -> None:
    started = bench.begin("t1")
    waiting, elsewhere = bench.submit("t1"), bench.submit("t2")
    with open_settle(bench, started):
        taken = in_thread(lambda: bench.claims(worker="b")).result(timeout=3)
        assert [claim.job_id for claim in taken] == [elsewhere.job_id], "it waits for nobody"
    assert bench.claim(worker="b").job_id == waiting.job_id
    assert bench.reaper.sweep() == 0


def test_two_scouts_that_look_at_the_same_moment_take_different_lanes(bench: Bench) -> None:
    for code in ("t1", "t2"):
        bench.submit(code)
    bench.ledger.fold()
    claim = gated_copy(bench.db, "rl_claim_v3", "o_locked := coalesce(", f"PERFORM {WAIT};\n")
    with held_gate(bench.db, GATE):
        first = in_thread(lambda: gated_claim(bench.db, claim, bench))
        wait_until_blocked(bench.db)
        second = bench.claims(1, worker="b")
    assert {found.group for found in first.result(timeout=10) + second} == {"g1", "g2"}


def test_r3_a_second_job_of_a_site_that_the_index_refuses_costs_nobody_else_a_turn(bench: Bench) -> None:
    other = bench.submit("t2").job_id
    blocked = bench.submit("t1").job_id
    with bench.db.write() as conn:
        # somebody makes a job of the same site run, in another group, and has not committed yet
        twin = bench.submit("t1", conn=conn).job_id
        conn.execute(update(jobs).where(jobs.c.job_id == twin).values(
            status="running", group_key="g3", lease_until=bench.clock.now, attempt=1))
        claiming = in_thread(lambda: bench.claims(5, worker="b"))
        wait_until_blocked(bench.db)
    assert [claim.job_id for claim in claiming.result(timeout=10)] == [other]
    assert bench.job(blocked)["status"] == "queued"
    assert bench.group()["ready_at"] > bench.clock.now, "asked again in a moment, not at once"


def test_r3_a_settle_that_may_not_take_the_next_job_after_all_settles_all_the_same(bench: Bench) -> None:
    started = bench.begin("t2")
    seed(bench.db, {"g9": {"s9": ["t9"]}})
    next_one = bench.ledger.submit(None, NewJob(site_code="s9", group="g2")).job_id
    bench.change(sites, sites.c.site_code == "s9", group_key="g2")
    bench.ledger.fold()
    with bench.db.write() as conn:
        # somebody makes another job of that site run, in another group, and has not committed yet
        twin = bench.submit("t9", conn=conn).job_id
        conn.execute(update(jobs).where(jobs.c.job_id == twin).values(
            status="running", group_key="g3", lease_until=bench.clock.now, attempt=1))
        settling = in_thread(lambda: bench.settle(started, take=Taker("b", "boot-b", 60.0)))
        wait_until_blocked(bench.db)
    settled = settling.result(timeout=10)
    assert (settled.status, settled.following) == ("done", None)
    assert bench.job(next_one)["status"] == "queued"


def test_j6_a_row_that_its_body_is_writing_is_still_mine_and_the_others_are_renewed(bench: Bench) -> None:
    one, two = bench.begin("t1").claim, bench.begin("t2").claim
    bench.clock.advance(61)
    with bench.db.write() as conn:
        conn.execute(running.COMMIT, commit_values(one))
        answers = {row[0]: row[2] for row in bench.ledger.renew([one[:2], two[:2]])}
        assert answers == {one.job_id: "locked", two.job_id: "renewed"}
        assert bench.reaper.reap() == [], "a body that is writing is not lost"
    assert bench.reaper.reap() == [Reaped(one.job_id, 1, "g1", "lost")]


def test_j7_a_commit_that_waits_while_its_attempt_is_reaped_is_refused(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.clock.advance(61)
    with bench.db.write() as conn:
        conn.execute(select(jobs.c.seq).where(jobs.c.job_id == started.claim.job_id).with_for_update())
        writing = in_thread(lambda: bench.ledger.commit(*started.claim[:2], "g1", Commit(progress={"late": 1})))
        wait_until_blocked(bench.db)
        assert settle_in(conn, bench, started, Ended(error=ValueError("reaped"))) == "queued"
    assert "no longer current" in str(writing.exception(timeout=10))
    assert bench.job(started.claim.job_id)["progress"] is None


def test_j8_a_claim_that_starts_while_it_is_handed_back_keeps_running(bench: Bench) -> None:
    bench.submit("t1")
    claim = bench.claim()
    with bench.db.write() as conn:
        start = {"b_job": claim.job_id, "b_attempt": 1, "b_busy": 50.0, "p_now": bench.clock.now}
        assert conn.execute(running.START, start).first() is not None
        giving = in_thread(lambda: bench.ledger.hand_back(claim.job_id, 1, "g1"))
        wait_until_blocked(bench.db)
    assert giving.result(timeout=10) is False
    assert bench.job(claim.job_id)["status"] == "running"


@pytest.mark.parametrize("stays", [True, False])
def test_j3_a_submit_waits_for_the_twin_that_is_being_stored_and_answers_with_what_became_of_it(
    bench: Bench, stays: bool
) -> None:
    class Gone(Exception):
        pass

    def twin() -> Any:
        return bench.submit("t1", dedupe_key="crawl:t1")

    try:
        with bench.db.write() as conn:
            first = bench.submit("t1", conn=conn, dedupe_key="crawl:t1")
            second = in_thread(twin)
            wait_until_blocked(bench.db)
            if not stays:
                raise Gone
    except Gone:
        pass
    answer = second.result(timeout=10)
    assert (answer.created, answer.job_id == first.job_id) == (not stays, stays)
    assert len(bench.rows(jobs)) == 1


def commit_values(claim: Claim) -> dict[str, Any]:
    """Return the parameters of an empty commit."""
    return {"b_job": claim.job_id, "b_attempt": claim.attempt, "b_busy": 50.0, "p_now": None,
            **dict.fromkeys(("b_progress", "b_page", "b_done_page", "b_checkpoint", "b_seen", "b_age", "b_gap"))}


def test_a_session_that_stands_frozen_in_a_transaction_is_ended_even_if_the_servers_timer_misses_it(
    bench: Bench,
) -> None:
    with bench.db.engine.connect() as frozen:
        frozen.exec_driver_sql("SET idle_in_transaction_session_timeout = 0")
        frozen.exec_driver_sql("SELECT 1")
        with bench.db.read() as conn:
            assert bench.ledger.hot.end_frozen(conn, 3600.0) == 0
            assert bench.ledger.hot.end_frozen(conn, 0.0) == 1
        with pytest.raises(OperationalError):
            frozen.exec_driver_sql("SELECT 1")
