"""What past runs asked of each target, as the capacity check reads it (rule S9)."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from sqlalchemy import insert

from models.db import Database
from models.groups import rate_groups
from models.jobs import attempts
from models.queries import usual
from models.queries.usual import Asked, usual_requests
from models.requests import requests
from models.schedules import run_job, runs
from tests.support.ledger import SMALL, START, Bench, seed

DAY = timedelta(days=1)


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL, interval_sec=2.0)
    return Bench(database)


class Past:
    """Stores what runs did."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self._count = bench, 0

    def run(self, entry: str, asked: dict[str, list[int]], *, outcome: str | None = "success", at: datetime = START) -> int:
        """Store a run that asked so many requests of each target, a number an attempt; return its id."""
        with self.bench.db.write() as conn:
            run_id: int = conn.execute(insert(runs).values(
                entry=entry, occurrence=at + timedelta(microseconds=self._next()), try_no=1, stat_date=date(2026, 11, 30),
                source="schedule", started_at=at, ended_at=at if outcome else None, outcome=outcome, total=len(asked),
                recorded_at=at).returning(runs.c.run_id)).scalar_one()
        for target, numbers in asked.items():
            self._job(run_id, target, numbers)
        return run_id

    def _job(self, run_id: int, target: str, numbers: list[int]) -> None:
        self.bench.clock.advance(3_600)
        started = self.bench.begin(target)
        claim = started.claim
        self.bench.settle(started, result={"ok": True})
        further = [{"job_id": claim.job_id, "attempt": attempt, "group_key": claim.group, "worker": "w", "boot_id": "b",
                    "source": "retry", "claimed_at": START} for attempt in range(2, len(numbers) + 1)]
        sent = [{"group_key": claim.group, "host": "h", "job_id": claim.job_id, "attempt": attempt, "number": number,
                 "url": "http://h/", "started_at": START, "ended_at": START}
                for attempt, last in enumerate(numbers, 1) for number in range(1, last + 1)]
        with self.bench.db.write() as conn:
            conn.execute(insert(run_job).values(run_id=run_id, job_id=claim.job_id, target_code=target, site_code="s"))
            for table, rows in ((attempts, further), (requests, sent)):
                if rows:
                    conn.execute(insert(table), rows)

    def asked(self, *names: str, since: datetime = START - DAY) -> list[Asked]:
        """Ask for what is usual."""
        with self.bench.db.look() as conn:
            return usual_requests(conn, names, since)

    def _next(self) -> int:
        self._count += 1
        return self._count


@pytest.fixture
def past(bench: Bench) -> Past:
    return Past(bench)


def test_requests_of_all_attempts_of_a_run_are_added(past: Past) -> None:
    past.run("recent", {"t1": [3, 4], "t2": [5]})
    assert past.asked("recent") == [Asked("recent", "g1", "t1", 7.0, 2.0, 0.0, 1), Asked("recent", "g2", "t2", 5.0, 2.0, 0.0, 1)]


def test_the_mean_is_of_the_last_runs_in_which_a_target_was_asked(past: Past) -> None:
    past.run("recent", {"t1": [100]})
    for number in (2, 4, 6):
        past.run("recent", {"t1": [number], **({"t2": [9]} if number == 6 else {})})
    assert [(each.target_code, each.requests, each.runs) for each in past.asked("recent")] == [("t1", 4.0, 3), ("t2", 9.0, 1)]


def test_runs_that_failed_that_run_or_that_the_log_no_longer_knows_count_for_nothing(past: Past) -> None:
    past.run("recent", {"t1": [3]})
    past.run("recent", {"t1": [50]}, outcome="failed")
    past.run("recent", {"t1": [60]}, outcome=None)
    past.run("recent", {"t1": [70]}, at=START - 2 * DAY)
    past.run("other", {"t1": [80]})
    assert [each.requests for each in past.asked("recent")] == [3.0]
    assert past.asked("recent", since=START + DAY) == []


def test_no_more_runs_are_read_than_the_bound_allows_but_always_one(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usual, "MOST_JOBS", 1)
    past.run("recent", {"t1": [3], "t2": [3]})
    past.run("recent", {"t1": [5], "t2": [5]})
    assert [(each.requests, each.runs) for each in past.asked("recent")] == [(5.0, 1), (5.0, 1)]


def test_the_gap_in_force_and_the_usual_answer_of_the_group_are_told(past: Past) -> None:
    past.run("recent", {"t1": [1]})
    past.bench.change(rate_groups, rate_groups.c.key == "g1", crawl_delay_sec=30.0, usual_latency_sec=0.5)
    (found,) = past.asked("recent")
    assert (found.gap_sec, found.response_sec) == (30.0, 0.5)
