"""The jobs that the schedule starts beside crawls: what they write, and what they say of it (rule S7)."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from config.errors import StaleClaim
from models.attempt import enter
from models.ledger import NewJob
from models.queries.reading import db_moment
from models.schedules import entries, runs
from models.snapshots import candidates, snapshot_items, snapshots
from models.snapshots_book import Fence, SnapshotBook
from routing.kinds import INTERNAL_LANES
from tasks.jobs.cleanup import clean_candidates
from tasks.jobs.seed import seed_snapshot
from tests.support.ledger import START

OLD, DAY = date(2026, 11, 29), date(2026, 11, 30)


def add(bench: Any, table: Any, *rows: dict[str, Any]) -> None:
    with bench.db.write() as conn:
        conn.execute(insert(table), list(rows))


def item(url: str, day: date = OLD, target: str = "t1", **more: Any) -> dict[str, Any]:
    return {"stat_date": day, "target_code": target, "url": url, "hash": f"h-{url}", "mark": f"m-{url}", "src": "list",
            "ok": True, "seen_at": START, **more}


def run_body(bench: Any, task: Any, kind: str, **options: Any) -> dict[str, Any]:
    """Run a job of an internal lane to its end, as a worker would; returns its result."""
    bench.ledger.submit(None, NewJob(kind=kind, group=INTERNAL_LANES[kind], options=options))
    attempt = bench.attempt_on(INTERNAL_LANES[kind])
    enter(attempt)
    task.push_request(id=attempt.claim.job_id)
    try:
        attempt.finish(task())
    finally:
        task.pop_request()
        enter(None)
    found: dict[str, Any] = bench.job(attempt.claim.job_id)["result"]
    return found


def seed_for(bench: Any, day: date = DAY) -> dict[str, Any]:
    return run_body(bench, seed_snapshot, "snapshot_seed", stat_date=day.isoformat())


def items(bench: Any, day: date = DAY) -> dict[str, tuple[str, bool, str]]:
    return {row["url"]: (row["src"], row["ok"], row["hash"]) for row in bench.rows(snapshot_items) if row["stat_date"] == day}


def complete(bench: Any, day: date = OLD, **more: Any) -> None:
    add(bench, snapshots, {"stat_date": day, "completed_at": START, "completed_run": 7, "updated_at": START, **more})


def test_s7_a_seed_clones_the_last_completed_snapshot_and_keeps_what_was_really_seen(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.snapshots_book.SEED_AT_ONCE", 2)
    for ago in (1, 2):
        complete(bench, DAY - timedelta(days=ago))
    add(bench, snapshot_items, *(item(url) for url in "abcde"), item("older", OLD - timedelta(days=1)),
        item("b", DAY, hash="seen today"), item("c", DAY, src="seed", ok=False, hash="an older seed"),
        item("a", target="t1b"))
    found = seed_for(bench)
    assert found == {"outcome": "success", "reason": "", "again_in": None,
                     "progress": {"source": "2026-11-29", "done": 6, "failed": 0, "total": 6}}
    assert items(bench) == {
        "a": ("seed", False, "h-a"), "b": ("list", True, "seen today"), "c": ("seed", False, "h-c"),
        "d": ("seed", False, "h-d"), "e": ("seed", False, "h-e")}
    assert {row["target_code"] for row in bench.rows(snapshot_items) if row["stat_date"] == DAY} == {"t1", "t1b"}
    assert {row["mark"] for row in bench.rows(snapshot_items) if row["src"] == "seed"} == {f"m-{url}" for url in "acde"}
    (row,) = [row for row in bench.rows(snapshots) if row["stat_date"] == DAY]
    assert (row["seeded_from"], row["completed_at"], row["seeded_at"] is not None) == (OLD, None, True)
    before = items(bench)
    assert seed_for(bench)["outcome"] == "success" and items(bench) == before


def test_s7_a_seed_leaves_out_what_a_walked_list_showed_no_more(bench: Any) -> None:
    complete(bench)
    gone = {"src": "seed", "ok": False}
    add(bench, snapshot_items, item("a"), item("gone", **gone), item("not walked", target="t1b", **gone))
    seed_for(bench)
    assert sorted(items(bench)) == ["a", "not walked"]


def test_s7_a_completed_day_needs_no_seed(bench: Any) -> None:
    complete(bench)
    complete(bench, DAY)
    add(bench, snapshot_items, item("a"))
    assert (found := seed_for(bench))["outcome"] == "success" and found["reason"] == "already_completed"
    assert items(bench) == {}


def test_s7_a_seed_is_deferred_for_ten_minutes_while_a_snapshot_runs(bench: Any) -> None:
    complete(bench)
    add(bench, runs, {"entry": "snapshot", "occurrence": START, "try_no": 1, "stat_date": OLD, "source": "schedule",
                      "recorded_at": START})
    found = seed_for(bench)
    assert (found["outcome"], found["reason"], found["again_in"], items(bench)) == ("deferred", "snapshot_running", 600, {})


@pytest.mark.parametrize(("skips", "again"), [(0, 600), (4, 600), (5, 3600), (40, 3600)])
def test_s7_without_a_source_it_is_skipped_and_after_six_in_a_row_asked_for_hourly(bench: Any, skips: int, again: int) -> None:
    complete(bench, DAY + timedelta(days=1))
    add(bench, entries, {"name": "snapshot_seed", "rules": {}, "status": "running", "plan": {"skips_row": skips}, "updated_at": START})
    found = seed_for(bench)
    assert (found["outcome"], found["reason"], found["again_in"]) == ("skipped", "no_source", again)


def test_j7_portions_of_an_attempt_that_is_over_are_refused(bench: Any) -> None:
    complete(bench)
    add(bench, snapshot_items, item("a"))
    add(bench, candidates, {"site_code": "s1", "url": "u", "first_seen_at": START, "last_seen_at": START - timedelta(days=99)})
    book, fence = SnapshotBook(bench.db, bench.settings, bench.clock), Fence("gone", 1, 1.0)
    for write in (lambda: book.seed(DAY, OLD, ("", ""), [], fence), lambda: book.seeded(DAY, OLD, START, fence),
                  lambda: book.drop_candidates(1.0, fence)):
        with pytest.raises(StaleClaim):
            write()
    assert (items(bench), len(bench.rows(candidates)), len(bench.rows(snapshots))) == ({}, 1, 1)


def test_s7_candidates_that_were_not_seen_for_a_fortnight_are_removed_in_portions(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.snapshots_book.DROP_AT_ONCE", 2)
    with bench.db.read() as conn:
        now = db_moment(conn)  # a body's own clock is the database's
    ages = {"fresh": 0.0, "kept": 13.9, **{f"old{number}": 14.1 + number for number in range(5)}}
    add(bench, candidates, *({"site_code": "s1", "url": url, "first_seen_at": now, "last_seen_at": now - timedelta(days=days)}
                             for url, days in ages.items()))
    found = run_body(bench, clean_candidates, "candidate_cleanup")
    assert (found["outcome"], found["progress"]) == ("success", {"removed": 5})
    assert {row["url"] for row in bench.rows(candidates)} == {"fresh", "kept"}
