"""The search for new list pages, site by site (rule S7)."""

from __future__ import annotations

from sqlalchemy import Connection

from models.agenda.fan import FanOut, Tally
from models.queries.schedule import chosen_sites, sites_done_in
from tasks.periodic.base import PeriodicWork, Run, by_ratio
from tasks.schedule.terms import Outcome


class Discovery(PeriodicWork):
    """One job a site, in the site's lane."""

    def plan(self, conn: Connection, run: Run) -> FanOut | Outcome:
        """Start a search of each site that an earlier try of the occurrence has not searched."""
        among, info = chosen_sites(conn, run.scope.sites), run.info
        if info.try_no > 1:
            among = among.where(among.selected_columns.site_code.not_in(
                sites_done_in(run.entry.name, info.occurrence, info.try_no)))
        return FanOut("discovery", among, "discovery:{site}")

    def judge(self, conn: Connection, run: Run, tally: Tally) -> Outcome:
        """Enough sites are searched, or the run has failed."""
        return by_ratio(tally, run.settings)


WORK = Discovery()
