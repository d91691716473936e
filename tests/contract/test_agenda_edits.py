"""A file that is loaded while beats are at work: nobody runs or writes by older rules, on both databases (rule S2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from models.agenda import records
from models.db import Database
from models.schedules import schedule_config
from tasks.schedule import ticking
from tests.support.agenda import Beat, at, fleet
from tests.support.gates import Gate
from tests.support.ledger import in_thread


@pytest.fixture
def beat(database: Database) -> Beat:
    beat = fleet(database, "2026-05-01 06:30")
    beat.configure(hourly={"every": "1h"})
    beat.tick()
    return beat


def test_a_beat_that_stood_still_over_an_edit_does_not_start_by_the_old_rules(
    beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked, and stops before its turn; the file is loaded, and another beat writes the row by it."""
    gate = Gate(monkeypatch, records, "due_names")
    slow = in_thread(lambda: beat.tick("2026-05-01 07:00"))
    assert gate.reached.wait(10)
    beat.configure(hourly={"every": "1h", "targets": ["t3"], "priority": 7})
    Beat(beat.db, at("2026-05-01 06:59:59"), beat.settings).tick()
    by_new = beat.entry()
    gate.open.set()
    found = slow.result(20)
    assert (found.started, found.look_again) == (0, True)
    assert (beat.entry(), beat.jobs()) == (by_new, []), "an older configuration was written over a newer one"
    assert beat.tick("2026-05-01 07:00:01").started == 1
    assert [(job["target_code"], job["priority"]) for job in beat.jobs()] == [("t3", 7)]


def test_a_beat_that_stood_still_before_it_writes_what_it_read_leaves_newer_rows_alone(
    beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Beat(beat.db, beat.now, beat.settings)
    beat.configure(hourly={"at": ["06:50"]})
    gate = Gate(monkeypatch, ticking, "synchronise")
    slow = in_thread(lambda: beat.tick("2026-05-01 06:40"))
    assert gate.reached.wait(10)
    beat.configure(hourly={"at": ["09:10"]})
    other.tick("2026-05-01 06:41")
    gate.open.set()
    assert slow.result(20).look_again
    assert beat.entry()["due_at"] == at("2026-05-01 09:10")
    beat.tick("2026-05-01 06:50")
    assert beat.runs() == []


@pytest.mark.parametrize("change", [{"targets": ["t3"]}, {"enabled": False}])
def test_a_file_that_a_machine_with_a_slow_clock_loads_is_seen(beat: Beat, change: dict[str, Any]) -> None:
    """Another document is the newest by far, so that neither the newest moment nor their number says anything."""
    with beat.db.write() as conn:
        conn.execute(update(schedule_config).where(schedule_config.c.name == "hourly").values(
            document={"every": "1h", **change}, updated_at=datetime.now(UTC) - timedelta(hours=3)))
    beat.tick("2026-05-01 07:00")
    assert [job["target_code"] for job in beat.jobs()] == (["t3"] if "targets" in change else [])
