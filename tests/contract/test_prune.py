"""J17: history is kept for its days and pruned in portions; what is queued or running never is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from config.settings import Settings
from models.audit import read_audit
from models.db import Database
from models.groups import cooldowns, lane_wake
from models.jobs import attempts, jobs
from models.ledger import no_clock
from models.operations import notices, operations
from models.requests import requests, robots_copies
from models.sites import interval_history
from models.snapshots import snapshot_items, snapshots, vitals
from models.workers import marks, workers
from tests.support.ledger import SMALL, START, Bench, seed

DAY = 86_400.0


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def add(bench: Bench, table: Any, *rows: dict[str, Any]) -> None:
    with bench.db.write() as conn:
        conn.execute(insert(table), list(rows))


def days_ago(bench: Bench, days: float) -> Any:
    return bench.clock.now - timedelta(days=days)


def finished(bench: Bench, target: str = "t1", **more: Any) -> str:
    started = bench.begin(target, **more)
    bench.settle(started, result={"ok": True})
    return started.claim.job_id


def request(bench: Bench, number: int, days: float) -> dict[str, Any]:
    at = days_ago(bench, days)
    return {"group_key": "g1", "host": "h", "job_id": "j", "attempt": 1, "number": number, "url": "http://h/",
            "started_at": at, "ended_at": at + timedelta(seconds=1), "interval_sec": 1.0}


def test_finished_jobs_go_with_their_attempts_by_when_they_finished(bench: Bench) -> None:
    old = finished(bench)
    bench.clock.advance(29 * DAY)
    young = finished(bench, "t2")
    assert bench.ledger.prune().rows["jobs"] == 0
    bench.clock.advance(1 * DAY + 1)
    found = bench.ledger.prune()
    assert (found.rows["jobs"], found.rows["attempts"], found.finished) == (1, 1, True)
    assert [row["job_id"] for row in bench.rows(jobs)] == [young]
    assert {row["job_id"] for row in bench.rows(attempts)} == {young}
    assert old not in {row["job_id"] for row in bench.rows(jobs)}


def test_dead_letters_and_cancelled_jobs_go_too_but_never_what_is_queued_or_running(bench: Bench) -> None:
    bench.settle(bench.begin("t1", max_attempts=1), RuntimeError("no"))
    bench.ledger.cancel(bench.submit("t1b").job_id)
    running, queued = bench.begin("t2").claim.job_id, bench.submit("t3").job_id
    bench.clock.advance(400 * DAY)
    found = bench.ledger.prune().rows
    assert (found["jobs"], found["attempts"]) == (2, 1)
    assert {row["job_id"] for row in bench.rows(jobs)} == {running, queued}
    assert [row["job_id"] for row in bench.rows(attempts)] == [running]


def test_a_job_whose_callbacks_are_to_be_sent_is_their_outbox_and_stays(bench: Bench) -> None:
    waits, sent = finished(bench), finished(bench, "t2")
    bench.change(jobs, callbacks={"link": []})
    bench.change(jobs, jobs.c.job_id == sent, callbacks_sent_at=bench.clock.now)
    bench.clock.advance(31 * DAY)
    assert bench.ledger.prune().rows["jobs"] == 1
    assert [row["job_id"] for row in bench.rows(jobs)] == [waits]


def test_every_other_table_has_its_days(bench: Bench) -> None:
    add(bench, requests, request(bench, 1, 7.1), request(bench, 2, 6.9))
    add(bench, cooldowns, *({"group_key": "g1", "kind": "rate", "reason": "r", "at": days_ago(bench, 40), "until": until}
                            for until in (days_ago(bench, 31), days_ago(bench, 29), days_ago(bench, -1))))
    step = {"target_code": "t1", "old_interval_sec": 1.0, "new_interval_sec": 2.0, "cause": "c"}
    add(bench, interval_history, *({**step, "at": days_ago(bench, 100 - n)} for n in range(3)),
        {**step, "target_code": "t2", "at": days_ago(bench, 1)})
    add(bench, operations, *({"at": days_ago(bench, days), "who": "w", "surface": "cli", "action": "pause"} for days in (31, 29)))
    add(bench, notices, *({"key": f"k{days}", "kind": "dead_letter", "at": days_ago(bench, days), "document": {},
                           "next_try_at": START} for days in (31, 29)))
    add(bench, robots_copies, *({"host": f"h{days}", "fetched_at": days_ago(bench, days), "decision": "rules"} for days in (8, 6)))
    worker = {"name": "w", "host": "h", "pid": 1, "pool": "solo", "concurrency": 1, "heartbeat_sec": 10.0, "started_at": START}
    add(bench, workers, *({**worker, "boot_id": f"b{days}", "heartbeat_at": days_ago(bench, days)} for days in (31, 29)))
    add(bench, vitals, *({"site_code": f"s{days}", "state": "unknown", "checked_at": days_ago(bench, days)} for days in (31, 29)))
    add(bench, lane_wake, {"group_key": "gone", "at": days_ago(bench, 1)}, {"group_key": "g1", "at": days_ago(bench, 1)})
    assert bench.ledger.prune().rows == {
        "jobs": 0, "attempts": 0, "runs": 0, "run_job": 0, "requests": 1, "cooldowns": 1, "interval_history": 2, "operations": 1,
        "notices": 1, "robots_copies": 1, "workers": 1, "lane_wake": 1, "snapshots": 0, "snapshot_items": 0, "vitals": 1}
    assert [row["number"] for row in bench.rows(requests)] == [2]
    assert len(bench.rows(cooldowns)) == 2  # an open one is never pruned
    assert {row["target_code"] for row in bench.rows(interval_history)} == {"t1", "t2"}  # the newest explains the present
    assert sum(bench.ledger.prune().rows.values()) == 0


def test_stat_dates_go_with_their_items_in_portions(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.ledger.upkeep.ROWS_AT_ONCE", 2)
    old, kept = days_ago(bench, 91).date(), days_ago(bench, 90).date()
    for day in (old, kept):
        add(bench, snapshots, {"stat_date": day, "updated_at": START})
        add(bench, snapshot_items, *({"stat_date": day, "target_code": code, "url": url, "src": "list", "seen_at": START}
                                     for code in ("t1", "t2") for url in ("a", "b", "c")))
    found = bench.ledger.prune(3)
    assert (found.rows["snapshot_items"], found.finished) == (6, False)
    assert bench.ledger.prune().rows["snapshots"] == 1
    assert {row["stat_date"] for row in bench.rows(snapshots)} == {kept} == {row["stat_date"] for row in bench.rows(snapshot_items)}
    assert len(bench.rows(snapshot_items)) == 6


def test_days_are_settings(bench: Bench) -> None:
    finished(bench)
    add(bench, requests, request(bench, 1, 0))
    bench.clock.advance(3 * DAY)
    assert sum(bench.ledger.prune().rows.values()) == 0
    short = Bench(bench.db, Settings(retention_days=2, request_log_days=1), clock=bench.clock)
    found = short.ledger.prune().rows
    assert (found["jobs"], found["attempts"], found["requests"]) == (1, 1, 1)


def test_it_goes_by_portions_and_says_whether_it_is_through(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.ledger.upkeep.JOBS_AT_ONCE", 2)
    monkeypatch.setattr("models.ledger.upkeep.ROWS_AT_ONCE", 2)
    ids = [finished(bench, ("t1", "t2", "t3")[n % 3]) for n in range(3)]
    bench.clock.advance(31 * DAY)
    add(bench, requests, *(request(bench, number, 20 - number) for number in range(5)))
    assert len(ids) == 3
    sums = []
    while not (found := bench.ledger.prune(1)).finished:
        sums.append({name: number for name, number in found.rows.items() if number})
    assert sums[:2] == [{"jobs": 2, "attempts": 2}, {"jobs": 1, "attempts": 1}]
    assert bench.rows(requests) == []
    assert bench.rows(jobs) == []


def test_a_requeue_at_the_same_moment_keeps_its_job(bench: Bench) -> None:
    """The delete looks again at what it deletes."""
    from models.statements import upkeep

    bench.settle(bench.begin("t1", max_attempts=1), RuntimeError("no"))
    bench.clock.advance(31 * DAY)
    before = {"b_before": days_ago(bench, 30)}
    with bench.db.read() as conn:
        found = list(conn.scalars(upkeep.old_jobs("failed", 10), before))
    bench.change(jobs, status="queued", finished_at=None)
    with bench.db.write() as conn:
        assert conn.scalars(upkeep.delete_jobs(found), before).all() == []
    assert len(found) == 1
    assert len(bench.rows(jobs)) == 1


def test_p5_the_audit_still_sees_attempts_whose_requests_are_no_longer_kept(bench: Bench) -> None:
    row = {"group_key": "g1", "site_code": "s1", "worker": "w", "boot_id": "b", "source": "manual", "attempt": 1, "outcome": "done"}
    add(bench, attempts, *({**row, "job_id": name, "claimed_at": days_ago(bench, 10), "finished_at": days_ago(bench, 9)}
                           for name in ("one", "two")))
    add(bench, requests, request(bench, 1, 9.5), request(bench, 2, 1), {**request(bench, 3, 1), "group_key": "g2", "host": "x"})
    bench.ledger.prune()
    with bench.db.look() as conn:
        found = read_audit(conn)
        assert found["requests"] == 2
        assert found["overlaps"] == 1  # of the two attempts
        assert found["groups"]["g1"]["violations"][0]["what"] == "overlap"
        assert found["covers"] == {
            "requests_since": days_ago(bench, 1).isoformat(), "attempts_since": days_ago(bench, 10).isoformat()}
        assert read_audit(conn, group="g2")["covers"]["attempts_since"] is None
        assert read_audit(conn, since=days_ago(bench, 2))["overlaps"] == 0


def test_counters_of_moments_are_no_history(bench: Bench) -> None:
    bench.ledger.take_turn("prune", 3600)
    bench.clock.advance(1000 * DAY)
    bench.ledger.prune()
    assert [row["name"] for row in bench.rows(marks)] == ["turn:prune"]
    assert Bench(bench.db, clock=no_clock).count("repairs") == 0
