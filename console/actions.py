"""What an operator may do, once for command line, API and pages; the answers are the contract's documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from config.errors import BadInput
from config.settings import Settings
from models import queries
from models.db import Database
from models.ledger import Ledger
from models.queries import JobFilter
from routing import dispatch

ACTIVE = ("running", "queued")


def submit(
    db: Database,
    settings: Settings,
    target_code: str,
    *,
    again: bool = False,
    force: bool = False,
    dedupe_key: str | None = None,
    run_after: float | datetime | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Queue a crawl and return ``{"job_id", "created", "group", "warnings"}`` (rules J1, J3).

    Without a key it is ``crawl:<target>`` (``:force`` with `force`), with `again` none; `run_after` is a moment or
    seconds from now; further options are those of `routing.dispatch.submit`. Raises BadInput, naming the nearest known
    target, if there is no such target.
    """
    require_target(db, target_code)
    key = None if again else dedupe_key or dispatch.default_key("crawl", target_code, force=force)
    due: dict[str, Any] = {}
    if run_after is not None:
        due = {"run_after": run_after} if isinstance(run_after, datetime) else {"run_after_sec": max(0.0, run_after)}
    found = dispatch.submit(db, settings, target_code, force=force, again=again, dedupe_key=key, **due, **options)
    return {"job_id": found.job_id, "created": found.created, "group": found.group, "warnings": list(found.warnings)}


def require_target(db: Database, target_code: str) -> None:
    """Raise BadInput, naming the nearest known target, if there is none called `target_code`."""
    with db.look() as conn:
        if queries.interval(conn, target_code) is None:
            raise BadInput(unknown_target(target_code, queries.nearest_target(conn, target_code)))


def unknown_target(target_code: str, nearest: str | None) -> str:
    """Return the sentence about a target that does not exist."""
    hint = f"the nearest one is {nearest}" if nearest else "none is loaded yet: `ratelane load sites.yaml`"
    return f"no target is called {target_code!r}; {hint}"


def cancel(db: Database, settings: Settings, job_ids: Sequence[str]) -> dict[str, Any]:
    """Cancel jobs and return ``{"cancelled", "flagged", "refused": [{"job_id", "reason"}]}`` (rule J10)."""
    ledger = Ledger(db, settings)
    numbers = {"cancelled": 0, "flagged": 0}
    refused = []
    for job_id in dict.fromkeys(job_ids):
        answer = ledger.cancel(job_id)
        if answer.verdict in numbers:
            numbers[answer.verdict] += 1
        else:
            refused.append({"job_id": job_id, "reason": answer.reason})
    return {**numbers, "refused": refused}


def cancel_matching(db: Database, settings: Settings, wanted: JobFilter) -> dict[str, Any]:
    """Cancel every queued or running job that `wanted` lets through (rule J14); answers as `cancel`.

    Raises BadInput for a filter that narrows nothing.
    """
    if not wanted.narrows:
        raise BadInput("a filter that names nothing would cancel every job; name a status, a site, a group …")
    with db.look() as conn:
        found = queries.jobs(conn, replace(wanted, include_history=False, limit=None))
    return cancel(db, settings, [one["job_id"] for one in found])
