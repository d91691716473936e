"""What operators do to the schedule: run an entry now, pause it, resume it (rules S6, S9)."""

from __future__ import annotations

from datetime import date

from config.settings import Settings
from models.db import Database
from models.operations import Operator
from tasks.schedule.terms import Refusal


def run_by_hand(db: Database, settings: Settings, name: str, by: Operator, *, force: bool = False,
                date: date | None = None) -> int | Refusal:
    """Start a run of the entry `name` at once and return its id, or say why not (rules S6, S9).

    `date` is the stat date to work for (None: today's in the entry's zone). `force` runs inside a quiet window, takes
    over from a running run where the overlap is ``next``, and is the run's own `force`. The run may be over when this
    returns (already completed, nothing to do): read it with `models.queries.schedule.run`. `by` is who asks, for the
    log of operations (`models.operations.acting`). Raises BadInput for a name that no entry has.
    """
    raise NotImplementedError


def pause(db: Database, settings: Settings, name: str, by: Operator) -> bool:
    """Pause an entry: what comes due is skipped (``paused``), a run under way goes on. Returns whether that is new.

    Raises BadInput for a name that no entry has.
    """
    raise NotImplementedError


def resume(db: Database, settings: Settings, name: str, by: Operator) -> bool:
    """Lift a pause; nothing past fires (rule S2). Returns whether it was paused. Raises BadInput as `pause`."""
    raise NotImplementedError
