"""The schedule as it stands: runs, and how far their targets are, from the jobs themselves (rules S8, S9)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, literal, literal_column, null, or_, select

from config.settings import get_settings
from models.agenda.fan import Tally
from models.base import UtcDateTime, micros_of
from models.jobs import in_state, jobs
from models.queries.reading import iso, rows, seconds
from models.schedules import entries, run_job, runs, schedule_config
from models.sites import sites, targets

#: so many codes of settled targets are listed
LISTED = 100
_PERMANENT = "PermanentJobError"
_WILD = frozenset("*?[")

_WHOLE: ColumnElement[bool] = and_(in_state("done"), or_(jobs.c.outcome.is_(None), jobs.c.outcome != "partial"))
_SETTLED: ColumnElement[bool] = or_(
    and_(in_state("failed"), jobs.c.result["error_type"].as_string() == _PERMANENT),
    and_(in_state("cancelled"), jobs.c.error_msg == "target_disabled"),
)
#: how a job answers for its target: the best of a target's jobs counts, which is the largest number
_OPEN, _DONE, _GIVEN_UP, _PARTIAL, _FAILED = 5, 4, 3, 2, 1
_STANDING = case(
    (in_state("queued", "running"), _OPEN), (_WHOLE, _DONE), (_SETTLED, _GIVEN_UP), (in_state("done"), _PARTIAL),
    else_=_FAILED)


def _open_jobs(run_id: ColumnElement[int]) -> Select[Any]:
    # ids are drawn by lot: where many are open the first few looks find one. Each job is looked up by its id: a plan
    # that reads the open jobs of all runs instead does so for every run
    status = select(jobs.c.status).where(jobs.c.job_id == run_job.c.job_id).correlate(run_job).scalar_subquery()
    open_words: list[ColumnElement[str]] = [literal_column("'queued'"), literal_column("'running'")]
    return select(literal_column("1")).select_from(run_job).where(run_job.c.run_id == run_id, status.in_(open_words)).limit(1)


#: open runs that may be over: none of their jobs is queued or running
OVER = (select(runs.c.run_id, runs.c.entry)
        .where(runs.c.outcome.is_(None), _open_jobs(runs.c.run_id).correlate(runs).scalar_subquery().is_(None))
        # in the order of the index of open runs: else SQLite reads every run there ever was
        .order_by(runs.c.entry, runs.c.run_id))


def is_open(run_id: int) -> Select[Any]:
    """Select a row if a job of the run is queued or running."""
    return select(_open_jobs(select(runs.c.run_id).where(runs.c.run_id == run_id).scalar_subquery()).exists())


_LAST = literal(datetime(9999, 12, 31, tzinfo=UTC), UtcDateTime())
# how many documents there are, and the sum of the moments at which they were written: another load is another sum, also
# one by a machine whose clock is behind, or one that began earlier and was committed later
_MARK = (func.count(), func.coalesce(func.sum(micros_of(schedule_config.c.updated_at)), 0))
_NEXT_DUE = select(func.min(entries.c.due_at, type_=entries.c.due_at.type)).where(entries.c.enabled, entries.c.due_at <= _LAST)
# what a hand wrote there instead of a moment: on SQLite any text is more than any number
_NEVER = select(entries.c.name).where(entries.c.enabled, entries.c.due_at > _LAST).exists()
# one statement: every beat asks it all the time
_LOOK = select(*_MARK, _NEXT_DUE.scalar_subquery(), OVER.exists(), _NEVER).select_from(schedule_config)


Mark = tuple[int, int]


class Look(NamedTuple):
    """What a beat sees at a glance; no lock is taken.

    `mark` changes whenever what the file says does; `due_at` is when the next entry is due, None if none is; `over` says
    whether a run may be over, `never` whether an entry's due moment is none that there is.
    """

    mark: Mark
    due_at: datetime | None
    over: bool
    never: bool


def look(conn: Connection) -> Look:
    """Return what there is to do for a beat."""
    documents, written, due_at, over, never = conn.execute(_LOOK).one()
    return Look((documents, int(written)), due_at, bool(over), bool(never))


def mark_of(conn: Connection) -> Mark:
    """Return the mark of what the file says now, in a statement of its own."""
    documents, written = conn.execute(select(*_MARK).select_from(schedule_config)).one()
    return documents, int(written)


def next_due(conn: Connection) -> datetime | None:
    """Return when the next entry is due, None if none is."""
    return conn.execute(_NEXT_DUE).scalar()


def run_rows(conn: Connection, run_ids: list[int]) -> dict[int, dict[str, Any]]:
    """Return rows of runs by id."""
    return {row["run_id"]: row for row in rows(conn, select(runs).where(runs.c.run_id.in_(run_ids)))}


def usual_lengths(conn: Connection) -> dict[str, float]:
    """Return how many seconds the last successful run of each entry took."""
    last = select(func.max(runs.c.run_id)).where(runs.c.outcome == "success", runs.c.started_at.is_not(None)).group_by(
        runs.c.entry)
    found = rows(conn, select(runs.c.entry, runs.c.started_at, runs.c.ended_at).where(runs.c.run_id.in_(last)))
    return {row["entry"]: seconds(row["started_at"], row["ended_at"]) or 0.0 for row in found}


def run(conn: Connection, run_id: int) -> dict[str, Any] | None:
    """Return the document of one run, None for an unknown id.

    ``run_id entry occurrence try_no stat_date source force started_at ended_at elapsed_sec outcome ok skipped reason
    until by_run progress{done,failed,total}``.
    """
    row = next(rows(conn, select(runs).where(runs.c.run_id == run_id)), None)
    return None if row is None else _document(conn, row, zone_of(conn))


def runs_of(conn: Connection, name: str | None = None, limit: int = 200) -> list[dict[str, Any]]:
    """Return the documents of runs, newest first; of one entry or of all."""
    wanted = select(runs).order_by(runs.c.run_id.desc()).limit(limit)
    if name is not None:
        wanted = wanted.where(runs.c.entry == name)
    where = zone_of(conn)
    return [_document(conn, row, where) for row in list(rows(conn, wanted))]


def run_documents(conn: Connection, run_ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return the documents of runs, in the order given; unknown ids are left out."""
    where, found = zone_of(conn), run_rows(conn, list(run_ids))
    return [_document(conn, found[run_id], where) for run_id in run_ids if run_id in found]


def _document(conn: Connection, row: Mapping[str, Any], where: ZoneInfo) -> dict[str, Any]:
    progress = row["progress"]
    if row["outcome"] is None and row["started_at"] is not None:
        progress = tally_of(conn, row["run_id"]).progress
    outcome = row["outcome"]
    return {
        "run_id": row["run_id"], "entry": row["entry"], "occurrence": iso(row["occurrence"], where), "try_no": row["try_no"],
        "stat_date": row["stat_date"].isoformat(), "source": row["source"], "force": bool(row["force"]),
        "started_at": iso(row["started_at"], where), "ended_at": iso(row["ended_at"], where),
        "elapsed_sec": seconds(row["started_at"], row["ended_at"]), "outcome": outcome,
        "ok": None if outcome is None else outcome == "success",
        "skipped": None if outcome is None else outcome == "skipped",
        "reason": row["reason"], "until": iso(row["until"], where), "by_run": row["by_run"], "progress": progress,
    }


def _tries(run_id: int) -> Select[Any]:
    """The runs of the same occurrence, up to and including this one."""
    mine = select(runs.c.entry, runs.c.occurrence, runs.c.try_no).where(runs.c.run_id == run_id).subquery()
    return select(runs.c.run_id).join_from(
        runs, mine, and_(runs.c.entry == mine.c.entry, runs.c.occurrence == mine.c.occurrence,
                         runs.c.try_no <= mine.c.try_no))


def tally_of(conn: Connection, run_id: int) -> Tally:
    """Return how far the targets of a run are, over all tries of its occurrence."""
    return _tally(conn, _tries(run_id))


def tally_of_day(conn: Connection, entry: str, day: date) -> Tally:
    """Return how far the targets of an entry's snapshots are for a stat date, over all its runs for that date.

    A job that another run took over for another date counts for that one: here its target is missing.
    """
    return _tally(conn, _runs_of_day(entry, day), case((~_takes(day), _FAILED), else_=_STANDING))


def _takes(day: date) -> ColumnElement[bool]:
    """A job that takes the snapshot of this stat date."""
    return func.coalesce(jobs.c.options["snapshot"].as_string(), "") == day.isoformat()


def _runs_of_day(entry: str, day: date) -> Select[Any]:
    return select(runs.c.run_id).where(runs.c.entry == entry, runs.c.stat_date == day)


def _tally(conn: Connection, among: Select[Any], standing: ColumnElement[int] = _STANDING) -> Tally:
    what = func.coalesce(run_job.c.target_code, run_job.c.site_code, run_job.c.job_id)
    each = (
        select(what.label("what"), func.max(func.coalesce(standing, _FAILED)).label("standing"))
        .select_from(run_job.outerjoin(jobs, jobs.c.job_id == run_job.c.job_id))
        .where(run_job.c.run_id.in_(among)).group_by(what).subquery()
    )
    counted: dict[int, int] = dict(conn.execute(select(each.c.standing, func.count()).group_by(each.c.standing)).all())
    listed = conn.execute(select(each.c.what).where(each.c.standing == _GIVEN_UP).order_by(each.c.what).limit(LISTED))
    return Tally(
        total=sum(counted.values()), done=counted.get(_DONE, 0), settled=counted.get(_GIVEN_UP, 0),
        partial=counted.get(_PARTIAL, 0), failed=counted.get(_FAILED, 0), open=counted.get(_OPEN, 0),
        listed=tuple(listed.scalars()) if counted.get(_GIVEN_UP) else ())


def result_of(conn: Connection, run_id: int) -> tuple[str | None, Mapping[str, Any] | None, str]:
    """Return status, result document and error of the run's only (or last) job; status None if it has none."""
    row = conn.execute(
        select(jobs.c.status, jobs.c.result, jobs.c.error_msg).join_from(run_job, jobs, jobs.c.job_id == run_job.c.job_id)
        .where(run_job.c.run_id == run_id).order_by(jobs.c.seq.desc()).limit(1)).first()
    return (None, None, "") if row is None else (row.status, row.result, row.error_msg)


def done_in(entry: str, occurrence: datetime, try_no: int) -> Select[Any]:
    """Select the codes of targets that an earlier try of the occurrence did whole or settled: leave these out.

    One column ``target_code``, never NULL; use it as ``targets.c.target_code.not_in(done_in(…))``.
    """
    return (
        select(run_job.c.target_code).join_from(run_job, runs, runs.c.run_id == run_job.c.run_id)
        .join(jobs, jobs.c.job_id == run_job.c.job_id)
        .where(runs.c.entry == entry, runs.c.occurrence == occurrence, runs.c.try_no < try_no,
               run_job.c.target_code.is_not(None), or_(_WHOLE, _SETTLED)))


def sites_done_in(entry: str, occurrence: datetime, try_no: int) -> Select[Any]:
    """Select the codes of sites that an earlier try of the occurrence did; as `done_in`, for jobs of whole sites."""
    return (
        select(run_job.c.site_code).join_from(run_job, runs, runs.c.run_id == run_job.c.run_id)
        .join(jobs, jobs.c.job_id == run_job.c.job_id)
        .where(runs.c.entry == entry, runs.c.occurrence == occurrence, runs.c.try_no < try_no,
               run_job.c.site_code.is_not(None), or_(_WHOLE, _SETTLED)))


def expired_sites(conn: Connection, run_id: int) -> list[str]:
    """Return the sites of a run whose job was not begun in time."""
    return list(conn.scalars(
        select(run_job.c.site_code).join_from(run_job, jobs, jobs.c.job_id == run_job.c.job_id)
        .where(run_job.c.run_id == run_id, run_job.c.site_code.is_not(None), in_state("cancelled"),
               jobs.c.error_msg == "expired").order_by(run_job.c.site_code)))


def whole_on(entry: str, day: date) -> Select[Any]:
    """Select the codes of targets that any run of an entry walked whole for the snapshot of a stat date; as `done_in`."""
    return (
        select(run_job.c.target_code).join_from(run_job, jobs, jobs.c.job_id == run_job.c.job_id)
        .where(run_job.c.run_id.in_(_runs_of_day(entry, day)), run_job.c.target_code.is_not(None), _WHOLE, _takes(day)))


def config_documents(conn: Connection) -> dict[str, dict[str, Any]]:
    """Return what the loaded file says about entries, by name; "" holds what it says of all."""
    return {row["name"]: row["document"] for row in rows(conn, select(schedule_config).order_by(schedule_config.c.name))}


def zone_of(conn: Connection) -> ZoneInfo:
    """Return the zone of all entries: the loaded file's, or that of the settings."""
    named = conn.execute(select(schedule_config.c.document).where(schedule_config.c.name == "")).scalar()
    return ZoneInfo((named or {}).get("timezone") or get_settings().timezone)


def chosen_targets(conn: Connection, target_globs: Sequence[str] = (), site_globs: Sequence[str] = ()) -> Select[Any]:
    """Select ``target_code``, ``site_code``, ``group_key`` of the enabled targets whose codes match; no glob: all."""
    return _chosen_targets(conn.dialect.name, tuple(target_globs), tuple(site_globs))


@lru_cache(maxsize=4096)
def _chosen_targets(dialect: str, target_globs: tuple[str, ...], site_globs: tuple[str, ...]) -> Select[Any]:
    """Entries ask the same again and again, and a thousand may ask in one second: what is built is kept."""
    wanted = select(targets.c.target_code, targets.c.site_code, sites.c.group_key).join_from(
        targets, sites, sites.c.site_code == targets.c.site_code).where(targets.c.enabled)
    return wanted.where(*_matching(dialect, targets.c.target_code, target_globs),
                        *_matching(dialect, sites.c.site_code, site_globs)).order_by(targets.c.target_code)


def chosen_sites(conn: Connection, site_globs: Sequence[str] = ()) -> Select[Any]:
    """Select ``target_code`` (NULL), ``site_code``, ``group_key`` of the sites with an enabled target whose codes match."""
    enabled = select(targets.c.target_code).where(targets.c.site_code == sites.c.site_code, targets.c.enabled).exists()
    return select(null().label("target_code"), sites.c.site_code, sites.c.group_key).where(
        enabled, *_matching(conn.dialect.name, sites.c.site_code, site_globs)).order_by(sites.c.site_code)


def _matching(dialect: str, code: ColumnElement[str], globs: Sequence[str]) -> list[ColumnElement[bool]]:
    if not globs:
        return []
    plain = [each for each in globs if not set(each) & _WILD]
    patterns = [_pattern(each) for each in globs if set(each) & _WILD]
    if len(plain) == len(globs) == 1:
        return [code == plain[0]]
    if dialect == "postgresql":
        return [or_(code.in_(plain), *(code.op("~")(each) for each in patterns))]
    return [or_(code.in_(plain), *(func.rl_match(each, code) for each in patterns))]


def _pattern(glob: str) -> str:
    """Return a glob as the regular expression that both databases take: ``*``, ``?`` and sets of characters."""
    parts = re.split(r"(\*|\?|\[!?[^\]]+\])", glob)
    words = {"*": ".*", "?": "."}
    return "^" + "".join(
        words.get(part) or (part.replace("[!", "[^", 1) if part.startswith("[") and part.endswith("]") else re.escape(part))
        for part in parts if part) + "$"
