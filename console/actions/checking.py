"""Checking a target: one look at its list and an article, in its lane and at its pace (rule P7)."""

from __future__ import annotations

from typing import Any

from config import clock
from config.errors import RatelaneError
from config.settings import Settings
from console.actions.names import require_target
from console.actions.stored import groups
from models import queries
from models.db import Database
from models.ledger import Ledger
from routing import dispatch

#: it goes before whatever waits in its lane: somebody sits in front of it
PRIORITY = -1_000_000
#: beyond the group's interval, so long is waited for the lane
PATIENCE_SEC = 60.0


class CheckRefused(RatelaneError):
    """The lane is not free for a check now."""

    exit_code = 1


def check(db: Database, settings: Settings, target_code: str) -> dict[str, Any]:
    """Check a target and return the check's document, with the group and the rule that chose it.

    It is a job of its own in the target's lane, run by a worker or by this process. Raises BadInput for an unknown
    target; CheckRefused if the lane is paused or a job runs in it, if it did not become free, or if the job failed.
    """
    require_target(db, target_code)
    with db.look() as conn:
        target = next(one for one in queries.targets(conn) if one["target_code"] == target_code)
        lane = next((one for one in queries.lanes(conn) if one["group"] == target["group"]), None)
    _require_free(lane)
    rule = groups(db, target["site_code"])[0]["rule"]
    # the room of the tasks brings Celery along: only whoever checks waits for it
    from tasks.checking import checked
    from tasks.inline import run_here

    made = dispatch.submit(db, settings, target_code, kind="check", priority=PRIORITY, max_attempts=1,
                           dedupe_key=dispatch.default_key("check", target_code))
    waited = clock.Stopwatch()
    patience = PATIENCE_SEC + 2 * float(target["interval_sec"])
    try:
        run_here(db, settings, made.job_id, made.group,
                 lambda: _status(db, made.job_id) not in ("queued", "running")
                 or (waited.elapsed() > patience and _status(db, made.job_id) == "queued"),
                 lambda attempt: checked(attempt, settings, db, target_code), "check@command")
    finally:
        if _status(db, made.job_id) == "queued":
            Ledger(db, settings).cancel(made.job_id)
    with db.look() as conn:
        job = queries.documents(conn, [made.job_id])[0]
    if job["status"] != "done":
        raise CheckRefused(f"no check of {target_code}: {job['error_msg'] or job['status']}")
    found = {name: value for name, value in job["result"].items() if name != "target_code"}
    return {"target_code": target_code, "group": made.group, "rule": rule, **found, "job_id": made.job_id}


def _status(db: Database, job_id: str) -> str:
    with db.look() as conn:
        return str(queries.documents(conn, [job_id])[0]["status"])


def _require_free(lane: dict[str, Any] | None) -> None:
    if lane is None:
        return
    if lane["pause_kind"] is not None:
        until = f" until {lane['paused_until']}" if lane["paused_until"] else ""
        raise CheckRefused(f"lane {lane['group']} is paused{until}: {lane['pause_reason']}")
    if lane["running_job_id"] is not None:
        raise CheckRefused(f"job {lane['running_job_id']} ({lane['running_target']}) runs in lane {lane['group']}")
