"""What an export writes: which articles are out, and what the crawls that asked for it are told (rule P6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from models.ledger.books import Books
from models.statements import exporting

AT_ONCE = 500


class Exporting(Books):
    """The verbs of an export."""

    def exported(self, taken: Sequence[tuple[int, str]]) -> None:
        """Mark articles, by row id and hash of the text that went out; one that changed since stays pending."""
        rows = [{"b_id": row_id, "b_sha": sha} for row_id, sha in sorted(taken)]
        for start in range(0, len(rows), AT_ONCE):
            with self.db.write() as conn:
                conn.execute(exporting.MARK, [row | self.at() for row in rows[start : start + AT_ONCE]])

    def note_export(self, job_id: str, report: dict[str, Any]) -> int:
        """Write the `report` of an export job into the result of every done crawl that names it; returns how many did.

        A crawl that ends later than its export, or whose export ended without a word, is told when its document is read
        (`models.queries.exporting.told`).
        """
        with self.db.write() as conn:
            waiting = conn.execute(exporting.crawls_that_wait(job_id)).all()
            for row in waiting:
                told = row.result["rag_export"] | report | {"source": row.result["rag_export"]["source"]}
                conn.execute(exporting.note(row.job_id, row.result | {"rag_export": told}, _step(row.progress, report)))
        return len(waiting)


def _step(progress: dict[str, Any] | None, report: dict[str, Any]) -> dict[str, Any] | None:
    """Return a crawl's progress with its last step as the export left it (rule J12)."""
    if not progress:
        return progress
    status = "failed" if report["status"] == "failed" else "done"
    steps = [step if step["name"] != "export" else {"name": "export", "status": status, "reason": report["error"]}
             for step in progress.get("steps", ())]
    return progress | {"steps": steps}
