"""The seed of a stat date as a job in an internal lane: the last completed snapshot's items, cloned offline (rule S7)."""

from __future__ import annotations

from datetime import date
from typing import Any

from config import clock
from config.celery import app
from config.errors import PermanentJobError
from config.settings import get_settings
from models.attempt import Attempt
from models.claim import Commit
from models.db import get_database, patiently
from models.queries.snapshots import item_count
from models.snapshots_book import FIRST, Fence, SnapshotBook
from tasks.base import LaneTask
from tasks.jobs.cleanup import LOOK_EVERY_SEC, fence_of
from tasks.periodic.snapshot_seed import NAME, decide
from tasks.schedule.terms import Outcome

#: how far it is, is told at least this often
COMMIT_EVERY_SEC = 2.0


@app.task(base=LaneTask, bind=True, name="ratelane.snapshot_seed")
def seed_snapshot(self: LaneTask, *_target: str) -> dict[str, Any]:
    """Seed the stat date that the job's options name; returns ``{"outcome", "reason", "again_in", "progress"}``.

    Whether there is anything to do was asked when the job was made, and is asked again: much may have happened since.
    """
    attempt, settings, db = self.attempt, get_settings(), get_database()
    options = attempt.started.options or {}
    try:
        day = date.fromisoformat(options["stat_date"])
    except (KeyError, TypeError, ValueError):
        raise PermanentJobError(f"option stat_date: {options.get('stat_date')!r} is no date") from None

    def ask() -> tuple[Outcome | date, int]:
        with db.read() as conn:
            found = decide(conn, day, settings, str(options.get("entry") or NAME))
            return found, item_count(conn, found) if isinstance(found, date) else 0

    found, total = patiently(ask)
    if not isinstance(found, date):
        return {"outcome": str(found.kind), "reason": found.reason, "again_in": found.again_in, "progress": None}
    book, fence = SnapshotBook(db, settings), fence_of(attempt, settings)
    _clone(book, attempt, fence, day, found, total)
    patiently(lambda: book.seeded(day, found, clock.now(), fence))
    return {"outcome": "success", "reason": "", "again_in": None,
            "progress": {"source": found.isoformat(), "done": total, "failed": 0, "total": total}}


def _clone(book: SnapshotBook, attempt: Attempt, fence: Fence, day: date, source: date, total: int) -> None:
    unseen = patiently(lambda: book.unseen_targets(source))
    behind: tuple[str, str] | None = FIRST
    done, told = 0, clock.Stopwatch()
    while behind is not None:
        attempt.guard.heed(at_most_old=LOOK_EVERY_SEC)
        here = behind
        behind, count = patiently(lambda: book.seed(day, source, here, unseen, fence))  # noqa: B023 - called at once
        done += count
        if told.elapsed() >= COMMIT_EVERY_SEC:
            told = clock.Stopwatch()
            progress = {"source": source.isoformat(), "done": done, "total": total}
            patiently(lambda: attempt.commit(Commit(progress=progress)))  # noqa: B023 - called at once
