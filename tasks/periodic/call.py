"""A Celery task that the file of sites names: an entry of one's own that runs no crawl of ours.

A lane task of ours (`ratelane.crawl`, `ratelane.export`) becomes the jobs that it always is, one for each target that
`args` names. Any other task is called by one job in an internal lane, so that it has a lease, a history and a `why` like
everything that is scheduled; what these tasks do happens one at a time.
"""

from __future__ import annotations

from sqlalchemy import Connection, literal

from models.agenda.fan import Chosen, FanOut, Tally
from models.queries.schedule import chosen_targets, done_in
from routing.kinds import INTERNAL_LANES, kind_of
from tasks.periodic.base import PeriodicWork, Run, by_ratio, by_result
from tasks.schedule.terms import Kind, Outcome

KIND = "call"


class Call(PeriodicWork):
    """One job that calls the task, or one job for each target of a lane task."""

    def plan(self, conn: Connection, run: Run) -> FanOut | Outcome:
        """Start the jobs; of a lane task only those that an earlier try of the occurrence has not done."""
        call = run.scope.call
        if call is None:
            return Outcome(Kind.FAILED, "the entry names no task")
        kind = kind_of(call.task)
        if kind is None:
            lane = Chosen(None, None, INTERNAL_LANES[KIND])
            return FanOut(KIND, (lane,), f"{KIND}:{run.entry.name}", options={"call": call.task, "args": list(call.args)})
        among = chosen_targets(conn, [str(each) for each in call.args])
        if not call.args or conn.execute(among.limit(1)).first() is None:
            return Outcome(Kind.SKIPPED, "no_target")
        among = among.where(among.selected_columns.target_code.not_in(
            done_in(run.entry.name, run.info.occurrence, run.info.try_no)))
        if kind in INTERNAL_LANES:
            columns = among.selected_columns
            among = among.with_only_columns(
                columns.target_code, columns.site_code, literal(INTERNAL_LANES[kind]).label("group_key"))
        return FanOut(kind, among, f"{kind}:{{target}}")

    def judge(self, conn: Connection, run: Run, tally: Tally) -> Outcome:
        """Take the task's own word, or count the targets of a lane task."""
        call = run.scope.call
        return by_result(conn, run) if call is None or kind_of(call.task) is None else by_ratio(tally, run.settings)


WORK = Call()
