"""What an entry does: the two questions that the schedule asks every kind of periodic work.

A kind is one file of this package with an object `WORK` that answers them, named in `WORKS`. Both questions are asked
inside a transaction of the schedule's: answer them with reads alone, quickly, and leave the work to the jobs.
What is raised fails the run and is recorded with its reason; it stops neither the tick nor the other entries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from celery.utils.imports import symbol_by_name
from sqlalchemy import Connection

from config.settings import Settings
from models.agenda.fan import FanOut, Tally
from models.queries.schedule import result_of, tally_of
from tasks.schedule.terms import Entry, Kind, Outcome, RunInfo

#: where the work of each kind stands; `task` of an entry's document is one of these names
WORKS: dict[str, str] = {
    "crawl": "tasks.periodic.crawl:WORK",
    "snapshot": "tasks.periodic.snapshot:WORK",
    "snapshot_seed": "tasks.periodic.snapshot_seed:WORK",
    "discovery": "tasks.periodic.discovery:WORK",
    "candidate_cleanup": "tasks.periodic.candidate_cleanup:WORK",
    "vitals": "tasks.periodic.vitals:WORK",
    "call": "tasks.periodic.call:WORK",
}


@dataclass(frozen=True)
class NamedTask:
    """A Celery task by its name, and what it is called with: the work of an entry whose `task` is ``call``."""

    task: str
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Scope:
    """What an entry does, and to what: `task` is a name of `WORKS`; `targets` and `sites` are globs of codes, all of
    which must match (none given: everything that is enabled). `call` is the task that ``call`` calls.
    """

    task: str
    targets: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    call: NamedTask | None = None


@dataclass(frozen=True)
class Run:
    """A run as its kind sees it. `run_id` is that of its row; `now` is the schedule's clock.

    `info` has stat date, try, occurrence, force and source; `closes` is the run that this one takes over from (overlap
    ``next``): its queued jobs become this one's, with the options of the plan's answer.
    """

    run_id: int
    entry: Entry
    scope: Scope
    info: RunInfo
    now: datetime
    settings: Settings
    closes: int | None = None

    @property
    def stat_date(self) -> date:
        """The business date that the run works for."""
        return self.info.stat_date


class PeriodicWork(ABC):
    """What a kind of periodic work answers. Objects are stateless: any process asks any of them at any time.

    `asks_about` names entries whose runs `plan` looks at: what is over of them is ended before it is asked.
    """

    asks_about: tuple[str, ...] = ()

    @abstractmethod
    def plan(self, conn: Connection, run: Run) -> FanOut | Outcome:
        """Say which jobs `run` starts, or how it ends at once if it needs none (already done, deferred, no source).

        Asked in the transaction that has just stored the run's row; the jobs are stored in it too. For a further try
        (``run.info.try_no > 1``) give only what is missing: `models.queries.schedule.done_in` says what is not.
        """

    @abstractmethod
    def judge(self, conn: Connection, run: Run, tally: Tally) -> Outcome:
        """Say how `run` ended, now that none of its jobs is queued or running.

        Asked with the entry's row locked, in the transaction that records the end. Reads only.
        """

    def ended(self, conn: Connection, run: Run, outcome: Outcome) -> None:  # noqa: B027 - most kinds write nothing
        """Write what the end of `run` means to others, through their writers (a completed snapshot).

        Called in the transaction that records the end, behind `judge` and behind a `plan` that ended the run at once.
        """


def work_of(scope: Scope) -> PeriodicWork:
    """Return what the entry does; raises LookupError for a task that nobody knows."""
    place = WORKS.get(scope.task)
    if place is None:
        raise LookupError(f"no periodic work is called {scope.task!r}; known: {', '.join(sorted(WORKS))}")
    found: PeriodicWork = symbol_by_name(place)
    return found


def by_ratio(tally: Tally, settings: Settings) -> Outcome:
    """Judge a run that fans out: success if enough of its targets are done or settled (rule S8)."""
    progress: dict[str, Any] = dict(tally.progress)
    if tally.listed:
        progress["settled"] = list(tally.listed)
    counted = tally.done + tally.settled
    if counted >= settings.ok_ratio * tally.total:
        return Outcome(Kind.SUCCESS, progress=progress)
    text = f"{counted} of {tally.total} targets are done, {settings.ok_ratio:g} of them are needed"
    return Outcome(Kind.FAILED, text, progress=progress if counted else None)


def by_result(conn: Connection, run: Run) -> Outcome:
    """Judge a run of a single job by the document that the job returned.

    ``{"outcome": "success|skipped|deferred|failed", "reason", "again_in" (seconds), "progress"}``; a document without
    such an `outcome` is a success. A job that failed or was cancelled makes the run fail with its error.
    """
    status, document, error = result_of(conn, run.run_id)
    if status != "done":
        return Outcome(Kind.FAILED, error or f"the job is {status or 'gone'}")
    found: Mapping[str, Any] = document or {}
    word = found.get("outcome")
    kind = Kind(word) if word in ("success", "skipped", "deferred", "failed") else Kind.SUCCESS
    return Outcome(kind, str(found.get("reason") or ""), again_in=found.get("again_in"), progress=found.get("progress"))


__all__ = ["WORKS", "FanOut", "PeriodicWork", "Run", "Scope", "Tally", "by_ratio", "by_result", "tally_of", "work_of"]
