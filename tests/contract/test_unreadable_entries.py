"""Rows of entries that nobody can read, on both databases: the others go on, and the failure is told (rule S4)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from config import clock
from models.agenda import records
from models.db import Database
from models.operations import Operator
from tasks.schedule import by_hand, listing
from tasks.schedule.rows import standing_of
from tests.support.agenda import SHANGHAI, Beat, at, fleet

HOURLY = {"every": "1h"}
#: documents of a column that some other release may have written
PLANS: dict[str, Any] = {
    "a list": [1], "nothing": {}, "an unknown word": {"due_for": "whenever"}, "a broken run": {"running": {"run": 7}},
    "a broken moment": {"occurrence": "noon", "after": 5}, "a broken number": {"try_no": "many", "failures": None},
}


@pytest.fixture
def beat(database: Database, monkeypatch: pytest.MonkeyPatch) -> Beat:
    beat = fleet(database, "2026-05-01 06:30")
    beat.configure(bad=HOURLY, hourly=HOURLY)
    monkeypatch.setattr(clock, "now", lambda: beat.now)
    beat.tick()
    return beat


def write(beat: Beat, column: str, value: Any) -> None:
    """Write into a column of the bad entry's row what no release of ours does."""
    mark = "?" if beat.db.dialect == "sqlite" else "%s"
    with beat.db.write() as conn:
        conn.exec_driver_sql(f"UPDATE entries SET {column} = {mark} WHERE name = 'bad'", (value,))


def another(beat: Beat) -> Beat:
    """Return a beat that starts now, and so reads every row."""
    return Beat(beat.db, beat.now, beat.settings)


def shown(beat: Beat) -> dict[str, Any]:
    """Return how the bad entry is listed; every entry is."""
    found = {one["name"]: one for one in listing.entries(beat.db, beat.settings)}
    assert {"bad", "hourly", "snapshot"} <= found.keys()
    return found["bad"]


def assert_repaired(beat: Beat) -> None:
    standing_of(beat.entry("bad"))
    assert beat.entry("bad")["plan"].keys() == beat.entry()["plan"].keys(), "some keys are those of the broken row"


@pytest.mark.parametrize("broken", list(PLANS))
def test_a_plan_that_cannot_be_read_fails_its_entry_alone_and_is_written_anew(beat: Beat, broken: str) -> None:
    plan = PLANS[broken]
    whole = beat.entry("bad")["plan"]
    write(beat, "plan", json.dumps({**whole, **plan} if isinstance(plan, dict) and plan else plan))
    told = shown(beat)
    assert (told["status"], told["last_outcome"]["outcome"], told["due_at"][11:16]) == ("failed", "failed", "07:00")
    assert told["last_outcome"]["reason"].startswith("the row cannot be read: ")
    lines = [line for line in listing.preview(beat.db, beat.settings, beat.now, beat.now + timedelta(hours=2))
             if line["name"] == "bad"]
    assert [(line["due_at"][11:16], line["action"]) for line in lines][:2] == [("07:00", "skip"), ("07:05", "run")]
    assert lines[0]["reason"].startswith("the row cannot be read: ")

    beat = another(beat)
    beat.configure(bad=HOURLY | {"priority": 3}, hourly=HOURLY | {"priority": 3})
    beat.tick("2026-05-01 06:40")
    assert beat.told("bad") == [], "its moment has not come"
    beat.tick("2026-05-01 07:00")
    assert beat.told() == ["07:00 running"]
    [failed] = beat.told("bad")
    assert failed.startswith("07:00 failed(")
    assert_repaired(beat)
    assert (beat.entry("bad")["status"], beat.entry("bad")["due_at"]) == ("failed", at("2026-05-01 07:05"))
    beat.tick("2026-05-01 07:05")
    assert beat.told("bad")[1:] == ["07:00 running"]
    beat.finish()
    beat.later(minutes=1)
    assert (beat.told("bad")[1:], shown(beat)["status"]) == (["07:00 success"], "done")


@pytest.mark.parametrize("rules", [[], {}, {"every": "often"}, {"at": ["noon"], "zone": "Nowhere/Town"}])
def test_rules_that_cannot_be_read_are_those_of_the_file(beat: Beat, rules: Any) -> None:
    write(beat, "rules", json.dumps(rules))
    assert shown(beat)["due_at"][11:16] == "07:00"
    another(beat).tick("2026-05-01 07:00")
    assert (beat.told("bad"), beat.told()) == (["07:00 running"], ["07:00 running"])


def test_an_entry_of_no_file_whose_row_cannot_be_read_is_disabled(beat: Beat) -> None:
    beat.configure(hourly=HOURLY)
    write(beat, "rules", "[]")
    beat = another(beat)
    beat.tick("2026-05-01 07:00")
    assert beat.told() == ["07:00 running"]
    assert (beat.entry("bad")["enabled"], beat.entry("bad")["due_at"], beat.told("bad")) == (False, None, [
        "07:00 skipped(disabled)"])


@pytest.mark.parametrize(("column", "value"), [
    ("last_outcome", '{"word": "success"}'), ("progress", "[3]"), ("last_outcome", '"done"')])
def test_what_is_remembered_and_cannot_be_read_is_the_failure_of_the_next_moment(beat: Beat, column: str, value: str) -> None:
    write(beat, column, value)
    shown(beat)
    beat.tick("2026-05-01 07:00")
    assert beat.told() == ["07:00 running"]
    beat.later(minutes=5)
    assert beat.told("bad")[-1] == "07:00 running"
    assert_repaired(beat)


@pytest.mark.parametrize("again", [False, True])
def test_a_due_moment_that_is_none_is_told_and_the_next_regular_one_is_planned(beat: Beat, again: bool) -> None:
    """A hand wrote it: SQLite takes any text there, PostgreSQL moments that Python does not have."""
    write(beat, "due_at", "2026-05-01 07:00" if beat.db.dialect == "sqlite" else "infinity")
    assert shown(beat)["status"] == "failed"
    listing.preview(beat.db, beat.settings, beat.now, beat.now + timedelta(hours=2))
    beat = another(beat) if again else beat
    beat.tick("2026-05-01 06:50")
    [failed] = beat.told("bad")
    assert failed.startswith("06:50 failed(the row cannot be read: due_at: ")
    assert_repaired(beat)
    beat.tick("2026-05-01 07:00")
    assert (beat.told("bad")[1:], beat.told()) == (["07:00 running"], ["07:00 running"])


@pytest.mark.parametrize(("column", "value"), [("plan", "{due"), ("last_run_at", "yesterday"), ("progress", "{")])
def test_columns_that_sqlite_takes_and_nobody_can_read(beat: Beat, column: str, value: str) -> None:
    if beat.db.dialect == "postgresql":
        pytest.skip("it takes neither")
    write(beat, column, value)
    assert shown(beat)["due_at"][11:16] == "07:00"
    another(beat).tick("2026-05-01 07:00")
    assert beat.told() == ["07:00 running"]
    assert beat.told("bad")[0].startswith(f"07:00 failed(ValueError: {column}: ")
    assert_repaired(beat)


def test_a_run_under_way_is_ended_and_not_forgotten(beat: Beat) -> None:
    beat.tick("2026-05-01 07:00")
    write(beat, "plan", "[]")
    beat.finish()
    beat.later(minutes=1)
    assert (beat.told("bad"), beat.told()) == (["07:00 success"], ["07:00 success"])
    assert (beat.entry("bad")["status"], beat.entry("bad")["run_id"]) == ("done", None)
    beat.tick("2026-05-01 08:00")
    assert beat.told("bad")[1:] == ["08:00 running"]
    write(beat, "plan", '{"due_for": "whenever"}')
    beat.tick("2026-05-01 09:00")
    assert beat.told("bad")[1] == "08:00 running"
    assert beat.told("bad")[2].startswith("09:00 failed(")
    assert (beat.entry("bad")["status"], beat.entry("bad")["run_id"]) == ("running", beat.runs("bad")[1]["run_id"])
    assert standing_of(beat.entry("bad")).running is not None


def test_a_moment_that_is_too_late_by_now_is_not_tried_again(beat: Beat) -> None:
    """Nobody may crawl by day because of a row that was broken at night."""
    beat.configure(bad={"at": ["07:00"], "catch_up": "2h"}, hourly=HOURLY)
    beat.tick("2026-05-01 06:40")
    write(beat, "plan", "[]")
    beat.tick("2026-05-01 12:00")
    assert beat.told("bad")[0].startswith("07:00 failed(")
    assert beat.entry("bad")["due_at"] == at("2026-05-02 07:00")


def test_operators_can_use_an_entry_whose_row_cannot_be_read(beat: Beat) -> None:
    write(beat, "plan", '{"due_for": "whenever"}')
    ann = Operator("ann@desk", "cli")
    assert by_hand.pause(beat.db, beat.settings, "bad", ann)
    assert_repaired(beat)
    assert by_hand.resume(beat.db, beat.settings, "bad", ann)
    write(beat, "plan", "[]")
    assert isinstance(by_hand.run_by_hand(beat.db, beat.settings, "bad", ann), int)
    assert_repaired(beat)
    assert beat.entry("bad")["due_at"].astimezone(SHANGHAI).hour == 7
    with beat.db.read() as conn:
        assert records.due_names(conn, at("2026-05-01 07:00"), 10) == ["bad", "hourly"]
