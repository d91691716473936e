"""`why` in any state that jobs, lanes, workers and pauses can reach (J16): it always answers, and only what is so.

The states are those of the ledger's own machine, with what operators and dying workers add to them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import insert, update

from console.explain import explain
from models import queries
from models.base import FAR
from models.db import Database
from models.groups import fleet, rate_groups
from models.jobs import jobs
from models.sites import targets
from models.workers import workers
from tests.property.test_ledger_machine import SHAPE, TARGETS, WORKERS, LedgerMachine
from tests.support import why_oracle
from tests.support.ledger import START
from tests.support.why_oracle import HEARTBEAT_SEC, OPEN, World, taken_now, untrue

ZONE = ZoneInfo("Asia/Shanghai")
#: slots and lanes of each worker
CREW: dict[str, tuple[int, list[str] | None]] = {"a": (3, None), "b": (1, ["^g1$", "^g4$"]), "c": (2, ["^g.*$"])}
#: what a worker's row says while it is so; None: it beats no more
CONDITIONS: dict[str, str | None] = {
    "works": "", "cut off": "broker_down", "hangs": "scout_stuck", "stops": "stopping", "dead": None}


class WhyMachine(LedgerMachine):
    """The ledger's machine with workers' rows, pauses, expiry; every job is asked about in every state."""

    first = TARGETS

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.conditions = dict.fromkeys(WORKERS, "works")
        self.told: dict[str, datetime] = {}

    @initialize()
    def begin(self) -> None:
        super().begin()
        with self.bench.db.write() as conn:
            for name, (slots, lanes) in CREW.items():
                conn.execute(insert(workers).values(
                    boot_id=f"boot-{name}", name=name, host="h", pid=1, pool="threads", concurrency=slots, lanes=lanes,
                    started_at=START, heartbeat_at=START, consuming_at=START, heartbeat_sec=HEARTBEAT_SEC))

    @rule(name=st.sampled_from(WORKERS), condition=st.sampled_from(["works", "works", *CONDITIONS]))
    def a_worker_is(self, name: str, condition: str) -> None:
        self.conditions[name] = condition

    @rule(group=st.sampled_from([*SHAPE, "all", "all"]), seconds=st.sampled_from([None, None, 90.0, 900.0, float("inf")]))
    def pause(self, group: str, seconds: float | None) -> None:
        until = None if seconds is None else FAR if seconds == float("inf") else self.bench.clock.now + timedelta(
            seconds=seconds)
        what = {"operator_pause_until": until, "operator_pause_reason": "works on the line", "operator_pause_by": "ann"}
        self.write(update(fleet).values(what) if group == "all" else
                   update(rate_groups).where(rate_groups.c.key == group).values(what))

    @rule(number=st.integers(0, 99), seconds=st.sampled_from([0.0, 30.0]))
    def expires(self, number: int, seconds: float) -> None:
        found = self.bench.rows(jobs)
        self.write(update(jobs).where(jobs.c.seq == found[number % len(found)]["seq"]).values(
            expires_at=self.bench.clock.now + timedelta(seconds=seconds)))

    @rule(number=st.integers(0, 99))
    def hand_back_and_wait(self, number: int) -> None:
        if (held := self.pick(number)) is not None:
            self.bench.ledger.hand_back(*held.claim[:2], held.claim.group, wait_sec=8.0)

    @rule(code=st.sampled_from(TARGETS), enabled=st.booleans())
    def enable(self, code: str, enabled: bool) -> None:
        self.write(update(targets).where(targets.c.target_code == code).values(enabled=enabled))

    def write(self, statement: Any) -> None:
        """Change rows as an operator's verb would: every lane is looked at again in the same transaction."""
        keys = sorted(row["key"] for row in self.bench.rows(rate_groups))
        with self.bench.db.write() as conn:
            self.bench.ledger.hot.lock_groups(conn, keys)
            conn.execute(statement)
            self.bench.ledger.hot.refresh(conn, keys, self.bench.clock.now)

    def beat(self) -> None:
        """Let the workers that live say so, with what troubles them."""
        now = self.bench.clock.now
        for name, condition in self.conditions.items():
            trouble = CONDITIONS[condition]
            if trouble is not None:
                seen = {"heartbeat_at": now, "trouble": trouble} | ({} if trouble else {"consuming_at": now})
                self.bench.change(workers, workers.c.name == name, **seen)

    @invariant()
    def why_tells_the_truth_and_nothing_else(self) -> None:
        self.beat()
        self.bench.ledger.fold()
        world = World.of(self.bench)
        taken, full = taken_now(self.bench, world)
        for job in world.jobs:
            if self.told.get(job["job_id"]) == job["updated_at"] and job["finished_at"] is not None:
                continue
            self.told[job["job_id"]] = job["updated_at"]
            self.check(job, world, taken, full)

    def check(self, job: dict[str, Any], world: World, taken: set[str], full: set[str]) -> None:
        with self.bench.db.look() as conn:
            found = queries.facts(conn, job["job_id"], world.now)
        assert found is not None
        answer = explain(found, ZONE)
        reasons = [vars(one) for one in answer.reasons]
        codes = {one["code"] for one in reasons}
        assert reasons
        assert untrue(world, job, reasons) == []
        if job["status"] != "queued":
            assert codes <= OPEN | {"worker_lost"}
            return
        if job["job_id"] in taken:
            assert codes == {"starting"}
            assert answer.position == 1
            assert answer.expected_start == world.now
        elif codes <= {"starting"}:
            assert self.is_tied(job, world, full), f"nobody would take it: {reasons}"
        if answer.expected_start is not None:
            ends = [one["until"] for one in reasons if one["until"] is not None]
            assert answer.expected_start >= max([world.now, *ends])
        assert "finished" in codes or answer.position == 1 + len(world.before(job)) or job["job_id"] in taken

    def is_tied(self, job: dict[str, Any], world: World, full: set[str]) -> bool:
        """Say whether lanes that are ready since the same moment wanted the slots that this one needed."""
        serving = {row["name"] for row in world.working(job["group_key"])}
        moments = [row["ready_at"] for row in world.groups.values() if row["ready_at"] is not None]
        mine = world.groups[job["group_key"]]["ready_at"]
        since = world.now if mine is None else min(mine, world.now)
        return serving <= full and sum(min(moment, world.now) == since for moment in moments) > (mine is not None)

    def head(self, key: str) -> str | None:
        """Return what a claim must take now; beside the ledger's rules a pause of all lanes and expiry count."""
        world = World.of(self.bench)
        if world.later(world.fleet["operator_pause_until"]):
            return None
        dead = {row["job_id"] for row in world.jobs if row["expires_at"] is not None and row["expires_at"] <= world.now}
        return super().head(key, dead)

    def teardown(self) -> None:
        if self.bench.rows(fleet):
            for table in (fleet, rate_groups):
                self.write(update(table).values(operator_pause_until=None))
            self.write(update(jobs).values(expires_at=None))
            super().teardown()


def test_in_every_state_why_gives_reasons_and_all_of_them_are_true(database: Database) -> None:
    budget = 10 if database.dialect == "sqlite" else 4
    run_state_machine_as_test(
        lambda: WhyMachine(database),
        settings=settings(max_examples=budget, stateful_step_count=20, deadline=None, database=None,
                          phases=(Phase.generate,),
                          suppress_health_check=list(HealthCheck)))


def test_the_oracle_knows_every_code() -> None:
    from console.reasons import CODES

    assert set(why_oracle.CHECKS) | {"quiet_window"} == CODES
