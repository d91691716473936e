"""What a walk has done so far, as a job's progress document shows it (rule J12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: names and order of the steps of a job's progress document (rule J12)
STEPS = ("prepare", "list", "items", "finish", "export")


@dataclass
class Progress:
    """How far a crawl is; absolute totals of this attempt, so that writing it twice changes nothing (rule J12).

    `current_page` counts from the beginning of the list, `pages` what this attempt has read.
    """

    current_page: int = 0
    pages_total: int | None = None
    pages: int = 0
    items_new: int = 0
    items_known: int = 0
    items_failed: int = 0
    items_external: int = 0
    bytes: int = 0
    #: of the open page, those that are still to be fetched
    items_left: int = 0
    steps: dict[str, str] = field(default_factory=lambda: dict.fromkeys(STEPS, "pending"))
    reasons: dict[str, str] = field(default_factory=dict)

    def step(self, name: str, status: str, reason: str = "") -> None:
        """Set a step to ``pending``, ``running``, ``done``, ``failed`` or ``skipped``."""
        self.steps[name] = status
        self.reasons[name] = reason

    def end_steps(self, status: str, reason: str, *, of: str = "running") -> None:
        """Set every step that is `of` one status to another, because the attempt or the job has ended."""
        for name, present in self.steps.items():
            if present == of:
                self.step(name, status, reason)

    def document(self, elapsed_sec: float, gap_sec: float = 0.0, before: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return the JSON-able progress; `rate` is items a minute, `eta` the seconds that the known rest will take.

        `gap_sec` is what must lie between two requests: an attempt that is parked in front of each of them has measured
        next to nothing. `before` are the items of earlier attempts.
        """
        requests = self.pages + self.items_new + self.items_failed
        spent = max(elapsed_sec, requests * gap_sec)
        items = self.items_new + self.items_known + self.items_failed + self.items_external
        return {
            "page": self.current_page, "pages_total": self.pages_total, "items_new": self.items_new,
            "items_known": self.items_known, "items_failed": self.items_failed, "items_external": self.items_external,
            "bytes": self.bytes, "rate": round(items * 60 / spent, 1) if spent > 0 else None,
            "eta": self._eta(elapsed_sec, gap_sec, before or {}),
            "steps": [
                {"name": name, "status": status, "reason": self.reasons.get(name, "")}
                for name, status in self.steps.items()
            ],
        }

    def _eta(self, elapsed_sec: float, gap_sec: float, before: Mapping[str, int]) -> float | None:
        if self.pages_total is not None and self.steps["finish"] != "pending":
            return 0.0
        if self.pages_total is None or not (self.pages or (gap_sec and self.current_page)):
            return None
        left = max(0, self.pages_total - self.current_page)
        by_pages = elapsed_sec / self.pages * left if self.pages else 0.0
        # each page is a request, and so is each item of it that is not known
        fetched = sum(before.get(name, 0) for name in ("items_new", "items_failed")) + self.items_new + self.items_failed
        each = 1 + (fetched + self.items_left) / max(1, self.current_page)
        return round(max(by_pages, (left * each + self.items_left) * gap_sec), 1)
