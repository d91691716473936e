"""The snapshot of a stat date: every enabled target, walked whole (rule S7)."""

from __future__ import annotations

from sqlalchemy import Connection

from models.agenda.fan import FanOut, Tally
from models.queries.schedule import chosen_targets, done_in, tally_of_day, whole_on
from models.queries.snapshots import day_of
from models.snapshots_book import completed
from tasks.periodic.base import PeriodicWork, Run, by_ratio
from tasks.schedule.terms import Kind, Outcome

#: the entry whose success completes the day; others of this kind walk a part of the targets
NAME, ALREADY = "snapshot", "already_completed"


class Snapshot(PeriodicWork):
    """A full walk of every target, under keys of its own: no other crawl of a target answers for it, or holds it up.

    What a run for the same date has walked whole stays walked, unless the run is forced; then it reads every body too.
    """

    def plan(self, conn: Connection, run: Run) -> FanOut | Outcome:
        """Start what is missing for the stat date; nothing, if it is complete and was not seeded since."""
        name, info = run.entry.name, run.info
        if name == NAME and not info.force:
            here = day_of(conn, run.stat_date)
            if here.is_settled:
                return Outcome(Kind.SUCCESS, ALREADY, by=here.completed_run)
        among = chosen_targets(conn, run.scope.targets, run.scope.sites)
        code = among.selected_columns.target_code
        if not info.force:
            among = among.where(code.not_in(whole_on(name, run.stat_date)))
        if info.try_no > 1:
            among = among.where(code.not_in(done_in(name, info.occurrence, info.try_no)))
        options = {"snapshot": run.stat_date.isoformat(), "refetch": info.force}
        return FanOut("crawl", among, "snapshot:{target}", force=True, options=options, holds=False)

    def judge(self, conn: Connection, run: Run, tally: Tally) -> Outcome:
        """Enough targets are done for the date, by whichever of its runs; of a forced one by itself."""
        return by_ratio(tally if run.info.force else tally_of_day(conn, run.entry.name, run.stat_date), run.settings)

    def ended(self, conn: Connection, run: Run, outcome: Outcome) -> None:
        """Note that the date is complete."""
        if run.entry.name == NAME and outcome.ok and outcome.reason != ALREADY:
            completed(conn, run.stat_date, run.run_id, run.info.started_at, run.now)


WORK = Snapshot()
