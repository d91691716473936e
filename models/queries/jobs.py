"""Jobs as documents: one, a filtered list, numbers by status (rules J13, J15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select

from models.jobs import IS_ACTIVE, STATUSES, attempts, in_state
from models.jobs import jobs as table
from models.queries.exporting import tell
from models.queries.ids import id_begins
from models.queries.reading import db_moment, iso, rows, seconds

#: the statuses in which nothing will change any more
FINAL = frozenset({"done", "failed", "cancelled"})
_AS_STORED = (
    "job_id", "kind", "site_code", "target_code", "source", "status", "priority", "dedupe_key", "force", "attempt",
    "failures", "max_attempts", "recoveries", "cooldown_retries", "deadlines", "resume_from_page", "current_page",
    "last_completed_page", "stop_requested", "error_msg", "result", "outcome", "run_id",
)
_MOMENTS = ("enqueued_at", "queue_at", "run_after", "expires_at", "started_at", "finished_at", "updated_at")
_NO_PROGRESS: dict[str, Any] = {
    "page": 0, "pages_total": None, "items_new": 0, "items_known": 0, "items_failed": 0, "items_external": 0,
    "bytes": 0, "rate": None, "eta": None, "steps": [],
}
#: job ids in one statement; SQLite and PostgreSQL both limit the number of parameters
_IDS_AT_ONCE = 500


@dataclass(frozen=True)
class JobFilter:
    """Which jobs to list; None means "any" (rule J13).

    `search` finds text in ids and codes and at the start of the error; with `id_by_start` an id only by how it begins,
    which is what an index can find among a million. Without `include_history` only queued and
    running jobs are listed.
    """

    site: str | None = None
    target: str | None = None
    status: str | None = None
    group: str | None = None
    kind: str | None = None
    source: str | None = None
    run: int | None = None
    dedupe_key: str | None = None
    search: str | None = None
    include_history: bool = True
    id_by_start: bool = False
    limit: int | None = 200

    @property
    def narrows(self) -> bool:
        """Whether it names anything at all: an action on "every job there is" is nobody's wish (rule J14)."""
        return bool(self.named)

    @property
    def named(self) -> dict[str, Any]:
        """What it names, by field."""
        fields = ("site", "target", "status", "group", "kind", "source", "run", "dedupe_key", "search")
        return {name: value for name in fields if (value := getattr(self, name)) not in (None, "")}


def job(conn: Connection, job_id: str) -> dict[str, Any] | None:
    """Return the document of one job with every attempt, or None if the id is unknown."""
    row = next(rows(conn, select(table).where(table.c.job_id == job_id)), None)
    if row is None:
        return None
    tried = select(attempts).where(attempts.c.job_id == job_id).order_by(attempts.c.attempt)
    log = [_attempt_document(one) for one in rows(conn, tried)]
    found = document(row, db_moment(conn)) | {"attempts_log": log}
    tell(conn, [found])
    return found


def checkpoint(conn: Connection, job_id: str) -> dict[str, Any] | None:
    """Return where a later attempt of a job goes on: ``{"last_completed_page", "state"}``; None if the id is unknown."""
    row = conn.execute(select(table.c.last_completed_page, table.c.checkpoint).where(table.c.job_id == job_id)).first()
    return None if row is None else {"last_completed_page": row.last_completed_page, "state": row.checkpoint}


def jobs(conn: Connection, wanted: JobFilter = JobFilter()) -> list[dict[str, Any]]:
    """Return the documents of the jobs that `wanted` lets through, in the order of rule J13, without their attempts.

    Running (newest first), queued (lane order), failed and cancelled (newest first), done (newest first).
    """
    found: dict[str, dict[str, Any]] = {}
    now = db_moment(conn)
    for some in _in_order(wanted):
        left = None if wanted.limit is None else wanted.limit - len(found)
        if left is not None and left <= 0:
            break
        for row in rows(conn, some.limit(left)):
            found.setdefault(row["job_id"], document(row, now))
    tell(conn, list(found.values()))
    return list(found.values())


def find_active(conn: Connection, dedupe_key: str) -> dict[str, str] | None:
    """Return job_id and status of the queued or running job with this key, None if there is none (rule J3)."""
    row = conn.execute(select(table.c.job_id, table.c.status).where(
        table.c.dedupe_key == dedupe_key, IS_ACTIVE)).first()
    return None if row is None else {"job_id": row.job_id, "status": row.status}


def find_latest(conn: Connection, dedupe_key: str, limit: int = 20) -> list[dict[str, str]]:
    """Return job_id and status of the jobs with this key, newest first, finished ones included (rule J3)."""
    found = conn.execute(select(table.c.job_id, table.c.status).where(
        table.c.dedupe_key == dedupe_key).order_by(table.c.seq.desc()).limit(limit))
    return [{"job_id": row.job_id, "status": row.status} for row in found]


def counts(conn: Connection) -> dict[str, int]:
    """Return the number of jobs in each status, zeros included (rule J15)."""
    found = conn.execute(select(table.c.status, func.count()).group_by(table.c.status)).all()
    return dict.fromkeys(STATUSES, 0) | dict(found)


def statuses(conn: Connection, job_ids: Sequence[str]) -> dict[str, str]:
    """Return the status of each of `job_ids` that exists."""
    found: dict[str, str] = {}
    for some in _portions(job_ids):
        found |= dict(conn.execute(select(table.c.job_id, table.c.status).where(table.c.job_id.in_(some))).all())
    return found


def documents(conn: Connection, job_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the documents of `job_ids` with their attempts, in the order given; unknown ids are left out."""
    now = db_moment(conn)
    found: dict[str, dict[str, Any]] = {}
    for some in _portions(job_ids):
        for row in rows(conn, select(table).where(table.c.job_id.in_(some))):
            found[row["job_id"]] = document(row, now) | {"attempts_log": []}
        tried = select(attempts).where(attempts.c.job_id.in_(some)).order_by(attempts.c.job_id, attempts.c.attempt)
        for one in rows(conn, tried):
            if one["job_id"] in found:
                found[one["job_id"]]["attempts_log"].append(_attempt_document(one))
    tell(conn, list(found.values()))
    return [found[job_id] for job_id in job_ids if job_id in found]


def document(row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the document of the jobs row `row` as it stands at `now` (the database's clock)."""
    until = {"running": now}.get(row["status"], row["finished_at"])
    return {
        **{name: row[name] for name in _AS_STORED},
        "group": row["group_key"],
        **{name: iso(row[name]) for name in _MOMENTS},
        "queued_for_sec": seconds(row["queue_at"], now if row["status"] == "queued" else row["started_at"]),
        "running_for_sec": seconds(row["started_at"], until),
        "progress": _told(progress(row["progress"]), row),
    }


#: how the steps of a job that runs no more are left, whatever its lost worker could still write (rule J12)
_LEFT = {"queued": "pending", "failed": "failed", "cancelled": "skipped"}


def _told(found: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    left = _LEFT.get(row["status"])
    if left is None:
        return found
    stopped = ("running", "pending") if left == "skipped" else ("running",)
    why = row["error_msg"] or row["wait_reason"] or row["status"]
    return found | {"steps": [
        step | {"status": left, "reason": why} if step["status"] in stopped else step for step in found["steps"]]}


def progress(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the progress part of a document: what is stored, with zeros for what has not begun (rule J12)."""
    return {name: (stored or {}).get(name, default) for name, default in _NO_PROGRESS.items()}


def lane_order() -> tuple[ColumnElement[Any], ...]:
    """Return the columns that order the queued jobs of a group (rule R4)."""
    return table.c.priority, table.c.queue_at, table.c.seq


def _in_order(wanted: JobFilter) -> list[Select[Any]]:
    base = select(table).where(*conditions(wanted))
    newest_first = func.coalesce(table.c.started_at, table.c.claimed_at, table.c.queue_at).desc()
    parts: list[tuple[tuple[str, ...], tuple[ColumnElement[Any], ...]]] = [
        (("running",), (newest_first, table.c.seq.desc())),
        (("queued",), lane_order()),
    ]
    if wanted.include_history:
        ended = (table.c.finished_at.desc(), table.c.seq.desc())
        parts += [(("failed", "cancelled"), ended), (("done",), ended)]
    return [
        base.where(in_state(*some)).order_by(*order)
        for some, order in parts
        if wanted.status is None or wanted.status in some
    ]


def conditions(wanted: JobFilter) -> list[ColumnElement[bool]]:
    """Return the conditions on a job's row under which `wanted` lets it through."""
    exact = {
        "site_code": wanted.site, "target_code": wanted.target, "status": wanted.status, "group_key": wanted.group,
        "kind": wanted.kind, "source": wanted.source, "run_id": wanted.run, "dedupe_key": wanted.dedupe_key,
    }
    found: list[ColumnElement[bool]] = [table.c[name] == value for name, value in exact.items() if value is not None]
    if wanted.search:
        anywhere = (table.c.site_code, table.c.target_code)
        found.append(
            or_(id_begins(wanted.search) if wanted.id_by_start else table.c.job_id.icontains(wanted.search, autoescape=True),
                *(column.icontains(wanted.search, autoescape=True) for column in anywhere),
                table.c.error_msg.istartswith(wanted.search, autoescape=True))
        )
    return found


def _attempt_document(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "attempt": row["attempt"], "worker": row["worker"], "source": row["source"],
        "started_at": iso(row["started_at"]), "finished_at": iso(row["finished_at"]),
        "outcome": row["outcome"], "error": row["error"],
        "from_page": row["from_page"], "last_completed_page": row["last_completed_page"], "evidence": row["evidence"],
    }


def _portions(job_ids: Sequence[str]) -> list[Sequence[str]]:
    return [job_ids[start : start + _IDS_AT_ONCE] for start in range(0, len(job_ids), _IDS_AT_ONCE)]
