"""J15: the numbers of `ops` and `counts` mean exactly what the specification says, zeros included."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.errors import JobDeadlineExceeded
from models import queries
from models.base import FAR
from models.db import Database
from models.groups import fleet, rate_groups
from models.jobs import attempts, jobs
from models.ledger import no_clock
from models.queries.reading import db_moment
from models.sites import targets
from models.workers import workers
from tests.support.ledger import SMALL, Bench, seed


@pytest.fixture
def bench(database: Database) -> Bench:
    """A bench under the database's own clock: queries know no other."""
    seed(database, SMALL)
    return Bench(database, clock=no_clock)


def ops(bench: Bench) -> dict[str, Any]:
    with bench.db.look() as conn:
        return queries.ops(conn)


def ago(bench: Bench, seconds: float) -> Any:
    with bench.db.read() as conn:
        return db_moment(conn) - timedelta(seconds=seconds)


def test_an_empty_installation_answers_every_name_in_its_order(bench: Bench) -> None:
    found = ops(bench)
    assert tuple(found) == queries.OPS
    assert found == dict.fromkeys(queries.OPS, 0) | {"oldest_pending_sec": 0.0, "broker_ok": None, "database_ok": True}
    with bench.db.look() as conn:
        assert queries.counts(conn) == {"queued": 0, "running": 0, "done": 0, "failed": 0, "cancelled": 0}


def test_every_state_is_counted_once(bench: Bench) -> None:
    bench.settle(bench.begin(), result={"ok": True})
    bench.change(rate_groups, rate_groups.c.key == "g1", next_request_at=None)
    bench.settle(bench.begin("t2", max_attempts=1), RuntimeError("no"))
    bench.ledger.cancel(bench.submit().job_id)
    bench.begin("t3")
    bench.submit("t1b")
    found = ops(bench)
    assert {name: found[name] for name in queries.OPS[:5]} == dict.fromkeys(queries.OPS[:5], 1)
    assert (found["dead_1h"], found["stuck_running"], found["deadline_1h"]) == (1, 0, 0)
    bench.change(jobs, jobs.c.status == "failed", finished_at=ago(bench, 3_700))
    assert (ops(bench)["dead"], ops(bench)["dead_1h"]) == (1, 0)


def test_the_oldest_pending_job_is_the_one_that_has_been_due_longest(bench: Bench) -> None:
    put_off, waiting, later, over = (bench.submit(target).job_id for target in ("t1", "t2", "t3", "t1b"))
    bench.change(jobs, jobs.c.job_id == put_off, queue_at=ago(bench, 9_000), run_after=ago(bench, 50))
    bench.change(jobs, jobs.c.job_id == waiting, queue_at=ago(bench, 200))
    bench.change(jobs, jobs.c.job_id == later, queue_at=ago(bench, 9_000), run_after=ago(bench, -60))
    bench.change(jobs, jobs.c.job_id == over, queue_at=ago(bench, 9_000), expires_at=ago(bench, 1))
    assert 200 <= ops(bench)["oldest_pending_sec"] < 230


@pytest.mark.parametrize(("interval", "silent", "stuck"), [(1.0, 590, 0), (1.0, 620, 1), (300.0, 620, 0), (300.0, 920, 1)])
def test_a_running_job_is_stuck_without_progress_for_ten_minutes_or_three_intervals(
    bench: Bench, interval: float, silent: float, stuck: int
) -> None:
    started = bench.begin()
    bench.change(targets, interval_sec=interval)
    bench.change(jobs, jobs.c.job_id == started.claim.job_id, updated_at=ago(bench, silent))
    assert ops(bench)["stuck_running"] == stuck


def test_a_running_job_is_stuck_once_its_lease_is_over(bench: Bench) -> None:
    started = bench.begin()
    bench.change(jobs, jobs.c.job_id == started.claim.job_id, lease_until=ago(bench, 1))
    assert ops(bench)["stuck_running"] == 1


def test_used_up_deadlines_of_the_last_hour_are_counted_the_last_one_too(bench: Bench) -> None:
    job_id = bench.submit(deadline_sec=1).job_id
    for number in range(4):
        bench.change(rate_groups, rate_groups.c.key == "g1", next_request_at=None)
        bench.change(jobs, jobs.c.job_id == job_id, run_after=None)
        with bench.db.write() as conn:
            bench.ledger.hot.refresh(conn, ["g1"], None)
        bench.settle(bench.start(bench.claim()), JobDeadlineExceeded("ran longer than 1 s"))
        assert ops(bench)["deadline_1h"] == number + 1
    assert bench.job(job_id)["status"] == "failed"
    bench.change(attempts, attempts.c.attempt == 1, finished_at=ago(bench, 3_700))
    assert ops(bench)["deadline_1h"] == 3


def test_paused_groups_are_those_of_cooldowns_and_operators_or_all(bench: Bench) -> None:
    assert ops(bench)["groups_paused"] == 0
    bench.change(rate_groups, rate_groups.c.key == "g1", pause_until=ago(bench, -60), operator_pause_until=FAR)
    bench.change(rate_groups, rate_groups.c.key == "g2", operator_pause_until=FAR)
    bench.change(rate_groups, rate_groups.c.key == "g3", pause_until=ago(bench, 1))
    assert ops(bench)["groups_paused"] == 2
    bench.change(fleet, fleet.c.id == 1, operator_pause_until=FAR)
    assert ops(bench)["groups_paused"] == len(bench.rows(rate_groups))


def test_workers_are_those_that_live(bench: Bench) -> None:
    row = {"host": "h", "pid": 1, "pool": "solo", "concurrency": 1, "lanes": None, "heartbeat_sec": 10.0}
    for boot in ("a", "b", "c"):
        bench.ledger.greet({"boot_id": boot, "name": boot, **row})
    bench.ledger.seen("b", stopped=True)
    bench.change(workers, workers.c.boot_id == "c", heartbeat_at=ago(bench, 60))
    assert ops(bench)["workers"] == 1
