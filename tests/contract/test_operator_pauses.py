"""Pausing and resuming lanes on both databases (rules R9, R10, C7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from config.errors import BadInput, Parked
from models import queries
from models.base import FAR, db_now
from models.claim import Claim, Commit
from models.db import Database
from models.groups import cooldowns, fleet, lane_wake, rate_groups
from models.operations import Operator, operations
from models.pacing import OperatorPacing, Resumed
from models.sites import interval_history, targets
from tests.support.ledger import SMALL, START, Bench, held_group, objection, seed

ANN = Operator("ann@desk", "cli", "the site asked")


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


@pytest.fixture
def pacing(bench: Bench) -> OperatorPacing:
    return OperatorPacing(bench.db, bench.clock)


def logged(bench: Bench) -> list[tuple[Any, ...]]:
    """What was written into the log of operations: action, group, who, surface and why."""
    return [tuple(row[name] for name in ("action", "group_key", "who", "surface", "reason"))
            for row in bench.rows(operations)]


def test_r9_a_paused_group_is_not_claimed_until_its_end(bench: Bench, pacing: OperatorPacing) -> None:
    made, other = bench.submit("t1"), bench.submit("t2")
    bench.ledger.fold()
    pacing.pause("g1", ANN, for_sec=60.0)
    assert bench.group()["ready_at"] == START + timedelta(seconds=60)
    assert [claim.job_id for claim in bench.claims()] == [other.job_id]
    bench.clock.advance(60)
    assert bench.claim().job_id == made.job_id
    assert logged(bench) == [("pause", "g1", *ANN)]


def test_r9_a_pause_without_an_end_holds_until_it_is_resumed(bench: Bench, pacing: OperatorPacing) -> None:
    made = bench.submit("t1")
    pacing.pause("g1", ANN)
    assert bench.group()["operator_pause_until"] == FAR
    bench.clock.advance(86_400 * 400)
    assert bench.claims() == []
    assert pacing.resume("g1", ANN._replace(reason="it answered")) == Resumed(True, 0)
    assert bench.group()["ready_at"] == bench.clock.now
    assert bench.claim().job_id == made.job_id
    assert [row[0] for row in logged(bench)] == ["pause", "resume"]
    assert logged(bench)[1] == ("resume", "g1", "ann@desk", "cli", "it answered")
    row = bench.group()
    assert {row[f"operator_pause{end}"] for end in ("_until", "_reason", "_by", "d_at")} == {None}


def test_r9_the_last_word_about_a_pause_counts(bench: Bench, pacing: OperatorPacing) -> None:
    pacing.pause("g1", ANN)
    pacing.pause("g1", ANN._replace(who="bob@desk", reason="shorter"), until=START + timedelta(seconds=5))
    row = bench.group()
    assert (row["operator_pause_until"], row["operator_pause_by"], row["operator_pause_reason"],
            row["operator_paused_at"]) == (START + timedelta(seconds=5), "bob@desk", "shorter", START)


@pytest.mark.parametrize("end", [{"until": START}, {"until": START - timedelta(days=1)}, {"for_sec": 0.0}, {"for_sec": -1.0}])
def test_a_pause_that_would_be_over_is_refused_and_changes_nothing(
    bench: Bench, pacing: OperatorPacing, end: dict[str, Any]
) -> None:
    before = bench.everything()
    with pytest.raises(BadInput):
        pacing.pause("g1", ANN, **end)
    with pytest.raises(BadInput):
        pacing.pause_all(ANN, **end)
    assert bench.everything() == before
    assert logged(bench) == []
    assert bench.rows(fleet)[0]["operator_pause_until"] is None


def test_an_unknown_group_is_refused(bench: Bench, pacing: OperatorPacing) -> None:
    for act in (pacing.pause, pacing.resume):
        with pytest.raises(BadInput, match="no rate group is called 'nowhere'"):
            act("nowhere", ANN)
    assert logged(bench) == []


def test_r9_a_running_job_learns_of_the_pause_and_its_park_spends_nothing_and_copies_no_end(
    bench: Bench, pacing: OperatorPacing
) -> None:
    started = bench.begin("t1")
    job, number = started.claim[:2]
    bench.ledger.commit(job, number, "g1", Commit(last_completed_page=4, checkpoint={"at": "4"}))
    pacing.pause("g1", ANN, for_sec=3_600.0)
    pulse = bench.ledger.pulse(job, number)
    assert (pulse.paused_sec, pulse.pause_reason) == (pytest.approx(3_600), "the site asked")
    bench.settle(started, Parked("paused", delay_sec=pulse.paused_sec), page=4)
    row = bench.job(job)
    assert (row["status"], row["run_after"], row["wait_reason"]) == ("queued", None, "paused")
    assert (row["failures"], row["recoveries"], row["checkpoint"], row["last_completed_page"]) == (0, 0, {"at": "4"}, 4)
    assert bench.group()["ready_at"] == START + timedelta(seconds=3_600)
    pacing.resume("g1", ANN)
    assert bench.claim().job_id == job


def test_r9_a_jobs_own_delay_survives_a_resume(bench: Bench, pacing: OperatorPacing) -> None:
    made = bench.submit("t1", delay_sec=120.0)
    pacing.pause("g1", ANN)
    pacing.resume("g1", ANN)
    assert bench.claims() == []
    assert bench.group()["ready_at"] == START + timedelta(seconds=120)
    bench.clock.advance(120)
    assert bench.claim().job_id == made.job_id


def test_r9_pause_and_cooldown_are_independent_and_the_later_one_holds(bench: Bench, pacing: OperatorPacing) -> None:
    bench.settle(bench.begin("t1"), objection())  # cools for 600 s
    pacing.pause("g1", ANN, for_sec=60.0)
    assert bench.group()["ready_at"] == START + timedelta(seconds=600)
    assert pacing.resume("g1", ANN) == Resumed(True, 0)
    assert bench.group()["ready_at"] == START + timedelta(seconds=600)
    pacing.pause("g1", ANN, for_sec=6_000.0)
    assert pacing.resume("g1", ANN, cooldown=True) == Resumed(True, 1)
    assert bench.group()["ready_at"] == START


def test_r9_c7_an_ended_cooldown_ends_in_its_history_too_and_the_interval_still_holds(
    bench: Bench, pacing: OperatorPacing
) -> None:
    started = bench.begin("t1")
    bench.settle(started, objection(), response_age_sec=0.0, response_interval_sec=10.0)
    bench.clock.advance(4)
    pacing.resume("g1", ANN, cooldown=True)
    (history,) = bench.rows(cooldowns)
    assert (history["at"], history["until"]) == (START, bench.clock.now)
    assert bench.claims() == []
    bench.clock.advance(6)
    assert bench.claim().job_id == started.claim.job_id
    assert bench.attempt(started.claim.job_id, 2)["source"] == "retry"
    assert bench.group()["cooldown_level"] == 1
    assert bench.rows(operations)[0]["details"] == {"pause": False, "cooldown": True}


def test_a_history_that_is_over_stays_as_it_was(bench: Bench, pacing: OperatorPacing) -> None:
    bench.settle(bench.begin("t1"), objection())
    bench.clock.advance(700)
    assert pacing.resume("g1", ANN, cooldown=True) == Resumed(False, 0)
    assert bench.rows(cooldowns)[0]["until"] == START + timedelta(seconds=600)
    assert logged(bench) == []


def test_r9_pausing_all_touches_no_group_and_holds_for_groups_that_are_made_later(
    bench: Bench, pacing: OperatorPacing
) -> None:
    made = bench.submit("t1")
    before = bench.rows(rate_groups)
    pacing.pause_all(ANN, for_sec=60.0)
    assert bench.rows(rate_groups) == before
    seed(bench.db, {"g9": {"s9": ["t9"]}})
    later = bench.submit("t9")
    assert bench.claims() == []
    bench.clock.advance(60)
    assert {claim.job_id for claim in bench.claims()} == {made.job_id, later.job_id}
    assert logged(bench) == [("pause_all", None, *ANN)]


def test_r9_resuming_all_wakes_every_lane_with_work_but_not_those_paused_for_themselves(
    bench: Bench, pacing: OperatorPacing
) -> None:
    jobs = {code: bench.submit(code).job_id for code in ("t1", "t2")}
    pacing.pause_all(ANN)
    pacing.pause("g2", ANN)
    assert bench.claims() == []  # now each lane knows that it is paused without an end
    assert pacing.resume_all(ANN) == Resumed(True, 0)
    assert sorted(row["group_key"] for row in bench.rows(lane_wake)) == ["g1", "g2"]
    assert [claim.job_id for claim in bench.claims()] == [jobs["t1"]]
    assert bench.group("g2")["ready_at"] == FAR
    pacing.resume("g2", ANN)
    assert bench.claim().job_id == jobs["t2"]
    assert pacing.resume_all(ANN) == Resumed(False, 0)
    assert [row[0] for row in logged(bench)] == ["pause_all", "pause", "resume_all", "resume"]


def test_r9_a_group_that_is_resumed_under_the_pause_of_all_stays_paused(bench: Bench, pacing: OperatorPacing) -> None:
    bench.submit("t1")
    pacing.pause("g1", ANN, for_sec=30.0)
    pacing.pause_all(ANN._replace(reason="holiday"))
    pacing.resume("g1", ANN)
    assert bench.claims() == []
    with bench.db.look() as conn:
        lane = queries.lane(conn, "g1")
    assert (lane["paused_until"], lane["pause_kind"], lane["pause_reason"]) == (None, "operator", "holiday")


def test_r9_resuming_all_with_cooldowns_ends_them_in_portions_in_key_order(
    bench: Bench, pacing: OperatorPacing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.pacing.operating.GROUPS_AT_ONCE", 2)
    started = [bench.begin(code) for code in ("t3", "t1", "t2")]
    for one in started:
        bench.settle(one, objection())
    assert pacing.resume_all(ANN, cooldown=True) == Resumed(False, 3)
    assert {claim.job_id for claim in bench.claims()} == {one.claim.job_id for one in started}
    assert [row["until"] for row in bench.rows(cooldowns)] == [START] * 3
    assert [row[:2] for row in logged(bench)] == [
        ("resume_all", None), ("resume", "g1"), ("resume", "g2"), ("resume", "g3")]


def test_resuming_all_waits_for_no_group(bench: Bench, pacing: OperatorPacing) -> None:
    """Design, section 2: a claim or a settle may hold any group meanwhile."""
    if bench.db.dialect == "sqlite":
        return  # one writer at a time
    bench.submit("t1")
    pacing.pause_all(ANN)
    with held_group(bench.db, "g1"):
        pacing.resume_all(ANN)


def test_r10_lanes_show_the_pause_that_holds_longest(bench: Bench, pacing: OperatorPacing) -> None:
    bench.clock.now = _now(bench)
    for code in ("t1", "t2"):
        bench.submit(code)
    pacing.pause("g1", ANN, for_sec=600.0)
    pacing.pause("g3", ANN._replace(reason="no work, still paused"))
    pacing.pause_all(ANN._replace(reason="short"), for_sec=60.0)
    with bench.db.look() as conn:
        lanes = {one["group"]: one for one in queries.lanes(conn)}
        whole = queries.fleet_pause(conn)
    assert {key: (one["pause_kind"], one["pause_reason"]) for key, one in lanes.items()} == {
        "g1": ("operator", "the site asked"), "g2": ("operator", "short"), "g3": ("operator", "no work, still paused")}
    assert lanes["g3"]["paused_until"] is None
    assert whole is not None
    assert (whole["by"], whole["reason"]) == ("ann@desk", "short")
    pacing.resume_all(ANN)
    with bench.db.look() as conn:
        assert queries.fleet_pause(conn) is None
        assert queries.lane(conn, "g2")["pause_kind"] is None


def test_c5_an_interval_is_set_back_with_who_and_why(bench: Bench, pacing: OperatorPacing) -> None:
    bench.change(targets, targets.c.target_code == "t1", grown_interval_sec=15.0)
    assert pacing.reset_interval("t1", ANN) is True
    assert bench.target()["grown_interval_sec"] is None
    (history,) = bench.rows(interval_history)
    assert (history["old_interval_sec"], history["new_interval_sec"], history["cause"], history["at"]) == (
        15.0, 10.0, "reset by ann@desk: the site asked", START)
    assert pacing.reset_interval("t1", ANN) is False
    assert [row["target_code"] for row in bench.rows(operations)] == ["t1"]


def test_operations_are_found_by_group_with_those_on_all(bench: Bench, pacing: OperatorPacing) -> None:
    pacing.pause("g1", ANN)
    pacing.pause("g2", ANN)
    bench.clock.advance(1)
    pacing.pause_all(ANN)
    with bench.db.look() as conn:
        found = queries.operations_of_group(conn, "g1")
    assert [(one["action"], one["group_key"]) for one in found] == [("pause_all", None), ("pause", "g1")]


def test_an_operation_that_is_rolled_back_leaves_no_row(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Action and log are one transaction."""
    pacing = OperatorPacing(bench.db, bench.clock)

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("models.pacing.operating.log_operation", broken)
    before = bench.everything()
    with pytest.raises(RuntimeError):
        pacing.pause("g1", ANN)
    assert bench.everything() == before


def _now(bench: Bench) -> Any:
    with bench.db.read() as conn:
        return conn.execute(select(db_now())).scalar_one()


def test_r9_the_pause_of_one_group_leaves_the_others_alone(bench: Bench, pacing: OperatorPacing) -> None:
    running: Claim = bench.begin("t2").claim
    pacing.pause("g1", ANN)
    assert bench.ledger.pulse(running.job_id, running.attempt).paused_sec == 0
