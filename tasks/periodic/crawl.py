"""The incremental crawl of every enabled target (`snapshot_recent`), or of those that an own entry names (rule S7)."""

from __future__ import annotations

from sqlalchemy import Connection

from models.agenda.fan import FanOut, Tally
from models.queries.schedule import chosen_targets, done_in
from tasks.periodic.base import PeriodicWork, Run, by_ratio
from tasks.schedule.terms import Outcome


class Crawl(PeriodicWork):
    """A crawl job for each enabled target; one that waits or runs already answers for it."""

    def plan(self, conn: Connection, run: Run) -> FanOut | Outcome:
        """Start what an earlier try of the occurrence has not done."""
        info = run.info
        among = chosen_targets(conn, run.scope.targets, run.scope.sites)
        if info.try_no > 1:
            among = among.where(among.selected_columns.target_code.not_in(
                done_in(run.entry.name, info.occurrence, info.try_no)))
        key = "crawl:{target}:force" if info.force else "crawl:{target}"
        return FanOut("crawl", among, key)

    def judge(self, conn: Connection, run: Run, tally: Tally) -> Outcome:
        """Enough targets are done or settled, or the run has failed."""
        return by_ratio(tally, run.settings)


WORK = Crawl()
