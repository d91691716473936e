"""Every write of the schedule's rows: entries, runs, and the windows and runs of jobs that are stored already."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Delete,
    Integer,
    Select,
    String,
    Update,
    bindparam,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from models.base import Json, UtcDateTime, db_now, plus_seconds, to_micros
from models.jobs import IS_ACTIVE, IS_QUEUED, IS_RUNNING, jobs
from models.schedules import entries, run_job, runs

#: columns of an entry that its turn and its ends write
ENTRY = ("rules", "enabled", "paused", "status", "due_at", "plan", "run_id", "stat_date", "progress", "last_run_at",
         "last_success_at", "last_outcome", "stale_at", "updated_at")
#: rows in one statement; SQLite limits the number of parameters
_AT_ONCE = 500


def _make(conn: Connection, table: Any) -> Any:
    return (postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert)(table)


# -- entries ---------------------------------------------------------------------------------------------------------


def _due(columns: Any, now: datetime, limit: int) -> Select[Any]:
    return (select(columns).where(entries.c.due_at <= now, entries.c.enabled)
            .order_by(entries.c.due_at, entries.c.name).limit(limit))


def due_names(now: datetime, limit: int) -> Select[Any]:
    """Find the names of entries that are due, oldest first."""
    return _due(entries.c.name, now, limit)


def due(now: datetime, limit: int) -> Select[Any]:
    """Lock and read entries that are due, oldest first; what another tick holds is its own business."""
    return _due(entries, now, limit).with_for_update(skip_locked=True)


def lock(names: Iterable[str], *, wait: bool) -> Select[Any]:
    """Lock and read the rows of these entries, in the order of their names; without `wait` those that are free."""
    return (select(entries).where(entries.c.name.in_(sorted(names))).order_by(entries.c.name)
            .with_for_update(skip_locked=not wait))


def add_entries(conn: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store entries that have no row yet; a row that is there stays."""
    if rows:
        conn.execute(_make(conn, entries).on_conflict_do_nothing(), list(rows))


_WRITE_ENTRY = update(entries).where(entries.c.name == bindparam("b_name", type_=String())).values(
    {name: bindparam(f"b_{name}", type_=entries.c[name].type) for name in ENTRY})


def write_entries(conn: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows of entries that the caller has locked: their name and every column of `ENTRY`."""
    if rows:
        conn.execute(_WRITE_ENTRY, [{f"b_{name}": value for name, value in row.items()} for row in rows])


# -- runs ------------------------------------------------------------------------------------------------------------


_RUN = {"entry": "text", "occurrence": "timestamptz", "try_no": "integer", "stat_date": "date", "source": "text",
        "force": "boolean", "failures": "integer", "started_at": "timestamptz", "recorded_at": "timestamptz"}
_RUN_ROWS = {
    "postgresql": f"json_to_recordset(%s::json) AS r({', '.join(f'{name} {kind}' for name, kind in _RUN.items())})",
    "sqlite": "(SELECT " + ", ".join(f"json_extract(e.value, '$.{name}') AS {name}" for name in _RUN)
              + " FROM json_each(?) e) r",
}
_START = """
    INSERT INTO runs ({columns}) SELECT {columns} FROM {rows} WHERE true
    ON CONFLICT (entry, occurrence, try_no) DO UPDATE SET {fresh}, outcome = NULL, ended_at = NULL, reason = '',
        until = NULL, by_run = NULL
    WHERE runs.outcome = 'deferred' RETURNING run_id, entry"""


def start_runs(conn: Connection, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Store runs that begin, at most one an entry, and return their ids by entry.

    What says `deferred` is overwritten; a key that is there otherwise stays as it is and has no id here (rule S2).
    """
    if not rows:
        return {}
    fresh = ", ".join(f"{name} = excluded.{name}" for name in _RUN if name not in ("entry", "occurrence", "try_no"))
    statement = _START.format(columns=", ".join(_RUN), rows=_RUN_ROWS[conn.dialect.name], fresh=fresh)
    spelled = to_micros if conn.dialect.name == "sqlite" else datetime.isoformat
    document = json.dumps([{name: spelled(value) if isinstance(value, datetime) else value for name, value in row.items()}
                           for row in rows], default=date.isoformat)
    return {row.entry: row.run_id for row in conn.exec_driver_sql(statement, (document,))}


def record(conn: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store what became of occurrences without a run of their own, or of runs that another one takes over.

    A row that is open or says `deferred` gets its end; one that has its end keeps it (rule S3).
    """
    for start in range(0, len(rows), _AT_ONCE):
        made = _make(conn, runs).values(list(rows[start : start + _AT_ONCE]))
        ends = {name: made.excluded[name] for name in ("outcome", "reason", "until", "by_run", "ended_at", "recorded_at")}
        conn.execute(made.on_conflict_do_update(
            index_elements=["entry", "occurrence", "try_no"], set_=ends,
            where=or_(runs.c.outcome.is_(None), runs.c.outcome == "deferred")))


def last_try(entry: str, occurrence: datetime) -> Select[Any]:
    """Find the number of the last try of an occurrence."""
    return (select(runs.c.try_no).where(runs.c.entry == entry, runs.c.occurrence == occurrence)
            .order_by(runs.c.try_no.desc()).limit(1))


END_RUN = (
    update(runs).where(runs.c.run_id == bindparam("b_run", type_=Integer()), runs.c.outcome.is_(None))
    .values(outcome=bindparam("b_outcome", type_=String()), reason=bindparam("b_reason", type_=String()),
            until=bindparam("b_until", type_=UtcDateTime()), progress=bindparam("b_progress", type_=Json),
            by_run=bindparam("b_by", type_=Integer()), ended_at=bindparam("b_ended", type_=UtcDateTime()),
            recorded_at=bindparam("b_ended", type_=UtcDateTime()))
)
SET_TOTAL = update(runs).where(runs.c.run_id == bindparam("b_run", type_=Integer())).values(
    total=bindparam("b_total", type_=Integer()))


def old_runs(before: datetime, limit: int) -> Select[Any]:
    """Find runs that ended before a moment, the longest ago first (rule J17); the newest row of all stays.

    Ids are told to people and stand in other rows: SQLite would give the newest one again. Tries of an occurrence that is
    under way count its targets, however old they are.
    """
    other = runs.alias()
    newest = select(func.max(other.c.run_id)).scalar_subquery()
    under_way = select(other.c.run_id).where(
        other.c.outcome.is_(None), other.c.entry == runs.c.entry, other.c.occurrence == runs.c.occurrence).exists()
    return (select(runs.c.run_id)
            .where(runs.c.recorded_at < before, runs.c.outcome.is_not(None), runs.c.run_id < newest, ~under_way)
            .order_by(runs.c.recorded_at, runs.c.run_id).limit(limit).with_for_update(skip_locked=True))


def drop_run_jobs(run_ids: Sequence[int], limit: int) -> Delete:
    """Delete up to `limit` of the rows that say which jobs these runs counted."""
    some = select(run_job.c.run_id, run_job.c.job_id).where(run_job.c.run_id.in_(run_ids)).order_by(
        run_job.c.run_id, run_job.c.job_id).limit(limit)
    return delete(run_job).where(tuple_(run_job.c.run_id, run_job.c.job_id).in_(some))


def drop_runs(run_ids: Sequence[int]) -> Delete:
    """Delete runs that the caller has found to be no longer kept, and locked."""
    return delete(runs).where(runs.c.run_id.in_(run_ids), runs.c.outcome.is_not(None))

# -- jobs of runs ----------------------------------------------------------------------------------------------------


def _of_run(run_id: int) -> Select[Any]:
    return select(run_job.c.job_id).where(run_job.c.run_id == run_id)


def _free(*conditions: Any) -> Select[Any]:
    """Lock the jobs that nobody has in hand: whoever claims or settles one holds it for a moment only."""
    return select(jobs.c.job_id).where(*conditions).order_by(jobs.c.job_id).with_for_update(skip_locked=True, key_share=True)


def repoint(old: int, new: int, values: Mapping[str, Any], *, restart: bool) -> Update:
    """Make the queued jobs of run `old` those of run `new` (rule S7, overlap ``next``); returns their ids.

    `values` are what the new run's jobs have: options, priority, force. With `restart` they begin anew: what was seen for
    another date, or without reading it, says nothing of this run. Without, one that was forced stays so. When they are due
    stays, so no group is locked.
    """
    written: dict[str, Any] = {"run_id": new, "updated_at": db_now(), **values}
    if not restart:
        written["force"] = or_(jobs.c.force, literal(bool(values["force"])))
        written["options"] = case((jobs.c.options["refetch"].as_boolean(), jobs.c.options),
                                  else_=literal(values["options"], Json))
    if restart:
        written |= {"last_completed_page": jobs.c.resume_from_page, "row_page": jobs.c.resume_from_page,
                    "checkpoint": None, "failures": 0, "recoveries_row": 0, "cooldown_row": 0, "deadlines_row": 0}
    mine = _free(jobs.c.run_id == old, jobs.c.job_id.in_(_of_run(old)), IS_QUEUED)
    return update(jobs).where(jobs.c.job_id.in_(mine), IS_QUEUED).values(written).returning(jobs.c.job_id)


def leave_key(old: int, suffix: str) -> Update:
    """Take the dedupe keys of the running jobs of run `old` away, so that the new run's jobs queue behind them.

    They gain `suffix`, and where another job has that key already, as one that was parked then, their id as well.
    """
    mine = _free(jobs.c.run_id == old, jobs.c.job_id.in_(_of_run(old)), IS_RUNNING, jobs.c.dedupe_key.is_not(None))
    other, key = jobs.alias(), jobs.c.dedupe_key + suffix
    taken = select(other.c.job_id).where(other.c.dedupe_key == key, other.c.status.in_(("queued", "running"))).correlate(
        jobs).exists()
    return update(jobs).where(jobs.c.job_id.in_(mine), IS_RUNNING).values(
        dedupe_key=case((taken, key + ":" + jobs.c.job_id), else_=key))


def count_in(conn: Connection, new: int, old: int, job_ids: Sequence[str]) -> None:
    """Count re-pointed jobs of run `old` in run `new` as well."""
    for start in range(0, len(job_ids), _AT_ONCE):
        some = job_ids[start : start + _AT_ONCE]
        mine = select(bindparam(None, new, type_=Integer()), run_job.c.job_id, run_job.c.target_code, run_job.c.site_code
                      ).where(run_job.c.run_id == old, run_job.c.job_id.in_(some))
        conn.execute(_make(conn, run_job).from_select(["run_id", "job_id", "target_code", "site_code"], mine)
                     .on_conflict_do_nothing())


_PAST = "SELECT j.job_id, r.entry FROM jobs j {index} JOIN runs r ON r.run_id = j.run_id WHERE "
_QUEUED_PAST = _PAST + "j.status = 'queued' AND j.hold_from IS NOT NULL AND j.hold_from < {now} AND j.hold_until <= {now}"
_RUNNING_PAST = _PAST + "j.status = 'running' AND j.hold_until <= {now}"
# without the name of the index SQLite reads every queued job
_INDEX = {"sqlite": "INDEXED BY ix_jobs_hold", "postgresql": ""}
_NOW = {"sqlite": "rl_now()", "postgresql": "(SELECT clock_timestamp())"}


def held_past(conn: Connection, limit: int) -> list[tuple[str, str]]:
    """Find jobs that wait or run and whose quiet window is over, up to `limit` of each: job and entry of its run."""
    index, now = _INDEX[conn.dialect.name], _NOW[conn.dialect.name]
    parts = [f"SELECT * FROM ({past} LIMIT {limit:d}) p" for past in (
        _QUEUED_PAST.format(index=index, now=now), _RUNNING_PAST.format(index="", now=now))]
    return [(row[0], row[1]) for row in conn.exec_driver_sql(" UNION ALL ".join(parts))]


def move_hold(job_ids: Sequence[str], from_sec: float | None, until_sec: float | None) -> Update:
    """Give jobs whose window is over the next one; they may be taken now as before, so no group is locked."""
    mine = _free(jobs.c.job_id.in_(job_ids), IS_ACTIVE, jobs.c.hold_until <= db_now())
    return update(jobs).where(jobs.c.job_id.in_(mine), IS_ACTIVE, jobs.c.hold_until <= db_now()).values(
        hold_from=None if from_sec is None else plus_seconds(db_now(), from_sec),
        hold_until=None if until_sec is None else plus_seconds(db_now(), until_sec))
