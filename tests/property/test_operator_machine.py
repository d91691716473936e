"""The machine of the ledger with operators: pauses of one lane and of all, their ends, requeues, in any order (R9, J14)."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from sqlalchemy import select

from models.db import Database
from models.jobs import jobs
from models.operations import Operator
from models.pacing import OperatorPacing
from tests.property.test_ledger_machine import SHAPE, LedgerMachine

ANN = Operator("ann")


class OperatorMachine(LedgerMachine):
    """Everything that happens to lanes, and people who interfere."""

    @property
    def pacing(self) -> OperatorPacing:
        """What operators do to lanes."""
        return OperatorPacing(self.bench.db, self.bench.clock)

    @rule(group=st.sampled_from([*SHAPE]), seconds=st.sampled_from([None, 10.0, 300.0]))
    def pause(self, group: str, seconds: float | None) -> None:
        self.pacing.pause(group, ANN, for_sec=seconds)

    @rule(group=st.sampled_from([*SHAPE]), cooldown=st.booleans())
    def resume(self, group: str, cooldown: bool) -> None:
        self.pacing.resume(group, ANN, cooldown=cooldown)

    @rule(seconds=st.sampled_from([None, 10.0, 300.0]))
    def pause_all(self, seconds: float | None) -> None:
        self.pacing.pause_all(ANN, for_sec=seconds)

    @rule(cooldown=st.booleans())
    def resume_all(self, cooldown: bool) -> None:
        self.pacing.resume_all(ANN, cooldown=cooldown)

    @rule(number=st.integers(0, 99), restart=st.booleans())
    def requeue(self, number: int, restart: bool) -> None:
        found = self.bench.rows(jobs)
        row = found[number % len(found)]
        key = row["dedupe_key"]
        taken = key is not None and self.ask(select(jobs.c.job_id).where(
            jobs.c.dedupe_key == key, jobs.c.status.in_(("queued", "running"))))
        expected = "requeued" if row["status"] in ("failed", "cancelled") and not taken else "refused"
        assert self.bench.ledger.requeue(row["job_id"], ANN, restart=restart).verdict == expected

    def teardown(self) -> None:
        """Let everybody go on; then every job ends, and no lane has slept."""
        self.pacing.resume_all(ANN, cooldown=True)
        for group in sorted(self.keys()):
            self.pacing.resume(group, ANN)
        super().teardown()


def test_r9_j14_whatever_operators_do_no_lane_sleeps_and_no_job_is_lost(database: Database) -> None:
    budget = 25 if database.dialect == "sqlite" else 8
    run_state_machine_as_test(
        lambda: OperatorMachine(database),
        settings=settings(max_examples=budget, stateful_step_count=35, deadline=None, database=None,
                          phases=(Phase.generate, Phase.shrink),
                          suppress_health_check=list(HealthCheck)))
