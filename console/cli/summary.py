"""What came of a crawl: a row per target, and the totals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from console.cli.show import brief, print_json, print_table, span

_WHOLE = frozenset({"complete", "truncated"})
_ITEMS = ("items_new", "items_known", "items_failed", "items_external")


@dataclass(frozen=True)
class Harvest:
    """The documents of the jobs of one crawl, and how many seconds it took in all."""

    jobs: list[dict[str, Any]]
    seconds: float

    @property
    def whole(self) -> bool:
        """Whether every job ended done, and complete or truncated."""
        return all(one["status"] == "done" and one["outcome"] in _WHOLE for one in self.jobs)

    def totals(self) -> dict[str, Any]:
        """Return the totals: jobs by status and by outcome, what is left over, items, pages, cooldowns, seconds."""
        status = Counter(one["status"] for one in self.jobs)
        outcome = Counter(one["outcome"] for one in self.jobs if one["outcome"])
        return {
            "jobs": len(self.jobs),
            **{name: status[name] for name in ("done", "failed", "cancelled")},
            "left_over": status["queued"] + status["running"],
            **{name: outcome[name] for name in ("complete", "partial", "truncated")},
            "pages": sum(pages_of(one) for one in self.jobs),
            **{name: sum(one["progress"][name] or 0 for one in self.jobs) for name in _ITEMS},
            "cooldowns": sum(one["cooldown_retries"] for one in self.jobs),
            "seconds": round(self.seconds, 1),
        }


def pages_of(one: dict[str, Any]) -> int:
    """Return how many list pages a job has read, over all its attempts; a result counts those of the last one."""
    counted = (one["result"] or {}).get("pages")
    return max(counted if isinstance(counted, int) else 0, one["progress"]["page"] or 0, one["current_page"] or 0)


def note_of(one: dict[str, Any]) -> str:
    """Return what a person should know of a job: its error, else the first reason for an outcome that is not whole."""
    reasons = (one["result"] or {}).get("reasons") or [""]
    return brief(one["error_msg"] or str(reasons[0]))


def worked_sec(one: dict[str, Any]) -> float | None:
    """Return how long the attempts of a job took together; what still runs does not count."""
    moments = [(tried["started_at"], tried["finished_at"]) for tried in one["attempts_log"]]
    spans = [datetime.fromisoformat(end) - datetime.fromisoformat(start) for start, end in moments if start and end]
    return sum(each.total_seconds() for each in spans) if spans else None


def print_summary(harvest: Harvest, *, as_json: bool, goes_on: bool = True) -> None:
    """Print what came of a crawl on standard output; `goes_on`: the same command would take up what is left over."""
    totals = harvest.totals()
    if as_json:
        print_json({"jobs": harvest.jobs, "totals": totals})
        return
    print_table(
        ("target", "status", "outcome", "pages", "new", "known", "failed", "cooldowns", "time", "note"),
        ([one["target_code"], one["status"], one["outcome"], pages_of(one),
          *(one["progress"][name] for name in _ITEMS[:3]), one["cooldown_retries"], span(worked_sec(one)),
          note_of(one)] for one in harvest.jobs),
        empty="nothing to crawl: no target is enabled",
    )
    left = f", {totals['left_over']} left over" if totals["left_over"] else ""
    left += " (the same command goes on)" if left and goes_on else ""
    partial = f" ({totals['partial']} of them partial)" if totals["partial"] else ""
    print(f"{totals['done']} of {totals['jobs']} done{partial}, {totals['failed']} failed{left}: {totals['items_new']} new, "
          f"{totals['items_known']} known, {totals['items_failed']} failed items in {span(harvest.seconds)}")
