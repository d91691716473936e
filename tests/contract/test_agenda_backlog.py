"""Much at once: many ends keep no start waiting, and no worker for a night leaves no pile (rules S2, S7, S8; W63)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from models.db import Database
from tests.support.agenda import Beat, at, fleet

HOUR = {"every": "1h", "targets": ["t1"]}
MANY = {f"all-{number:02}": HOUR for number in range(30)}


@pytest.fixture
def beat(database: Database, monkeypatch: pytest.MonkeyPatch) -> Beat:
    monkeypatch.setattr("tasks.schedule.ticking.ENDS_WITHIN_SEC", 0.0)
    return fleet(database, "2026-05-01 06:30")


def test_a_backlog_of_ends_keeps_no_entry_waiting_and_is_worked_off_by_the_next_ticks(beat: Beat) -> None:
    beat.configure(**MANY, late={"at": "07:01"})
    beat.tick()
    assert beat.tick("2026-05-01 07:00").started == 30
    beat.finish()

    found = beat.tick("2026-05-01 07:01")

    assert (found.started, found.ended, found.look_again) == (1, 2, True), "one end before what is due, one behind it"
    ended = found.ended
    while found.look_again:
        found = beat.later()
        ended += found.ended
    assert ended == 30
    assert {told for name in MANY for told in beat.told(name)} == {"07:00 success"}
    assert beat.told("late") == ["07:01 running"]


def test_a_run_that_is_over_makes_up_no_later_moment_however_long_the_backlog(beat: Beat) -> None:
    """Each entry that is due finds its own run ended, though one tick would not have come to it."""
    beat.configure(**MANY)
    beat.tick()
    beat.tick("2026-05-01 07:00")
    beat.finish()

    assert beat.tick("2026-05-01 08:00").started == 30

    assert {tuple(beat.told(name)) for name in MANY} == {("07:00 success", "08:00 running")}


def test_w63_a_night_without_workers_leaves_one_job_a_target_and_then_one_crawl(beat: Beat) -> None:
    """An entry of a second, and for a minute nobody who works: one run, one job for each target, no pile."""
    beat.configure(fast={"every": "1s"})
    beat.tick("2026-05-01 06:59:59")
    for second in range(60):
        beat.tick(at("2026-05-01 07:00") + timedelta(seconds=second))
        assert len(beat.jobs()) == 4
    assert [row["outcome"] for row in beat.runs("fast")] == [None, *["made_up"] * 59]

    beat.finish()
    beat.later(seconds=1)

    assert [row["outcome"] for row in beat.runs("fast")] == ["success", *["made_up"] * 59, None]
    assert len(beat.jobs()) == 8
