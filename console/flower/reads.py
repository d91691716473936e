"""What pages and API show. Each takes ``(db, settings, …)`` and returns plain dicts that JSON can hold.

Ask them from a handler with ``await self.ask(reads.job, job_id)``, and what refreshes by itself with
``await self.shared(reads.lanes, …)``: one answer of a process is then shared by everybody who looks at the same.

A **page** is ``{"rows": […], "next": cursor or None, "total": count, "at", "age_sec"}``: hand `next` back as `cursor`;
it may be there though fewer rows than `limit` came (the search goes on from it). A **count** is
``{"number": int, "capped": bool}``: capped means "that many and more" (``10,000+``). Moments are ISO 8601 with the zone's
offset; `at` is the database's moment at which it was read. ``…_sec`` are seconds, counted by the database's clock.

=====================================  =================================================================================
`head()`                               ``{"at", "zone", "counts": {status: count}, "fleet_pause": None or {"until", "by",
                                       "reason", "since"}, "workers", "workers_consuming", "groups_paused"}``
`lanes(search, limit, cursor)`         page of **lane rows**, the paused and the busiest first; `search`: start of a group
`lane(group)`                          a lane row with ``"sites": [{"site_code", "name", "base_url", "adapter", "rule",
                                       "targets"}], "queue": [job note], "last_jobs": [job], "cooldowns": [{"at", "until",
                                       "kind", "reason", "job_id", "attempt", "target_code"}], "intervals": [interval
                                       document], "politeness": {"since", "requests", "statuses", "hours", "gaps",
                                       "refusals", "robots", "disallowed"}, "operations": [operation]``; None if unknown
`jobs(wanted, sort, limit, cursor)`    page of `job` documents (without attempts) with ``"note"``: why a queued one waits.
                                       `wanted` is a `models.queries.JobFilter`; `sort` one of `SORTS`
`job(job_id)`                          a `job` document with ``"why": document of why, "operations", "checkpoint",
                                       "log": {"job", "attempt", "group", "run"}`` (what log lines carry); None if unknown
`failed(limit, cursor)`                page of **errors**: ``{"error": its start, "count", "last_at", "first_at",
                                       "example": job_id, "targets": [some], "filter": {"status", "search"}}``
`schedule(hours=48)`                   ``{"at", "zone", "from", "to", "entries": [entry with "enabled", "stale",
                                       "since_success_sec", "occurrences": [occurrence], "quiet": [{"from", "to"}]],
                                       "runs": [run]}``
`runs(name, limit, cursor)`            page of `run` documents, newest first
`targets(site, limit, cursor)`         page of target documents
=====================================  =================================================================================

A **lane row** is the `lane` document with ``"progress"`` (of the running job, None without one), ``"current_page"``,
``"oldest_wait_sec"``, ``"paused_for_sec"`` (left; None without a pause and for an endless one), ``"paused_by"``,
``"lease_left_sec"``, ``"due_in_sec"`` (None if the next job is due), ``"note"`` (why the next job waits, in a few words) and
``"interval_history": [{"at", "interval_sec"}]`` of the running or next target, oldest first, at most 30.

An **operation** is ``{"at", "who", "surface", "action", "group_key", "job_id", "target_code", "entry", "reason",
"details"}``. Actions go through the API (`api` in templates is its root): ``POST {api}/lanes/{group}/pause`` and so on, JSON
bodies with `reason`, header ``X-Ratelane-Surface: page``, and the token of the cookie ``_xsrf`` in ``X-XSRFToken``.
"""

from __future__ import annotations

from typing import Any

from config.settings import Settings
from console import answers
from models import queries
from models.db import Database

#: how jobs can be sorted: by rule J13, or by when they were submitted or finished ("-": the newest first)
SORTS = ("order", "-submitted", "submitted", "-finished", "finished")


def job(db: Database, _settings: Settings, job_id: str) -> dict[str, Any] | None:
    """Return a job with everything that its page shows."""
    with db.look() as conn:
        found = queries.job(conn, job_id)
        if found is None:
            return None
        return found | {
            "why": answers.why(conn, job_id), "operations": queries.operations_of_job(conn, job_id),
            "log": {"job": job_id, "attempt": found["attempt"], "group": found["group"], "run": found["run_id"]}}
