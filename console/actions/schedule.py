"""What operators do with the schedule: look at entries, runs and what is to come; run, pause and resume (rule S9).

All times of the documents are in the schedule's zone, with their offset.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from config import clock
from config.errors import BadInput, RatelaneError, Unknown
from config.moments import iso
from config.settings import Settings
from models import queries
from models.attempt import Attempt
from models.db import Database
from models.operations import Operator
from models.queries import schedule as reading
from routing.kinds import task_of
from tasks.schedule import by_hand, calendar, listing
from tasks.schedule.closing import close_over
from tasks.schedule.entries import Configured, configured
from tasks.schedule.terms import Refusal

SEED = "snapshot_seed"
#: once its jobs are final, a run is over as soon as somebody looks
PATIENCE_SEC, LOOK_EVERY_SEC = 30.0, 0.2
#: a preview of more is no preview, and one of very small steps has very many lines
LONGEST_PREVIEW = timedelta(days=62)


class ScheduleRefused(RatelaneError):
    """The entry does not run now; the sentence says why."""

    exit_code = 1


def entries(db: Database, settings: Settings) -> list[dict[str, Any]]:
    """Return the `entry` document of each entry, by name."""
    return listing.entries(db, settings)


def entry(db: Database, settings: Settings, name: str) -> dict[str, Any]:
    """Return the `entry` document of one entry; raises BadInput, naming the nearest, for an unknown one."""
    require_entry(db, settings, name)
    return listing.entries(db, settings, name)[0]


def require_entry(db: Database, settings: Settings, name: str) -> Configured:
    """Return an entry as it is configured; raises Unknown, naming the nearest one, if there is none called `name`."""
    with db.look() as conn:
        known = configured(conn, settings)
    if name not in known:
        raise Unknown(f"no entry is called {name!r}; the nearest one is {queries.nearest(name, sorted(known))}")
    return known[name]


def run_entry(db: Database, settings: Settings, name: str, by: Operator, *, force: bool = False,
              stat_date: date | None = None) -> dict[str, Any]:
    """Start a run of an entry at once and return its `run` document (rules S6, S9).

    Raises ScheduleRefused inside the entry's quiet window without `force`, or while a run of its own is under way that
    it does not take over from; BadInput for an unknown entry, a disabled one, or a date that has not come.
    """
    found = require_entry(db, settings, name)
    _require_past(found, stat_date)
    answer = by_hand.run_by_hand(db, settings, name, force=force, date=stat_date, by=by)
    if isinstance(answer, Refusal):
        raise ScheduleRefused(_refusal(name, answer, found.entry.zone))
    return run(db, answer)


def zone(db: Database) -> ZoneInfo:
    """Return the zone of all entries."""
    with db.look() as conn:
        return reading.zone_of(conn)


def run(db: Database, run_id: int) -> dict[str, Any]:
    """Return the `run` document of a run."""
    with db.look() as conn:
        return reading.run(conn, run_id) or {}


def runs(db: Database, settings: Settings, name: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the `run` documents of one entry or of all, newest first; also of an entry that exists no more."""
    with db.look() as conn:
        found = reading.runs_of(conn, name, limit or settings.list_limit)
    if not found and name is not None:
        require_entry(db, settings, name)
    return found


def pause_entry(db: Database, settings: Settings, name: str, by: Operator) -> dict[str, Any]:
    """Pause an entry, so that what comes due is skipped, and return its document; a run under way goes on."""
    require_entry(db, settings, name)
    by_hand.pause(db, settings, name, by=by)
    return entry(db, settings, name)


def resume_entry(db: Database, settings: Settings, name: str, by: Operator) -> dict[str, Any]:
    """Lift the pause of an entry and return its document; nothing past fires (rule S2)."""
    require_entry(db, settings, name)
    by_hand.resume(db, settings, name, by=by)
    return entry(db, settings, name)


def preview(db: Database, settings: Settings, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """Return the `occurrence` documents of what would fire, be deferred or be skipped in `[start, end]`.

    Raises BadInput if the end lies before the start, or they lie too far apart.
    """
    if end <= start:
        raise BadInput("a preview ends behind its start: name a later --to")
    if end - start > LONGEST_PREVIEW:
        raise BadInput(f"a preview of more than {LONGEST_PREVIEW.days} days has too many lines; name an earlier --to")
    return listing.preview(db, settings, start, end)


def seed(db: Database, settings: Settings, by: Operator, *, stat_date: date | None = None) -> dict[str, Any]:
    """Run the offline seed of a stat date to its end, and return its `run` document (rules S7, S9).

    Its job is run by a worker or by this process, and its end is recorded by a beat or by this process: neither is needed.
    Raises as `run_entry`.
    """
    found = run_entry(db, settings, SEED, by, stat_date=stat_date)
    if found["outcome"] is None:
        work_off(db, settings, found["run_id"])
        found = run(db, found["run_id"])
    return found


def work_off(db: Database, settings: Settings, run_id: int) -> None:
    """See to it that the jobs of a run come to their end, and the run with them; nothing else is started."""
    # what a job runs brings Celery along: only whoever runs one waits for it
    from tasks.inline import run_here
    from tasks.named import find_task

    with db.look() as conn:
        jobs = queries.jobs(conn, queries.JobFilter(run=run_id))
        known = configured(conn, settings)
    for job in jobs:
        task = find_task(task_of(job["kind"]))
        run_here(db, settings, job["job_id"], job["group"], partial(_is_final, db, job["job_id"]),
                 partial(_body, task), f"{SEED}@command")
    waited = clock.Stopwatch()
    while run(db, run_id)["outcome"] is None and waited.elapsed() < PATIENCE_SEC:
        # a beat that holds the entry's row this moment ends the run itself
        if not close_over(db, settings, known, clock.now()):
            clock.pause(LOOK_EVERY_SEC)


def _body(task: Any, _attempt: Attempt) -> Any:
    return task.run()


def _is_final(db: Database, job_id: str) -> bool:
    with db.look() as conn:
        return queries.documents(conn, [job_id])[0]["status"] in queries.FINAL


def _require_past(found: Configured, stat_date: date | None) -> None:
    zone = found.entry.zone
    if stat_date is not None and stat_date > calendar.stat_date(clock.now(), zone):
        raise BadInput(f"{stat_date} has not come in {zone.key}")


def _refusal(name: str, refusal: Refusal, zone: ZoneInfo) -> str:
    if refusal.reason == "quiet_window":
        until = refusal.until and iso(refusal.until, zone)
        return f"{name} has its quiet window until {until}; --force runs it all the same"
    if refusal.run is not None:
        return (f"{name} runs already: run {refusal.run.run_id} for {refusal.run.stat_date}, since "
                f"{iso(refusal.run.started_at, zone)}")
    return f"{name} does not run: {refusal.reason}"

