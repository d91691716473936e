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
                                       document], "operations": [operation]``; None if unknown
`politeness(group)`                    ``{"since", "requests", "statuses", "failures", "hours", "gaps", "refusals", "robots",
                                       "disallowed"}`` of the last day: it reads every request, so ask for it seldom
`jobs(wanted, sort, limit, cursor)`    page of `job` documents (without attempts) with ``"note"``: why a queued one waits.
                                       `wanted` is a `models.queries.JobFilter` with ``id_by_start=True``, `sort` one of
                                       `SORTS`
`job(job_id)`                          a `job` document with ``"why": document of why, "operations", "checkpoint",
                                       "log": {"job", "attempt", "group", "run"}`` (what log lines carry); None if unknown
`failed()`                             page of **errors**, the most frequent first, never a next one: ``{"error": its start,
                                       "message", "count", "last_at", "first_at", "example": job_id, "targets": [some],
                                       "filter": {"status", "search"}}``; ``"older"``: there are more that were not told apart
`schedule(hours, search, limit,        page of `entry` documents with ``"enabled", "stale", "since_success_sec",
cursor)`                               "occurrences": [occurrence], "quiet": [{"from", "to"}]``, and ``"zone", "from", "to",
                                       "runs": [run]``; `search`: a part of a name, `hours`: 48
`runs(name, limit, cursor)`            page of `run` documents, newest first
`targets(site, limit, cursor)`         page of target documents
=====================================  =================================================================================

A **lane row** is the `lane` document with ``"progress"`` (of the running job, None without one), ``"progress_at"``
(when it was told), ``"current_page"``,
``"oldest_wait_sec"``, ``"paused_for_sec"`` (left; None without a pause and for an endless one), ``"paused_by"``,
``"lease_left_sec"``, ``"due_in_sec"`` (None if the next job is due), ``"note"`` (why the next job waits, in a few words) and
``"interval_history": [{"at", "interval_sec"}]`` of the running or next target, oldest first, at most 30.

An **operation** is ``{"at", "who", "surface", "action", "group_key", "job_id", "target_code", "entry", "reason",
"details"}``. Actions go through the API (`api` in templates is its root): ``POST {api}/lanes/{group}/pause`` and so on, JSON
bodies with `reason`, header ``X-Ratelane-Surface: page``, and the token of the cookie ``_xsrf`` in ``X-XSRFToken``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from config.settings import Settings
from console import answers
from console.flower.timeline import schedule
from models import queries
from models.db import Database
from models.queries.board import errors, lists
from models.queries.board import jobs as job_pages
from models.queries.board import lane as one_lane
from models.queries.board import lanes as lane_pages
from models.queries.board.paging import Page, count
from models.queries.reading import db_moment, iso

#: how jobs can be sorted: by rule J13, or by when they were submitted or finished ("-": the newest first)
SORTS = tuple(job_pages.SORTS)
#: rows of a page, unless it is told
LIMIT = 50


def head(db: Database, _settings: Settings) -> dict[str, Any]:
    """Return what every page shows: numbers of jobs, workers and pauses, and the pause of all lanes."""
    with db.look() as conn:
        crew = queries.workers(conn)
        return {
            "at": _at(conn), "zone": str(queries.zone()), "counts": job_pages.counts(conn),
            "fleet_pause": queries.fleet_pause(conn), "workers": sum(one["alive"] for one in crew),
            "workers_consuming": sum(one["consuming"] for one in crew), "groups_paused": queries.groups_paused(conn)}


def lanes(db: Database, _settings: Settings, *, search: str = "", limit: int = LIMIT,
          cursor: str | None = None) -> dict[str, Any]:
    """Return a page of lane rows."""
    with db.look() as conn:
        found, total = lane_pages.page_and_total(conn, search=search, limit=limit, cursor=cursor)
        waiting = [one["group"] for one in found.rows if one["queued_count"] and one["running_job_id"] is None]
        words = answers.lane_notes(conn, waiting)
        return _page(conn, [one | {"note": words.get(one["group"], "")} for one in found.rows], found.next, total)


def lane(db: Database, _settings: Settings, group: str) -> dict[str, Any] | None:
    """Return a lane with everything that its page shows."""
    with db.look() as conn:
        found = one_lane.lane(conn, group)
        if found is None:
            return None
        words = answers.notes(conn, [one["job_id"] for one in found["queue"]])
        queue = [one | {"note": words.get(one["job_id"], "")} for one in found["queue"]]
        return found | {"at": _at(conn), "note": answers.lane_notes(conn, [group]).get(group, ""), "queue": queue}


def politeness(db: Database, _settings: Settings, group: str) -> dict[str, Any]:
    """Return how polite a group was in the last day."""
    with db.look() as conn:
        return one_lane.politeness(conn, group) | {"at": _at(conn)}


def jobs(db: Database, _settings: Settings, wanted: queries.JobFilter, *, sort: str = "order", limit: int = LIMIT,
         cursor: str | None = None) -> dict[str, Any]:
    """Return a page of jobs."""
    with db.look() as conn:
        found = job_pages.page(conn, wanted, sort=sort, limit=limit, cursor=cursor)
        words = answers.notes(conn, [one["job_id"] for one in found.rows if one["status"] == "queued"])
        rows = [one | {"note": words.get(one["job_id"], "")} for one in found.rows]
        return _page(conn, rows, found.next, job_pages.total(conn, wanted))


def job(db: Database, _settings: Settings, job_id: str) -> dict[str, Any] | None:
    """Return a job with everything that its page shows."""
    with db.look() as conn:
        found = queries.job(conn, job_id)
        if found is None:
            return None
        return found | {
            "at": _at(conn), "why": answers.why(conn, job_id), "operations": queries.operations_of_job(conn, job_id),
            "checkpoint": queries.checkpoint(conn, job_id),
            "log": {"job": job_id, "attempt": found["attempt"], "group": found["group"], "run": found["run_id"]}}


def failed(db: Database, _settings: Settings) -> dict[str, Any]:
    """Return the dead letters by what they failed of."""
    with db.look() as conn:
        found, older = errors.dead_letters(conn)
        return _page(conn, found, None, count(sum(one["count"]["number"] for one in found), more=older)) | {"older": older}


def targets(db: Database, _settings: Settings, *, site: str | None = None, limit: int = LIMIT,
            cursor: str | None = None) -> dict[str, Any]:
    """Return a page of targets."""
    with db.look() as conn:
        return _listed(conn, lists.targets(conn, site=site, limit=limit, cursor=cursor))


def runs(db: Database, _settings: Settings, *, name: str | None = None, limit: int = LIMIT,
         cursor: str | None = None) -> dict[str, Any]:
    """Return a page of runs of one entry, or of all."""
    with db.look() as conn:
        return _listed(conn, lists.runs(conn, name=name, limit=limit, cursor=cursor))


def _listed(conn: Connection, found: Page) -> dict[str, Any]:
    return _page(conn, found.rows, found.next, None)


def _page(conn: Connection, rows: Sequence[dict[str, Any]], follows: str | None,
          total: dict[str, Any] | None) -> dict[str, Any]:
    return {"rows": list(rows), "next": follows, "total": total, "at": _at(conn)}


def _at(conn: Connection) -> str | None:
    return iso(db_moment(conn))


__all__ = ["LIMIT", "SORTS", "failed", "head", "job", "jobs", "lane", "lanes", "politeness", "runs", "schedule", "targets"]
