"""What operators change of sites and targets while jobs wait or run, on both databases (rules R2, J1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from config.errors import Parked
from console.sites_file import ScheduleOverrides
from models.base import FAR
from models.catalogue import Catalogue, SitePlan, TargetPlan
from models.db import Database
from models.groups import lane_wake
from models.operations import Operator, operations
from models.pacing import OperatorPacing
from routing import resolver
from routing.rules import Rule
from tests.support.ledger import START, Bench, objection

ANN = Operator("ann@desk", "cli", "one firewall for both")


@dataclass
class File:
    """What a file could say: sites at http://<code>.test, or elsewhere, with one target each."""

    codes: Sequence[str]
    rules: list[Rule] = field(default_factory=list)
    at: dict[str, str] = field(default_factory=dict)
    enabled: bool | None = None
    schedule: ScheduleOverrides = field(default_factory=ScheduleOverrides)

    @property
    def sites(self) -> list[SitePlan]:
        return [SitePlan(code, self.at.get(code, f"http://{code}.test"), "list") for code in self.codes]

    @property
    def targets(self) -> list[TargetPlan]:
        return [TargetPlan(f"{code}_news", code, enabled=self.enabled) for code in self.codes]


@pytest.fixture
def bench(database: Database) -> Bench:
    made = Bench(database)
    load(made, File("ab"))
    return made


def load(bench: Bench, described: File, **how: Any) -> None:
    Catalogue(bench.db, bench.clock.now).load(resolver.plan(described), **how)


def assign(bench: Bench, site: str, group: str) -> None:
    resolver.assign(Catalogue(bench.db, bench.clock.now), site, group, ANN)


MOVES = {
    "groups assign": lambda bench: assign(bench, "a", "b.test"),
    "another rule": lambda bench: load(bench, File("ab", [Rule("b.test", site="a")])),
    "another base_url": lambda bench: load(bench, File("ab", at={"a": "http://b.test/a"})),
}


@pytest.mark.parametrize("how", MOVES)
def test_r2_an_operators_pause_moves_along_with_who_and_since_when(bench: Bench, how: str) -> None:
    made = bench.submit("a_news")
    OperatorPacing(bench.db, bench.clock).pause("a.test", ANN)
    bench.clock.advance(5)
    MOVES[how](bench)
    row = bench.group("b.test")
    assert (row["operator_pause_until"], row["operator_pause_by"], row["operator_pause_reason"],
            row["operator_paused_at"]) == (FAR, "ann@desk", "one firewall for both", START)
    assert bench.job(made.job_id)["group_key"] == "b.test"
    assert bench.claims() == []
    OperatorPacing(bench.db, bench.clock).resume("b.test", ANN)
    assert bench.claim().job_id == made.job_id


@pytest.mark.parametrize("how", MOVES)
def test_r2_a_cooldown_its_level_and_the_next_request_move_along(bench: Bench, how: str) -> None:
    bench.settle(bench.begin("a_news"), objection(), response_age_sec=0.0, response_interval_sec=30.0)
    waiting = bench.submit("b_news", priority=1)
    MOVES[how](bench)
    row = bench.group("b.test")
    assert (row["pause_until"], row["cooldown_level"], row["next_request_at"]) == (
        START + timedelta(seconds=600), 1, START + timedelta(seconds=30))
    assert bench.claims() == []
    bench.clock.advance(600)
    assert bench.claim().job_id == waiting.job_id


@pytest.mark.parametrize("how", MOVES)
def test_r2_the_receiving_group_claims_nothing_while_a_job_of_the_site_runs_where_it_was(bench: Bench, how: str) -> None:
    running, moved, other = bench.begin("a_news"), bench.submit("a_news", priority=1), bench.submit("b_news")
    bench.ledger.fold()
    MOVES[how](bench)
    assert bench.job(running.claim.job_id)["group_key"] == "a.test"
    assert bench.job(moved.job_id)["group_key"] == "b.test"
    assert bench.claims() == []
    bench.clock.advance(2)
    assert bench.claims() == []
    bench.settle(running, Parked("soft_stop"), response_age_sec=0.0, response_interval_sec=10.0)
    assert bench.job(running.claim.job_id)["group_key"] == "b.test"
    assert bench.claims() == []  # the gap holds across the move (rule R8)
    bench.clock.advance(10)
    order = []
    while len(order) < 3:
        (claim,) = bench.claims()
        assert claim.group == "b.test"
        order.append(claim.job_id)
        bench.settle(bench.start(claim))
        bench.clock.advance(1)
    assert order == [moved.job_id, running.claim.job_id, other.job_id]


def test_r2_what_stays_in_the_old_group_goes_on_there(bench: Bench) -> None:
    load(bench, File("abc", [Rule("one", host="*")]))
    stays, moves = bench.submit("c_news"), bench.submit("a_news")
    assign(bench, "a", "two")
    assert {claim.job_id: claim.group for claim in bench.claims()} == {stays.job_id: "one", moves.job_id: "two"}


def test_r2_a_move_is_logged_with_who_and_from_where(bench: Bench) -> None:
    assign(bench, "a", "b.test")
    (row,) = bench.rows(operations)
    assert (row["action"], row["group_key"], row["who"], row["reason"]) == ("groups_assign", "b.test", *ANN[::2])
    assert row["details"] == {"site_code": "a", "assigned": "b.test",
                              "moved": [{"site_code": "a", "from": "a.test", "to": "b.test"}]}


DISABLINGS = {
    "targets --disable": lambda bench: Catalogue(bench.db, bench.clock.now).disable("a_news", ANN),
    "the file": lambda bench: load(bench, File("a", enabled=False)),
    "load --prune": lambda bench: load(bench, File("b"), prune=True, by=ANN),
}


@pytest.mark.parametrize("how", DISABLINGS)
def test_j1_disabling_a_target_cancels_its_queued_scheduled_jobs_and_deletes_nothing(bench: Bench, how: str) -> None:
    scheduled = bench.submit("a_news", source="schedule").job_id
    bench.ledger.fold()
    elsewhere = bench.submit("b_news", source="schedule").job_id
    DISABLINGS[how](bench)
    row = bench.job(scheduled)
    assert (row["status"], row["error_msg"], row["finished_at"]) == ("cancelled", "target_disabled", START)
    assert bench.group("a.test")["ready_at"] is None
    assert bench.job(elsewhere)["status"] == "queued"
    assert bench.target("a_news")["enabled"] is False
    by_hand = bench.submit("a_news")
    assert by_hand.warnings == ("target a_news is disabled",)
    assert by_hand.job_id in {claim.job_id for claim in bench.claims()}


def test_j1_a_running_job_and_one_by_hand_survive_the_disabling(bench: Bench) -> None:
    running = bench.begin("a_news", source="schedule")
    waiting = bench.submit("a_news")
    DISABLINGS["targets --disable"](bench)
    assert bench.job(running.claim.job_id)["status"] == "running"
    bench.settle(running)
    assert bench.claim().job_id == waiting.job_id


@pytest.mark.parametrize(("how", "action"), [("targets --disable", "target_disable"), ("load --prune", "load_prune")])
def test_j1_who_disabled_a_target_is_logged(bench: Bench, how: str, action: str) -> None:
    DISABLINGS[how](bench)
    assert [(row["action"], row["target_code"], row["who"]) for row in bench.rows(operations)] == [
        (action, "a_news", "ann@desk")]
    Catalogue(bench.db).enable("a_news", ANN)
    assert Catalogue(bench.db).enable("a_news", ANN) is False
    assert [row["action"] for row in bench.rows(operations)] == [action, "target_enable"]
    assert bench.rows(lane_wake) == []
