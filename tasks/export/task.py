"""The export of one target as a job of its own, in a lane that sends nothing to any site (rule P6)."""

from __future__ import annotations

from typing import Any

from config import clock
from config.celery import app
from config.errors import BadInput, BodyEnd, PermanentJobError
from config.settings import Settings, get_settings
from models.attempt import Attempt
from models.claim import Commit
from models.db import Database, get_database, patiently
from models.ledger.queueing import Submitted
from models.queries import exporting
from routing.dispatch import default_key, submit
from tasks.base import LaneTask
from tasks.export.run import export_target, failed_report

LOOK_EVERY_SEC = 1.0
#: the row is told that the body lives at least this often
COMMIT_EVERY_SEC = 5.0
PRIORITY = 100


@app.task(base=LaneTask, bind=True, name="ratelane.export")
def export_articles(self: LaneTask, target_code: str) -> dict[str, Any]:
    """Export a target under the claim of this message; returns the report as the job's result."""
    attempt, settings, db = self.attempt, get_settings(), get_database()
    source, watch = "auto" if (attempt.started.options or {}).get("auto") else "manual", _Watch(attempt)
    try:
        return export_target(db, settings, target_code, source=source, job_id=attempt.claim.job_id, look=watch.look,
                             progress=watch.progress)
    except BodyEnd:
        raise
    except BadInput as error:
        _tell(attempt, target_code, source, error)
        raise PermanentJobError(str(error)) from error
    except Exception as error:
        if isinstance(error, PermanentJobError) or attempt.is_last_try:
            _tell(attempt, target_code, source, error)
        raise


def after_crawl(db: Database, settings: Settings, target_code: str) -> dict[str, Any] | None:
    """Submit the export of a target whose crawl is about to end, if that is wished, and return its first report.

    An export that runs already may have read the store before this crawl's last article, so another one waits behind it.
    """
    if not settings.rag_export_after_crawl:
        return None
    key = default_key("export", target_code)
    made = _submit(db, settings, target_code, key)
    if not made.created and _runs(db, made.job_id):
        made = _submit(db, settings, target_code, f"{key}:next")
    return {"status": "running", "target_code": target_code, "source": "auto", "total": 0, "exported": 0, "failed": 0,
            "error": "", "job_id": made.job_id}


def _submit(db: Database, settings: Settings, target_code: str, key: str) -> Submitted:
    return patiently(lambda: submit(db, settings, target_code, kind="export", dedupe_key=key, priority=PRIORITY,
                                    options={"auto": True}))


def _runs(db: Database, job_id: str) -> bool:
    return patiently(lambda: exporting.is_running(db, job_id))


def _tell(attempt: Attempt, target_code: str, source: str, error: Exception) -> None:
    """Tell the crawl that waits that this export has failed for good."""
    ledger = attempt.ledger
    total = patiently(lambda: exporting.pending_count(ledger.db, target_code))
    report = failed_report(target_code, source, total, error)
    patiently(lambda: ledger.note_export(attempt.claim.job_id, report))


class _Watch:
    """Asks the row whether to stop, and writes how far the export is."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._told = clock.Stopwatch()
        self._numbers = (0, 0, 0)

    def look(self) -> None:
        """Raise Cancelled, Parked, JobDeadlineExceeded or StaleClaim if the attempt is to stop."""
        self._attempt.guard.heed(at_most_old=LOOK_EVERY_SEC)
        if self._told.elapsed() >= COMMIT_EVERY_SEC:
            self._commit()

    def progress(self, total: int, exported: int, failed: int) -> None:
        """Take how far the export is."""
        self._numbers = (total, exported, failed)
        self._commit()

    def _commit(self) -> None:
        self._told = clock.Stopwatch()
        total, exported, failed = self._numbers
        document = {"total": total, "exported": exported, "items_new": exported, "items_failed": failed}
        patiently(lambda: self._attempt.commit(Commit(progress=document)))
