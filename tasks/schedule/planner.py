"""What a tick, the end of a run, an operator or an edit does to an entry. Pure (rules S1 to S7)."""

from __future__ import annotations

from datetime import date, datetime

from tasks.schedule.terms import Ending, Entry, Outcome, Refusal, RunInfo, Standing, Turn


def first(entry: Entry, now: datetime) -> Standing:
    """Return how an entry stands that has no row yet: its next moment, nothing past (rule S1)."""
    raise NotImplementedError("follows")


def turn(entry: Entry, standing: Standing, now: datetime) -> Turn:
    """Decide what a tick at `now` does (rules S1 to S7); ``wait`` if nothing is due. It may be asked at any time."""
    raise NotImplementedError("follows")


def ended(entry: Entry, standing: Standing, outcome: Outcome, now: datetime, *, run: RunInfo | None = None) -> Ending:
    """Decide what the end of `run` (None: the running one) at `now` with `outcome` does (rules S3, S4, S5).

    The end of a run that is no longer the running one changes only what is remembered of the past.
    """
    raise NotImplementedError("follows")


def by_hand(entry: Entry, standing: Standing, now: datetime, *, force: bool = False,
            stat_date: date | None = None) -> Turn | Refusal:
    """Decide what `schedule run` does: a run at once, for `stat_date` (None: today's), or a refusal (rules S6, S9)."""
    raise NotImplementedError("follows")


def edited(entry: Entry, standing: Standing, now: datetime, *, before: Entry) -> Turn:
    """Return the row after `before` became `entry` (edited, enabled, disabled): no past moment fires (rule S2).

    The action is ``wait``, or ``skip`` if moments that were due and not yet taken are recorded as skipped.
    """
    raise NotImplementedError("follows")


def resumed(entry: Entry, standing: Standing, now: datetime) -> Turn:
    """Return the row after a pause of the entry is lifted: what it would have fired is skipped (rule S2)."""
    raise NotImplementedError("follows")
