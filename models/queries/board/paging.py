"""Pages of long lists: where the last one ended is the cursor, so that no page costs more than the first."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, literal_column, select

from config.errors import BadInput
from models.base import from_micros, to_micros

#: nothing is counted beyond: "10,000+"
CEILING = 10_000


class Page(NamedTuple):
    """Some rows of a list, and the cursor of the next ones (None: there are none)."""

    rows: list[dict[str, Any]]
    next: str | None


def encode(*place: Any) -> str:
    """Return a place in a list (words, whole numbers, moments, None) as a cursor: text that may stand in an address."""
    words = [{"t": to_micros(part)} if isinstance(part, datetime) else part for part in place]
    return base64.urlsafe_b64encode(json.dumps(words, separators=(",", ":")).encode()).decode().rstrip("=")


def decode(cursor: str, *kinds: type | tuple[type, ...]) -> list[Any]:
    """Return the place that a cursor names; raises BadInput if it is none of ours, or its parts are not of `kinds`."""
    try:
        words = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        place = [from_micros(part["t"]) if isinstance(part, dict) else part for part in words]
        fits = len(place) == len(kinds) and all(isinstance(part, kind) and not isinstance(part, bool)
                                                for part, kind in zip(place, kinds, strict=True))
    except (binascii.Error, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        fits = False
    if not fits or any(isinstance(part, int) and not -(2**63) <= part < 2**63 for part in place):
        raise BadInput("this cursor leads nowhere: take it as the last page gave it, or leave it out")
    return place


def count(number: int, *, more: bool = False) -> dict[str, Any]:
    """Return a count for people: at most `CEILING`, and whether there are more (`more`: or may be)."""
    return {"number": min(number, CEILING), "capped": more or number > CEILING}


def count_of(conn: Connection, wanted: Select[Any]) -> dict[str, Any]:
    """Count the rows of `wanted` up to the ceiling; what lies beyond is not looked at."""
    some = wanted.limit(CEILING + 1).subquery()
    return count(int(conn.execute(select(func.count()).select_from(some)).scalar_one()))


def sum_of(counts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of counts."""
    return count(sum(one["number"] for one in counts), more=any(one["capped"] for one in counts))


#: what is selected where rows are only counted
ONE: ColumnElement[int] = literal_column("1")
