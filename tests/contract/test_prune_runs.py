"""J17: runs of the schedule are kept for the days of history, and go with the rows that say which jobs they counted."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from models.db import Database
from models.ledger import Ledger
from models.schedules import run_job, runs
from tests.support.agenda import Beat, at, fleet


class Kept(Beat):
    """A beat whose entry runs each hour, and what is left of its history."""

    def prune(self, days: float, portions: int | None = None) -> dict[str, int]:
        """Let the upkeep look `days` behind the present moment."""
        found = Ledger(self.db, self.settings, lambda: self.now + timedelta(days=days)).prune(portions)
        return {name: found.rows[name] for name in ("runs", "run_job")}

    def hour(self, moment: str) -> None:
        """Let the run of this moment begin, and its jobs and itself end."""
        self.tick(moment)
        self.finish()
        self.later(seconds=5)

    def counted(self) -> list[int]:
        """Return the runs of which it is known which jobs they counted."""
        with self.db.read() as conn:
            return sorted(set(conn.scalars(select(run_job.c.run_id))))


@pytest.fixture
def beat(database: Database) -> Kept:
    made = fleet(database, "2026-05-01 06:30")
    kept = Kept(made.db, made.now, made.settings)
    kept.configure(hourly={"every": "1h"})
    kept.tick()
    return kept


def add(beat: Kept, moment: str, outcome: str | None, *, try_no: int = 1, started: bool = True) -> int:
    """Store a run as it would stand there, and return its id."""
    when = at(moment)
    row: dict[str, Any] = {
        "entry": "hourly", "occurrence": when, "try_no": try_no, "stat_date": when.date(), "source": "schedule",
        "started_at": when if started else None, "ended_at": when if outcome else None, "outcome": outcome,
        "recorded_at": when}
    with beat.db.write() as conn:
        return int(conn.execute(insert(runs).values(row).returning(runs.c.run_id)).scalar_one())


def test_runs_go_with_their_rows_of_jobs_by_when_they_ended(beat: Kept) -> None:
    beat.hour("2026-05-01 07:00")
    beat.hour("2026-05-10 07:00")
    assert beat.prune(20) == {"runs": 0, "run_job": 0}
    first, *_, last = [row["run_id"] for row in beat.runs()]
    assert beat.counted() == [first, last]
    assert beat.prune(22) == {"runs": 1, "run_job": 4}
    assert beat.counted() == [last] and first not in {row["run_id"] for row in beat.runs()}


def test_what_was_decided_without_a_run_goes_too(beat: Kept) -> None:
    for number, outcome in enumerate(("skipped", "deferred", "made_up", "failed"), 1):
        add(beat, f"2026-05-01 0{number}:00", outcome, started=outcome == "failed")
    newest = add(beat, "2026-05-01 06:00", "success")

    assert beat.prune(31) == {"runs": 4, "run_job": 0}
    assert [row["run_id"] for row in beat.runs()] == [newest]


def test_an_open_run_and_the_earlier_tries_that_it_counts_stay_however_old(beat: Kept) -> None:
    first, other = add(beat, "2026-05-01 01:00", "failed"), add(beat, "2026-05-01 02:00", "failed")
    second = add(beat, "2026-05-01 01:00", None, try_no=2)
    newest = add(beat, "2026-05-01 03:00", "success")

    assert beat.prune(400) == {"runs": 1, "run_job": 0}
    assert {row["run_id"] for row in beat.runs()} == {first, second, newest}
    assert other not in {first, second, newest}


def test_an_id_is_never_given_twice(beat: Kept) -> None:
    """The newest row stays, whatever its age, so that the next one has another id on both databases."""
    add(beat, "2026-05-01 01:00", "success")
    last = add(beat, "2026-05-01 02:00", "success")
    assert beat.prune(100)["runs"] == 1
    assert add(beat, "2026-08-20 02:00", "success") == last + 1


def test_a_large_run_goes_in_portions(beat: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.ledger.upkeep.ROWS_AT_ONCE", 2)
    large = add(beat, "2026-05-01 01:00", "success")
    add(beat, "2026-05-01 02:00", "success")
    with beat.db.write() as conn:
        conn.execute(insert(run_job), [{"run_id": large, "job_id": f"j{number}"} for number in range(5)])

    told = [beat.prune(31, portions=1) for _ in range(3)]

    assert told == [{"runs": 0, "run_job": 2}, {"runs": 0, "run_job": 2}, {"runs": 1, "run_job": 1}]
    assert beat.counted() == []


def test_a_schedule_goes_on_when_its_history_was_pruned_while_it_stood_still(beat: Kept) -> None:
    """A deferral whose row is gone still ends as what it is, and the entry goes on with its next moment."""
    beat.configure(nightly={"at": "23:30", "quiet": ["23:00", "01:00"], "catch_up": "2h"})
    beat.tick("2026-05-01 06:40")
    beat.tick("2026-05-01 23:30")
    assert beat.told("nightly") == ["23:30 deferred(quiet_window)"]
    add(beat, "2026-05-01 23:40", "success")
    assert beat.prune(40)["runs"] == 1

    beat.tick("2026-06-20 12:00")

    assert beat.told("nightly")[0] == "23:30 skipped(missed)"
    assert beat.entry("nightly")["due_at"] == at("2026-06-20 23:30")


def test_an_end_that_another_has_just_written_over_is_looked_at_again(beat: Kept) -> None:
    """A deferral that becomes a run between the look and the delete is under way, and stays."""
    from models.statements import schedules

    old = add(beat, "2026-05-01 01:00", "deferred", started=False)
    add(beat, "2026-05-01 02:00", "success")
    before: datetime = beat.now + timedelta(days=30)
    with beat.db.read() as conn:
        found = list(conn.scalars(schedules.old_runs(before, 10)))
    with beat.db.write() as conn:
        conn.execute(update(runs).where(runs.c.run_id == old).values(outcome=None, ended_at=None))
        assert (found, conn.execute(schedules.drop_runs(found)).rowcount) == ([old], 0)
