"""S9: who loads a file or previews hears which group's day is too short, and which entry overloads it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import insert

from config import clock
from config.settings import Settings
from console.actions.capacity import overload_notes
from models.db import Database
from models.requests import requests
from models.schedules import run_job, runs
from tasks.schedule.entries import configured
from tasks.schedule.syncing import synchronise
from tests.support.ledger import SMALL, Bench, seed

SETTINGS = Settings()


@pytest.fixture
def bench(database: Database) -> Bench:
    """A group of which the last hourly run asked a hundred things, with 40 s after each."""
    seed(database, SMALL, interval_sec=40.0)
    found, now = Bench(database), clock.now()
    with database.read() as conn:
        known = configured(conn, SETTINGS)
    synchronise(database, known, now)
    started = found.begin("t1")
    found.settle(started, result={"ok": True})
    with database.write() as conn:
        run_id = conn.execute(insert(runs).values(
            entry="snapshot_recent", occurrence=now - timedelta(hours=1), try_no=1, stat_date=now.date(), source="schedule",
            started_at=now - timedelta(hours=1), ended_at=now, outcome="success", total=1, recorded_at=now,
        ).returning(runs.c.run_id)).scalar_one()
        conn.execute(insert(run_job).values(run_id=run_id, job_id=started.claim.job_id, target_code="t1", site_code="s1"))
        conn.execute(insert(requests).values(
            group_key="g1", host="h", job_id=started.claim.job_id, attempt=1, number=100, url="http://h/", started_at=now,
            ended_at=now))
    return found


def test_a_day_that_is_too_short_is_told_with_the_entry_that_takes_most(bench: Bench) -> None:
    assert overload_notes(bench.db, SETTINGS) == [
        "g1 needs 88,000 s of a day's 86,400 s; snapshot_recent takes 88,000 s of them in 22 runs"]


def test_a_file_that_is_not_stored_yet_is_judged_by_what_it_says(bench: Bench) -> None:
    assert overload_notes(bench.db, SETTINGS, {"snapshot_recent": {"every": 7200}}) == []
    assert overload_notes(bench.db, SETTINGS, {"snapshot_recent": {"every": 1800}})[0].endswith("in 44 runs")
    assert overload_notes(bench.db, SETTINGS, {"snapshot_recent": {"enabled": False}}) == []


def test_where_nothing_has_run_nothing_is_said(database: Database) -> None:
    assert overload_notes(database, SETTINGS) == []
