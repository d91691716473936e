"""The removal of candidates that were not seen for a fortnight, as a job in an internal lane (rule S7)."""

from __future__ import annotations

from typing import Any

from config.celery import app
from config.settings import Settings, get_settings
from models.attempt import Attempt
from models.db import get_database, patiently
from models.snapshots_book import Fence, SnapshotBook
from tasks.base import LaneTask

UNSEEN_SEC = 14 * 86_400.0
LOOK_EVERY_SEC = 1.0


@app.task(base=LaneTask, bind=True, name="ratelane.candidate_cleanup")
def clean_candidates(self: LaneTask, *_target: str) -> dict[str, Any]:
    """Delete old candidates in portions; returns ``{"outcome", "reason", "progress": {"removed"}}``."""
    attempt, settings = self.attempt, get_settings()
    book, fence, removed = SnapshotBook(get_database(), settings), fence_of(attempt, settings), 0
    while True:
        attempt.guard.heed(at_most_old=LOOK_EVERY_SEC)
        gone = patiently(lambda: book.drop_candidates(UNSEEN_SEC, fence))
        if not gone:
            return {"outcome": "success", "reason": "", "progress": {"removed": removed}}
        removed += gone


def fence_of(attempt: Attempt, settings: Settings) -> Fence:
    """Return what an attempt's portions are fenced by."""
    return Fence(attempt.claim.job_id, attempt.claim.attempt, settings.park_after_sec + settings.request_timeout_sec)
