"""The seed of a stat date, right behind midnight: what the day begins with until its snapshot is taken (rule S7)."""

from __future__ import annotations

from datetime import date

from sqlalchemy import Connection

from config.settings import Settings
from models.agenda.fan import Chosen, FanOut, Tally
from models.queries.snapshots import day_of, last_completed, running_run, skips_row
from tasks.periodic.base import PeriodicWork, Run, by_result
from tasks.schedule.by_hand import make_pending
from tasks.schedule.terms import Kind, Outcome

NAME, SNAPSHOT = "snapshot_seed", "snapshot"
#: after so many skips in a row for want of a source it is asked but hourly
MOST_SKIPS, HOUR_SEC = 6, 3_600.0


def decide(conn: Connection, day: date, settings: Settings, entry: str = NAME) -> Outcome | date:
    """Return the stat date to clone into `day`, or how the seed ends without cloning anything.

    A completed day needs none; a snapshot that runs is about to give a better source; without a completed one before
    there is nothing to clone.
    """
    here = day_of(conn, day)
    if here.completed_at is not None:
        return Outcome(Kind.SUCCESS, "already_completed", by=here.completed_run)
    if running_run(conn, SNAPSHOT) is not None:
        return Outcome(Kind.DEFERRED, "snapshot_running", again_in=settings.seed_retry_sec)
    source = last_completed(conn, before=day)
    if source is None:
        often = skips_row(conn, entry) + 1 < MOST_SKIPS
        return Outcome(Kind.SKIPPED, "no_source", again_in=settings.seed_retry_sec if often else HOUR_SEC)
    return source


class SnapshotSeed(PeriodicWork):
    """One job in the lane of seeds, unless there is nothing to do."""

    asks_about = (SNAPSHOT,)

    def plan(self, conn: Connection, run: Run) -> FanOut | Outcome:
        """Ask whether there is anything to clone; the job asks again."""
        found = decide(conn, run.stat_date, run.settings, run.entry.name)
        if not isinstance(found, date):
            return found
        options = {"stat_date": run.stat_date.isoformat(), "entry": run.entry.name}
        return FanOut("snapshot_seed", [Chosen(None, None, "_seed")], f"snapshot_seed:{run.stat_date.isoformat()}",
                      options=options)

    def judge(self, conn: Connection, run: Run, tally: Tally) -> Outcome:
        """Take the job's own word."""
        return by_result(conn, run)

    def ended(self, conn: Connection, run: Run, outcome: Outcome) -> None:
        """Behind a success the evening's snapshot is pending at its time; nothing is forced by day."""
        if outcome.ok:
            make_pending(conn, run.settings, SNAPSHOT, run.now)


WORK = SnapshotSeed()
