"""The facts behind `why` (J16), read from real rows on both databases."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import insert

from console import answers
from console.explain import Answer, explain
from models import queries
from models.db import Database
from models.groups import fleet, rate_groups
from models.jobs import jobs
from models.queries import line
from models.workers import workers
from tests.support.ledger import SMALL, START, Bench, objection, seed

ZONE = ZoneInfo("Asia/Shanghai")


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    made = Bench(database)
    with database.write() as conn:
        conn.execute(insert(workers).values(
            boot_id="boot-w", name="w", host="h", pid=1, pool="threads", concurrency=4, started_at=START,
            heartbeat_at=START, consuming_at=START, heartbeat_sec=3600.0))
    return made


def why(bench: Bench, job_id: str) -> Answer:
    with bench.db.look() as conn:
        facts = queries.facts(conn, job_id, bench.clock.now)
    assert facts is not None
    return explain(facts, ZONE)


def codes(bench: Bench, job_id: str) -> list[str]:
    return [one.code for one in why(bench, job_id).reasons]


def test_an_unknown_id_has_no_facts(bench: Bench) -> None:
    with bench.db.look() as conn:
        assert queries.facts(conn, "nobody") is None


def test_a_line_is_counted_whole_and_read_in_part(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "SAMPLE", 3)
    first, *_, last = [bench.submit("t1", priority=priority).job_id for priority in (5, 100, 100, 100, 100, 100)]
    bench.submit("t1", priority=200)
    bench.submit("t1", priority=1, delay_sec=60)  # not due: it holds up nobody
    answer = why(bench, last)
    assert (answer.position, answer.expected_start) == (6, None)
    assert [(one.code, one.by) for one in answer.reasons] == [("behind", first)]
    assert "behind 5 jobs" in answer.reasons[0].text
    assert why(bench, first).position == 1


def test_the_expected_start_stands_on_what_the_lane_took_lately(bench: Bench) -> None:
    for seconds in (20.0, 40.0, 30.0):
        started = bench.begin("t1")
        bench.clock.advance(seconds)
        bench.settle(started)
    first, last = (bench.submit("t1").job_id for _ in range(2))
    assert why(bench, first).expected_start == bench.clock.now
    assert why(bench, last).expected_start == bench.clock.now + timedelta(seconds=30 + 10)


def test_a_cooldown_names_the_job_that_caused_it(bench: Bench) -> None:
    started = bench.begin("t1")
    waits = bench.submit("t1b").job_id
    bench.clock.advance(1)
    bench.settle(started, objection())
    (reason,) = why(bench, waits).reasons
    assert (reason.code, reason.by, reason.until) == (
        "cooldown", started.claim.job_id, bench.clock.now + timedelta(seconds=600))
    assert codes(bench, started.claim.job_id) == ["cooldown", "behind"]


def test_a_pause_of_all_lanes_and_a_target_that_is_gone_are_told(bench: Bench) -> None:
    job_id = bench.submit("t1").job_id
    bench.change(fleet, operator_pause_until=bench.clock.now + timedelta(seconds=60), operator_pause_by="ann")
    bench.change(jobs, target_code="old")
    (reason,) = why(bench, job_id).reasons
    assert (reason.code, reason.by) == ("paused", "ann")
    assert "target old is gone" in reason.text


def test_a_lane_that_nobody_made_is_served_by_no_worker(bench: Bench) -> None:
    job_id = bench.submit(None, group="_nowhere", kind="export").job_id
    assert codes(bench, job_id) == ["no_worker"]


def test_many_jobs_are_told_in_as_many_statements_as_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    running = bench.begin("t1").claim.job_id
    ids = [bench.submit(code, **more).job_id for code, more in (
        ("t1b", {}), ("t2", {}), ("t2", {}), ("t3", {"delay_sec": 90.0}))]
    bench.change(rate_groups, rate_groups.c.key == "g2", operator_pause_until=bench.clock.now + timedelta(seconds=60))
    monkeypatch.setattr(queries, "many", lambda conn, some: _counted(bench, conn, some))
    with bench.db.look() as conn:
        told = answers.notes(conn, [running, *ids, "nobody"])
        lanes = queries.next_up(conn, ["g1", "g2", "g3", "g9"], bench.clock.now)
    assert told == {running: "running", ids[0]: "lane busy", ids[1]: "paused 1 min 0 s", ids[2]: "paused 1 min 0 s",
                    ids[3]: "not due 1 min 30 s"}
    assert lanes == {"g1": ids[0], "g2": ids[1], "g3": ids[3]}


def _counted(bench: Bench, conn: Any, some: list[str]) -> Any:
    from sqlalchemy import event

    sent: list[str] = []
    event.listen(bench.db.engine, "before_cursor_execute", lambda *args: sent.append(args[2]))
    found = queries.waiting.many(conn, some, bench.clock.now)
    assert len([one for one in sent if one.startswith("SELECT")]) <= 9, sent
    return found
