"""J15: an entry that had no success for too long is told to the webhook, also while no beat runs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from config import clock
from config.settings import Settings
from models.db import Database
from models.notices import Notices
from models.operations import Operator
from models.schedules import entries
from tasks.schedule import by_hand
from tasks.schedule.entries import configured
from tasks.schedule.stale import stale_at
from tasks.schedule.syncing import synchronise

ANN = Operator("ann@desk", "cli", "")
SETTINGS = Settings(webhook_url="https://hooks.example.org/x")


class Watched:
    """A database with rows of all entries, as a beat left them a moment ago, and a worker's notices."""

    def __init__(self, database: Database) -> None:
        self.db, self.now = database, clock.now()
        self.at = self.now
        self.notices = Notices(database, SETTINGS, now=lambda: self.at)
        assert self.notices.find() == 0
        with database.read() as conn:
            self.known = configured(conn, SETTINGS)
        synchronise(database, self.known, self.now)

    def row(self, name: str) -> Any:
        with self.db.read() as conn:
            return conn.execute(select(entries).where(entries.c.name == name)).one()

    def told(self, later: timedelta) -> list[dict[str, Any]]:
        """Return what workers find so long after the beat's last sign, that notices were not found before."""
        self.at = self.now + later
        self.notices.find()
        found = []
        while (notice := self.notices.take()) is not None:
            self.notices.sent(notice)
            found.append(notice.document)
        return found

    def change(self, name: str, **values: Any) -> None:
        with self.db.write() as conn:
            conn.execute(update(entries).where(entries.c.name == name).values(**values))


@pytest.fixture
def watched(database: Database) -> Watched:
    return Watched(database)


def test_an_entry_without_a_success_is_told_once_when_twice_its_period_is_over(watched: Watched) -> None:
    vitals = watched.known["vitals"].entry
    assert watched.row("vitals").stale_at == stale_at(vitals, watched.now) == watched.now + timedelta(hours=1)
    assert watched.told(timedelta(minutes=59)) == []
    (found,) = watched.told(timedelta(minutes=61))
    assert {name: found[name] for name in ("kind", "entry", "status", "reason", "last_success_at")} == {
        "kind": "entry_stale", "entry": "vitals", "status": "pending", "reason": "", "last_success_at": None}
    assert found["text"] == f"entry vitals has had no success yet: it is pending, due {found['due_at']}"
    assert datetime.fromisoformat(found["due_at"]) == watched.row("vitals").due_at.replace(
        microsecond=watched.row("vitals").due_at.microsecond // 1000 * 1000)
    assert watched.told(timedelta(minutes=70)) == []


def test_the_last_outcome_says_why(watched: Watched) -> None:
    watched.change("vitals", status="failed", last_success_at=watched.now, last_outcome={"reason": "no answer"})
    (found,) = watched.told(timedelta(minutes=61))
    assert found["reason"] == "no answer"
    assert "it is failed (no answer)" in found["text"]
    assert f"since {found['last_success_at']}" in found["text"]


def test_paused_and_disabled_entries_are_not_told(watched: Watched) -> None:
    assert by_hand.pause(watched.db, SETTINGS, "vitals", by=ANN)
    assert watched.told(timedelta(minutes=61)) == []


def test_a_resumed_entry_starts_anew(watched: Watched) -> None:
    by_hand.pause(watched.db, SETTINGS, "vitals", by=ANN)
    watched.change("vitals", stale_at=watched.now - timedelta(hours=1))
    assert by_hand.resume(watched.db, SETTINGS, "vitals", by=ANN)
    assert watched.row("vitals").stale_at >= watched.now + timedelta(hours=1)
