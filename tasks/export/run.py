"""One export of one target: read, deliver, mark, tell (rule P6). The task and the command both call it.

Repeating it is harmless at every line: what was delivered and not yet marked is delivered again under the same ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from config.errors import RatelaneError
from config.logs import get_logger, log_event
from config.settings import Settings
from models.db import Database, patiently
from models.ledger import Ledger
from models.queries import exporting
from tasks.export.documents import StoredArticle
from tasks.export.sinks import Look, open_sink

log = get_logger("ratelane.export")
#: refused documents that are named in a report; all of them are counted
MOST_NAMED = 100

#: takes (total, exported, failed) as they stand
Progress = Callable[[int, int, int], None]


class TargetArticles:
    """The articles of one target in the store."""

    def __init__(self, db: Database, target_code: str) -> None:
        self._db, self._target = db, target_code

    def everything(self) -> Iterator[StoredArticle]:
        """Yield every article with a body."""
        return self._read(only_pending=False)

    def pending(self) -> Iterator[StoredArticle]:
        """Yield those that were not exported, or have changed since."""
        return self._read(only_pending=True)

    def _read(self, *, only_pending: bool) -> Iterator[StoredArticle]:
        for row in exporting.to_export(self._db, self._target, only_pending=only_pending):
            yield StoredArticle(
                row_id=row.id, target_code=row.target_code, site_code=row.site_code, url=row.url, title=row.title,
                text=row.text, sha256=row.sha256, published_at=row.published_at, fetched_at=row.fetched_at,
                facts=row.facts, is_pending=row.exported_sha256 != row.sha256)


def export_target(
    db: Database, settings: Settings, target_code: str, *, source: str = "manual", job_id: str | None = None,
    look: Look = lambda: None, progress: Progress = lambda _total, _exported, _failed: None,
) -> dict[str, Any]:
    """Export the pending articles of a target and return the report; crawls that wait for the job `job_id` are told.

    Report: ``{"status": completed|partial_failed, "target_code", "source", "total", "exported", "failed", "error",
    "errors": [{"id", "url", "error"}]}``; total, exported and failed count what was pending. Raises ServiceAway or
    PermanentJobError if the sink takes nothing, and whatever `look` raises.
    """
    ledger = Ledger(db, settings)
    sink, begun = open_sink(settings), patiently(lambda: exporting.moment(db))
    waiting = patiently(lambda: exporting.pending_count(db, target_code))
    refused: list[dict[str, str]] = []
    if waiting or sink.lacks(target_code):
        progress(waiting, 0, 0)
        for delivery in sink.deliver(target_code, TargetArticles(db, target_code), look):
            taken = list(delivery.taken)
            patiently(lambda taken=taken: ledger.exported(taken))  # type: ignore[misc]
            refused += delivery.refused
            left = patiently(lambda: exporting.pending_count(db, target_code))
            progress(waiting, max(0, waiting - left), len(refused))
    exported, failed = patiently(lambda: exporting.exported_since(db, target_code, job_id, begun)), len(refused)
    total = exported + failed
    report = {
        "status": "partial_failed" if failed else "completed", "target_code": target_code, "source": source,
        "total": total, "exported": exported, "failed": failed,
        "error": "" if not failed else f"{failed} of {total} could not be exported", "errors": refused[:MOST_NAMED]}
    if job_id is not None:
        patiently(lambda: ledger.note_export(job_id, report))
    log_event(log, "export.end", target=target_code, total=total, exported=exported, failed=failed)
    return report


def failed_report(target_code: str, source: str, total: int, error: Exception) -> dict[str, Any]:
    """Return the report of an export that ended for good without having exported everything."""
    text = str(error) if isinstance(error, RatelaneError) else f"{type(error).__name__}: {error}"
    return {"status": "failed", "target_code": target_code, "source": source, "total": total, "exported": 0,
            "failed": total, "error": text[:2_000], "errors": []}
