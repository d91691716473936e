"""The journal of jobs that look at a site without crawling a target of it: checks, discovery, vitals."""

from __future__ import annotations

from typing import Any

from tasks.journal import CrawlJournal


class Onlooker(CrawlJournal):
    """Keeps the requests and robots.txt; whatever else a crawl notes of what it meets is left out."""

    def mark_forbidden(self, url: str) -> None:
        """Note nothing."""

    def list_answered(self, url: str) -> None:
        """Note nothing."""

    def note(self, **what: Any) -> None:
        """Commit what was found (fields of `models.claim.Commit`) with the progress and what has gathered."""
        self._commit(self.progress, **what)
