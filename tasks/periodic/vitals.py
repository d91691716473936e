"""The look at every site twice an hour: does it answer, with what status, how fast (rule S7).

What is known without a request needs no job: a paused group is not asked, an answer of the last half hour counts. A job
that its lane does not come to within that time expires, so that the next look is a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from models.agenda.fan import Chosen, FanOut, Tally
from models.queries.schedule import chosen_sites, expired_sites, sites_done_in
from models.queries.vitals import answers, base_urls, paused_groups
from models.snapshots_book import keep_vitals
from tasks.jobs.vitals import FRESH_SEC, answer_of, unknown
from tasks.periodic.base import PeriodicWork, Run, by_ratio
from tasks.pipeline.urls import host_key
from tasks.schedule.terms import Kind, Outcome


class Vitals(PeriodicWork):
    """One job a site, ahead of the crawls in its lane, for those of which nothing is known without one."""

    def plan(self, conn: Connection, run: Run) -> FanOut | Outcome:
        """Note what is known, ask for the rest."""
        wanted, info = chosen_sites(conn, run.scope.sites), run.info
        if info.try_no > 1:
            wanted = wanted.where(wanted.selected_columns.site_code.not_in(
                sites_done_in(run.entry.name, info.occurrence, info.try_no)))
        groups = {row.site_code: row.group_key for row in conn.execute(wanted)}
        known = known_without(conn, sorted(groups))
        keep_vitals(conn, known)
        told = {row["site_code"] for row in known}
        rest = [Chosen(None, code, group) for code, group in groups.items() if code not in told]
        if not rest:
            return Outcome(Kind.SUCCESS, progress={"done": len(told), "failed": 0, "total": len(told)})
        return FanOut("vitals", rest, "vitals:{site}", expires_sec=FRESH_SEC, holds=False)

    def judge(self, conn: Connection, run: Run, tally: Tally) -> Outcome:
        """Enough sites were looked at; that a lane was busy all the time is an answer too."""
        late = len(expired_sites(conn, run.run_id))
        return by_ratio(replace(tally, done=tally.done + late, failed=max(0, tally.failed - late)), run.settings)

    def ended(self, conn: Connection, run: Run, outcome: Outcome) -> None:
        """Note what is known by now of the sites whose lane did not come to it."""
        late = expired_sites(conn, run.run_id)
        known = {row["site_code"]: row for row in known_without(conn, late)}
        keep_vitals(conn, [known.get(code) or {"site_code": code, **unknown("busy")} for code in late])


def known_without(conn: Connection, codes: Sequence[str]) -> list[dict[str, Any]]:
    """Return the vitals of those of the sites that need not, or must not, be asked."""
    if not codes:
        return []
    sites, paused = base_urls(conn, codes), paused_groups(conn)
    rows = [{"site_code": code, **unknown("paused")} for code, (_, group) in sites.items() if group in paused]
    asked = [{"site_code": code, "group_key": group, "host": host_key(url)}
             for code, (url, group) in sites.items() if group not in paused]
    rows += [{"site_code": row.site_code, **answer_of(row.status, row.latency_sec)} for row in answers(conn, asked, FRESH_SEC)]
    return rows


WORK = Vitals()
