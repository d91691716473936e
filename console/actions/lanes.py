"""Pausing and resuming lanes; the answers are lane documents as they stand afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from config.errors import BadInput
from console.actions.names import require_group
from models import queries
from models.db import Database
from models.operations import Operator
from models.pacing import OperatorPacing

#: a longer pause is a mistake of units, or meant to have no end
LONGEST_PAUSE_SEC = 3_660 * 86_400.0


def pause(
    db: Database, group: str, by: Operator, *, until: datetime | None = None, for_sec: float | None = None
) -> dict[str, Any]:
    """Pause a group for a time, until a moment, or until somebody resumes it, and return its lane (rule R9).

    The reason is `by`'s. Raises BadInput, naming the nearest group, if there is none called `group`, or if the pause
    would have no length.
    """
    require_group(db, group)
    _require_length(until, for_sec)
    OperatorPacing(db).pause(group, by, until=until, for_sec=for_sec)
    return lane(db, group)


def pause_all(
    db: Database, by: Operator, *, until: datetime | None = None, for_sec: float | None = None
) -> list[dict[str, Any]]:
    """Pause all groups, also those that are made later, and return all lanes (rule R9); raises as `pause`."""
    _require_length(until, for_sec)
    OperatorPacing(db).pause_all(by, until=until, for_sec=for_sec)
    return lanes(db)


def resume(db: Database, group: str, by: Operator, *, cooldown: bool = False) -> dict[str, Any]:
    """Lift the operator's pause of a group, with `cooldown` its cooldown too, and return its lane (rule R9).

    It stays paused while all lanes are: then the document says so.
    """
    require_group(db, group)
    OperatorPacing(db).resume(group, by, cooldown=cooldown)
    return lane(db, group)


def resume_all(db: Database, by: Operator, *, cooldown: bool = False) -> list[dict[str, Any]]:
    """Lift the pause of all groups, with `cooldown` all cooldowns too, and return all lanes (rule R9).

    Groups that were paused one by one stay paused.
    """
    OperatorPacing(db).resume_all(by, cooldown=cooldown)
    return lanes(db)


def lane(db: Database, group: str) -> dict[str, Any]:
    """Return the document of one lane."""
    with db.look() as conn:
        return queries.lane(conn, group)


def lanes(db: Database) -> list[dict[str, Any]]:
    """Return the document of every lane with work or a pause."""
    with db.look() as conn:
        return queries.lanes(conn)


def _require_length(until: datetime | None, for_sec: float | None) -> None:
    if until is not None and for_sec is not None:
        raise BadInput("a pause ends after a time or at a moment, not both")
    if for_sec is None:
        return
    if for_sec <= 0:
        raise BadInput(f"a pause must last longer than 0 seconds, not {for_sec:g}")
    if for_sec > LONGEST_PAUSE_SEC:
        raise BadInput(f"a pause of {for_sec:g} s is longer than ten years; without an end it lasts until it is resumed")
