"""Rows of entries and the planner's values: what is stored comes back the same."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from config.settings import Settings
from tasks.periodic.base import Scope, Tally, by_ratio, work_of
from tasks.schedule.builtin import entries as builtin
from tasks.schedule.calendar import Every, Times, Window
from tasks.schedule.entries import BadEntry, Configured, described
from tasks.schedule.rows import entry_of, row_of, rules_of, standing_of
from tasks.schedule.terms import DueFor, Entry, Kind, Outcome, Overlap, RunInfo, Standing, Status

ZONE = ZoneInfo("Asia/Shanghai")
NOW = datetime(2026, 5, 1, 4, 0, 0, 123456, tzinfo=UTC)
SCOPE = Scope("crawl", ("gd-*", "x"), ("s?",))
RUNNING = RunInfo(NOW, 2, date(2026, 5, 1), NOW, "manual", True, 1, 17)
FULL = Standing(
    due_at=NOW, status=Status.RUNNING, due_for=DueFor.AGAIN, occurrence=NOW, try_no=3, failures=2,
    due_date=date(2026, 5, 1), source="manual", force=True, after=NOW, running=RUNNING, stat_date=date(2026, 4, 30),
    progress={"done": 1}, last_run_at=NOW, last_outcome=Outcome(Kind.DEFERRED, "busy", NOW, by=4), last_success_at=NOW,
    skips_row=5)


def stored(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as a database gives it back: documents went through JSON."""
    return row | {name: json.loads(json.dumps(row[name])) for name in ("rules", "plan", "progress", "last_outcome")}


@pytest.mark.parametrize("standing", [FULL, Standing(None), replace(FULL, running=None, last_outcome=None)])
def test_how_an_entry_stands_comes_back_from_its_row(standing: Standing) -> None:
    entry = Entry("x", "crawl", Every(timedelta(hours=1)), ZONE)
    assert standing_of(stored(row_of(entry, rules_of(entry, SCOPE), standing, NOW))) == standing


@pytest.mark.parametrize("entry", [
    *builtin(ZONE).values(),
    Entry("own", "vitals", Times((time(5), time(23, 15, 30))), ZoneInfo("Europe/Berlin"), Window(time(22), time(4)),
          Overlap.ALWAYS, time(12), timedelta(seconds=7), None, -3, False),
])
def test_the_rules_of_an_entry_come_back_from_their_document(entry: Entry) -> None:
    rules = json.loads(json.dumps(rules_of(entry, SCOPE)))
    assert entry_of(entry.name, rules) == (entry, SCOPE)
    assert rules == rules_of(entry, SCOPE)


def described_as(document: dict[str, Any], base: str | None = None) -> Configured:
    """Return what a document of the file makes of a built-in entry, or an own one."""
    known = None if base is None else Configured(builtin(ZONE)[base], Scope(base))
    return described(base or "own", document, ZONE, Settings(), known)


def test_a_file_changes_what_it_names_and_nothing_else() -> None:
    before = builtin(ZONE)["snapshot"]
    found = described_as({"at": "22:00"}, "snapshot")
    assert found.entry == replace(before, when=Times((time(22),)))
    assert found.scope == Scope("snapshot")


def test_an_own_entry_says_when_and_what() -> None:
    found = described_as({"at": ["23:15", "06:00"], "quiet": ["22:00", "02:00"], "overlap": "next", "catch_up": "12:00",
                          "task": "vitals", "sites": "gd-*", "targets": ["a"], "priority": 5, "max_tries": 2,
                          "retry_after": "90s", "enabled": False})
    assert found.entry == Entry("own", "vitals", Times((time(6), time(23, 15))), ZONE, Window(time(22), time(2)),
                                Overlap.NEXT, time(12), timedelta(seconds=90), 2, 5, False)
    assert found.scope == Scope("vitals", ("a",), ("gd-*",))
    assert described_as({"every": "30m", "quiet": False, "catch_up": "2h"}).entry.catch_up == timedelta(hours=2)


@pytest.mark.parametrize(("document", "message"), [
    ({}, "needs `at` or `every`"), ({"at": "25:00"}, "at must be a time of the day"), ({"every": "soon"}, "every must be"),
    ({"at": "1:00", "every": "1h"}, "not both"), ({"every": "1h", "quiet": "23"}, "quiet must be two times"),
    ({"every": "1h", "overlap": "skip"}, "overlap must be one of join, next"), ({"every": "1h", "evry": 1}, "unknown key 'evry'"),
    ({"every": "1h", "enabled": "no"}, "enabled must be true or false"), ({"every": "1h", "task": "x"}, "task must be one of"),
    ({"every": "1h", "targets": [1]}, "targets must be"), ({"every": "1h", "priority": "high"}, "priority must be"),
])
def test_what_cannot_be_is_named(document: dict[str, Any], message: str) -> None:
    with pytest.raises(BadEntry, match=message):
        described_as(document)


@pytest.mark.parametrize(("tally", "ok"), [
    (Tally(total=10, done=9, failed=1), True), (Tally(total=10, done=8, settled=1, failed=1), True),
    (Tally(total=10, done=8, partial=2), False), (Tally(), True), (Tally(total=1, failed=1), False),
])
def test_s8_nine_of_ten_are_a_success(tally: Tally, ok: bool) -> None:
    assert by_ratio(tally, Settings()).ok is ok


def test_nothing_done_is_no_progress() -> None:
    """A try without progress keeps the old one (rule S5)."""
    assert by_ratio(Tally(total=2, failed=2), Settings()).progress is None
    assert by_ratio(Tally(total=2, done=1, failed=1), Settings()).progress == {"done": 1, "failed": 1, "total": 2}


def test_a_work_that_nobody_knows_is_named() -> None:
    with pytest.raises(LookupError, match=r"'sing'.*snapshot"):
        work_of(Scope("sing"))
