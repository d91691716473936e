"""Submitting, cancelling and requeueing jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from config.errors import BadInput
from config.settings import Settings
from console.actions.names import require_target
from models.db import Database
from models.ledger import Answer, Changed, Ledger
from models.operations import Operator
from models.queries import JobFilter
from routing import dispatch


def submit(
    db: Database,
    settings: Settings,
    target_code: str,
    *,
    again: bool = False,
    force: bool = False,
    dedupe_key: str | None = None,
    by: Operator | None = None,
    run_after: float | datetime | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Queue a crawl and return ``{"job_id", "created", "group", "warnings"}`` (rules J1, J3).

    Without a key it is ``crawl:<target>`` (``:force`` with `force`), with `again` none; `run_after` is a moment or
    seconds from now; `by` is who asks, for the log of operations; further options are those of
    `routing.dispatch.submit`. Raises BadInput, naming the nearest known
    target, if there is no such target.
    """
    require_target(db, target_code)
    key = None if again else dedupe_key or dispatch.default_key("crawl", target_code, force=force)
    due: dict[str, Any] = {}
    if run_after is not None:
        due = {"run_after": run_after} if isinstance(run_after, datetime) else {"run_after_sec": max(0.0, run_after)}
    found = dispatch.submit(db, settings, target_code, force=force, again=again, dedupe_key=key, by=by, **due, **options)
    return {"job_id": found.job_id, "created": found.created, "group": found.group, "warnings": list(found.warnings)}


def cancel(db: Database, settings: Settings, job_ids: Sequence[str], by: Operator) -> dict[str, Any]:
    """Cancel jobs and return ``{"cancelled", "flagged", "refused": [{"job_id", "reason"}]}`` (rule J10)."""
    ledger, done = Ledger(db, settings), Changed()
    for job_id in dict.fromkeys(job_ids):
        _count(done, job_id, ledger.cancel(job_id, by))
    return _cancelled(done)


def cancel_matching(db: Database, settings: Settings, wanted: JobFilter, by: Operator) -> dict[str, Any]:
    """Cancel every queued or running job that `wanted` lets through (rule J14); answers as `cancel`.

    Raises BadInput for a filter that names nothing, or a status in which nothing is left to cancel.
    """
    _require_named(wanted, "cancel")
    if wanted.status not in (None, "queued", "running"):
        raise BadInput(f"only queued and running jobs can be cancelled, not {wanted.status} ones")
    return _cancelled(Ledger(db, settings).cancel_matching(wanted, by))


def requeue(
    db: Database, settings: Settings, job_ids: Sequence[str], by: Operator, *, restart: bool = False
) -> dict[str, Any]:
    """Bring failed or cancelled jobs back and return ``{"requeued", "refused": [{"job_id", "reason"}]}`` (rule J14).

    They go on from their checkpoints, with `restart` from where they were submitted.
    """
    ledger, done = Ledger(db, settings), Changed()
    for job_id in dict.fromkeys(job_ids):
        _count(done, job_id, ledger.requeue(job_id, by, restart=restart))
    return _requeued(done)


def requeue_matching(
    db: Database, settings: Settings, wanted: JobFilter, by: Operator, *, restart: bool = False
) -> dict[str, Any]:
    """Bring back every failed or cancelled job that `wanted` lets through (rule J14); answers as `requeue`.

    Raises BadInput for a filter that names nothing, or a status that nothing can be brought back from.
    """
    _require_named(wanted, "requeue")
    if wanted.status not in (None, "failed", "cancelled"):
        raise BadInput(f"only failed and cancelled jobs can be requeued, not {wanted.status} ones")
    return _requeued(Ledger(db, settings).requeue_matching(wanted, by, restart=restart))


def _require_named(wanted: JobFilter, verb: str) -> None:
    if not wanted.narrows:
        raise BadInput(f"a filter that names nothing would {verb} every job; name a status, a site, a group …")


def _count(done: Changed, job_id: str, answer: Answer) -> None:
    if answer.verdict == "refused":
        done.refused.append((job_id, answer.reason))
    else:
        setattr(done, answer.verdict, getattr(done, answer.verdict) + 1)


def _cancelled(done: Changed) -> dict[str, Any]:
    return {"cancelled": done.cancelled, "flagged": done.flagged, "refused": _refused(done)}


def _requeued(done: Changed) -> dict[str, Any]:
    return {"requeued": done.requeued, "refused": _refused(done)}


def _refused(done: Changed) -> list[dict[str, str]]:
    return [{"job_id": job_id, "reason": reason} for job_id, reason in done.refused]
