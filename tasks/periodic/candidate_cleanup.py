"""The removal of candidates that nobody has seen for a fortnight (rule S7)."""

from __future__ import annotations

from sqlalchemy import Connection

from models.agenda.fan import Chosen, FanOut, Tally
from tasks.periodic.base import PeriodicWork, Run, by_result
from tasks.schedule.terms import Outcome


class CandidateCleanup(PeriodicWork):
    """One job in the lane of cleanups."""

    def plan(self, conn: Connection, run: Run) -> FanOut | Outcome:
        """Start it."""
        return FanOut("candidate_cleanup", [Chosen(None, None, "_cleanup")], "candidate_cleanup")

    def judge(self, conn: Connection, run: Run, tally: Tally) -> Outcome:
        """Take the job's own word."""
        return by_result(conn, run)


WORK = CandidateCleanup()
