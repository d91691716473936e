"""What an export reads: articles in the order in which they were stored, a portion at a time (rule P6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, literal, or_, select

from models.articles import articles as table
from models.base import UtcDateTime
from models.db import Database, patiently
from models.jobs import IS_ACTIVE, attempts, jobs
from models.queries.reading import db_moment

#: what an export reports into the result of its crawl
REPORTED = ("status", "total", "exported", "failed", "error", "errors")
_IDS_AT_ONCE = 500
#: rows held in memory at once
PORTION = 200
_COLUMNS = (
    table.c.id, table.c.target_code, table.c.site_code, table.c.url, table.c.title, table.c.text, table.c.sha256,
    table.c.published_at, table.c.fetched_at, table.c.facts,
    table.c.exported_sha256,
)
_WITH_BODY = (~table.c.external, ~table.c.marked)
_PENDING = (table.c.exported_sha256.is_(None) | (table.c.exported_sha256 != table.c.sha256),)


def to_export(db: Database, target_code: str, *, only_pending: bool) -> Iterator[Any]:
    """Yield the rows of a target's articles with a body by id, all or the pending ones; waits for a database away."""
    behind = 0
    while True:
        found = patiently(lambda after=behind: _portion(db, target_code, after, only_pending))  # type: ignore[misc]
        yield from found
        if len(found) < PORTION:
            return
        behind = found[-1].id


def _portion(db: Database, target_code: str, behind: int, only_pending: bool) -> list[Any]:
    wanted = select(*_COLUMNS).where(table.c.target_code == target_code, table.c.id > behind, *_WITH_BODY)
    if only_pending:
        wanted = wanted.where(*_PENDING)
    with db.read() as conn:
        return list(conn.execute(wanted.order_by(table.c.id).limit(PORTION)).all())


def pending_count(db: Database, target_code: str) -> int:
    """Return how many articles of a target wait for their export."""
    wanted = select(func.count()).select_from(table).where(table.c.target_code == target_code, *_WITH_BODY, *_PENDING)
    with db.read() as conn:
        return int(conn.execute(wanted).scalar_one())


def exported_since(db: Database, target_code: str, job_id: str | None, moment: datetime) -> int:
    """Return how many articles of a target were exported since a moment, or since the job `job_id` first began.

    An attempt that was lost may have exported some: they are this job's as well.
    """
    since = func.coalesce(
        select(func.min(attempts.c.started_at)).where(attempts.c.job_id == (job_id or "")).scalar_subquery(),
        literal(moment, UtcDateTime()))
    wanted = select(func.count()).select_from(table).where(
        table.c.target_code == target_code, table.c.exported_at >= since, ~or_(*_PENDING))
    with db.read() as conn:
        return int(conn.execute(wanted).scalar_one())


def moment(db: Database) -> datetime:
    """Return the database's present moment."""
    with db.read() as conn:
        return db_moment(conn)


def is_running(db: Database, job_id: str) -> bool:
    """Tell whether a job runs just now."""
    with db.read() as conn:
        return conn.execute(select(jobs.c.status).where(jobs.c.job_id == job_id)).scalar() == "running"


def exports_of(conn: Connection, job_ids: Sequence[str]) -> list[str]:
    """Return the ids of the export jobs, not final yet, that the results of these crawls name."""
    if not job_ids:
        return []
    results = conn.execute(select(jobs.c.result).where(jobs.c.job_id.in_(job_ids), jobs.c.kind == "crawl")).scalars()
    named = {found["rag_export"].get("job_id") for found in results if found and "rag_export" in found} - {None}
    if not named:
        return []
    active = select(jobs.c.job_id).where(jobs.c.job_id.in_(sorted(named)), IS_ACTIVE)
    return list(conn.execute(active).scalars())


def tell(conn: Connection, found: Sequence[dict[str, Any]]) -> None:
    """Complete documents of crawls whose result says that their export is under way by what became of it (rule P6).

    The crawl's row may never be told: its export can end before it, be cancelled, or be abandoned.
    """
    waiting = {one["job_id"]: one for one in found if _export_of(one).get("status") == "running"}
    named = sorted({_export_of(one)["job_id"] for one in waiting.values() if "job_id" in _export_of(one)})
    ends: dict[str, Any] = {}
    for start in range(0, len(named), _IDS_AT_ONCE):
        ends |= {row.job_id: row for row in conn.execute(
            select(jobs.c.job_id, jobs.c.status, jobs.c.result, jobs.c.error_msg).where(
                jobs.c.job_id.in_(named[start : start + _IDS_AT_ONCE]),
                jobs.c.status.in_(("done", "failed", "cancelled"))))}
    for one in waiting.values():
        row = ends.get(_export_of(one).get("job_id", ""))
        if row is not None:
            _complete(one, row)


def _export_of(one: dict[str, Any]) -> dict[str, Any]:
    said = (one.get("result") or {}).get("rag_export")
    return said if isinstance(said, dict) else {}


def _complete(one: dict[str, Any], export: Any) -> None:
    if export.status == "done":
        said = {name: export.result[name] for name in REPORTED if name in (export.result or {})}
    else:
        said = {"status": "failed", "error": export.error_msg or export.status}
    one["result"] = one["result"] | {"rag_export": _export_of(one) | said}
    status = "failed" if said["status"] == "failed" else "done"
    one["progress"] = one["progress"] | {"steps": [
        step if step["name"] != "export" else {"name": "export", "status": status, "reason": said.get("error", "")}
        for step in one["progress"]["steps"]]}
