"""The words of the schedule as values: an entry, how it stands, how a try ended, what a tick does. Pure.

All moments are aware UTC datetimes; a stat date is a date in the entry's zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from tasks.schedule.calendar import Every, Times, Window

RunId = int | str


class Overlap(StrEnum):
    """What an entry does that comes due while a run of its own is under way (rule S7)."""

    JOIN = "join"  # the new occurrence is made up by the running run
    NEXT = "next"  # the new run starts; queued jobs of the old one are re-pointed to it, the old one closes
    ALWAYS = "always"  # the new run starts beside the old one


class Status(StrEnum):
    """What an entry's row says (rule S4): `deferred` after a skip or a deferral."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DEFERRED = "deferred"


class Kind(StrEnum):
    """How an occurrence, or one try of it, ends (rule S3)."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    DEFERRED = "deferred"  # followed by one of the others
    MADE_UP = "made_up"  # by the run `Outcome.by`


class DueFor(StrEnum):
    """Why `Standing.due_at` is what it is."""

    REGULAR = "regular"  # a regular moment that has not been tried
    DEFERRED = "deferred"  # the end of a deferral
    AGAIN = "again"  # another try after a failure or a skip


class Action(StrEnum):
    """What a tick, an operator or an edit does to an entry."""

    RUN = "run"
    DEFER = "defer"
    SKIP = "skip"
    MAKE_UP = "make_up"
    WAIT = "wait"  # nothing is due


@dataclass(frozen=True)
class Outcome:
    """How a try ended, as its task says it, or how an occurrence ended without one.

    `again_in` (seconds) is the task's own word for when it wants to be asked again after a failure, a skip or a
    deferral; a deferral may name the moment `until` instead. `progress` is new progress, None if there was none (rule
    S5). `by` is the run that made it up; None in a `Turn` means the run that this very turn starts.
    """

    kind: Kind
    reason: str = ""
    until: datetime | None = None
    again_in: float | None = None
    progress: Mapping[str, Any] | None = None
    by: RunId | None = None

    @property
    def ok(self) -> bool:
        """A skip is no success (rule S3)."""
        return self.kind == Kind.SUCCESS

    @property
    def skipped(self) -> bool:
        """Whether nothing was done and nothing failed."""
        return self.kind == Kind.SKIPPED


@dataclass(frozen=True)
class Entry:
    """A named periodic piece of work and its rules.

    `kind` and `priority` are those of its jobs. `catch_up`: how late a missed moment is still made up, as a duration or
    as the next time that the clock shows this wall time (rule S1). `max_tries`: how often an occurrence may fail before
    it waits for the next regular moment (rule S8), None for no limit. A disabled entry has no occurrences; a paused
    one's are skipped.
    """

    name: str
    kind: str
    when: Times | Every
    zone: ZoneInfo
    quiet: Window | None = None
    overlap: Overlap = Overlap.JOIN
    catch_up: timedelta | time = timedelta(hours=24)
    retry_after: timedelta = timedelta(minutes=5)
    max_tries: int | None = None
    priority: int = 100
    enabled: bool = True
    paused: bool = False


@dataclass(frozen=True)
class RunInfo:
    """A run that a turn starts, or that is under way. Its key is (entry, occurrence, try).

    `occurrence` is the regular moment that it works for; of a run by hand, the moment at which it was asked for.
    `failures` counts the failed tries of the occurrence before this one. `run_id` is None until the run has a row.
    `absorbs`: a run by hand that makes up what the schedule owed or was to try again, so that its own further tries are
    the schedule's.
    """

    occurrence: datetime
    try_no: int
    stat_date: date
    started_at: datetime
    source: str = "schedule"
    force: bool = False
    failures: int = 0
    run_id: RunId | None = None
    absorbs: bool = False


@dataclass(frozen=True)
class Standing:
    """What the row of an entry holds.

    The plan, which changes in one piece: `due_at` (None only of a disabled entry), `due_for`, `occurrence` (the moment
    that the planned try belongs to; several deferred ones: the first), `try_no` (the number that the planned try will
    have, from 1), `failures` (failed tries of the occurrence), `due_date` (its stat date), `source`, `force`; `after`:
    regular moments up to and including it are accounted for.

    The past: `stat_date` and `progress` belong together and stay when a try brings no new progress (rule S5);
    `last_success_at` moves with a success alone (rule S3); `skips_row` counts tries in a row that were skipped; `since` is
    when the entry was first seen, edited or resumed: what it owed before is not held against it (rule J15).
    """

    due_at: datetime | None
    status: Status = Status.PENDING
    due_for: DueFor = DueFor.REGULAR
    occurrence: datetime | None = None
    try_no: int = 1
    failures: int = 0
    due_date: date | None = None
    source: str = "schedule"
    force: bool = False
    after: datetime | None = None
    running: RunInfo | None = None
    stat_date: date | None = None
    progress: Mapping[str, Any] | None = None
    last_run_at: datetime | None = None
    last_outcome: Outcome | None = None
    last_success_at: datetime | None = None
    skips_row: int = 0
    since: datetime | None = None


@dataclass(frozen=True)
class Recorded:
    """What becomes of one occurrence without a run of its own, or of a run that a turn closes.

    (entry, occurrence, try) is the key of its row: a row that says `deferred` is overwritten by what follows.
    """

    occurrence: datetime
    try_no: int
    stat_date: date
    outcome: Outcome
    source: str = "schedule"


@dataclass(frozen=True)
class Turn:
    """What happens to an entry now, and its row afterwards.

    `run` is the run to start (action ``run``), `closes` the run that it takes over from (overlap ``next``; its queued
    jobs are re-pointed, and `recorded` holds its end), `until` the end of a deferral, `by` the running run that makes up
    (action ``make_up``). `recorded` holds one outcome for every occurrence that this turn decides without a run.
    `standing.running.run_id` of a new run is None: whoever stores the run fills it in.
    """

    action: Action
    reason: str
    standing: Standing
    run: RunInfo | None = None
    closes: RunInfo | None = None
    until: datetime | None = None
    by: RunInfo | None = None
    recorded: tuple[Recorded, ...] = ()


@dataclass(frozen=True)
class Ending:
    """What the end of a run does to its entry: what to record on the run, the row afterwards, and why it is due then.

    `again_at` is the moment of the next try of the same occurrence, None if there is none before the next regular one.
    """

    outcome: Outcome
    standing: Standing
    reason: str
    again_at: datetime | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a run by hand is not started: ``quiet_window`` (it ends `until`) or ``running`` (by `run`)."""

    reason: str
    until: datetime | None = None
    run: RunInfo | None = None
