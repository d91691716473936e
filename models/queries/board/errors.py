"""Dead letters by what they failed of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from models.jobs import ERROR_START, in_state
from models.jobs import jobs as table
from models.queries.board import paging
from models.queries.reading import iso

#: the newest dead letters that are told apart; of older ones nothing is said
LOOKED_AT = 5_000
#: targets that are named of each error
_NAMED = 5


def dead_letters(conn: Connection) -> tuple[list[dict[str, Any]], bool]:
    """Return an entry for each sort of error among the newest dead letters, the most frequent first.

    ``{"error", "count", "first_at", "last_at", "example", "message", "targets", "filter"}``: `error` is what comes before
    the colon of ``Type: message``, `message` the newest one's, `filter` what finds the sort again. The second part says
    whether there are older dead letters that were not looked at.
    """
    newest = (select(table.c.job_id, table.c.target_code, table.c.site_code, table.c.error_msg, table.c.finished_at)
              .where(in_state("failed")).order_by(table.c.finished_at.desc(), table.c.seq.desc()).limit(LOOKED_AT + 1))
    found = conn.execute(newest).all()
    sorts: dict[str, dict[str, Any]] = {}
    for row in found[:LOOKED_AT]:
        start = start_of(row.error_msg)
        one = sorts.setdefault(start, _first(start, row))
        one["number"] += 1
        one["first_at"] = row.finished_at
        code = row.target_code or row.site_code
        if code is not None and code not in one["targets"] and len(one["targets"]) < _NAMED:
            one["targets"].append(code)
    more = len(found) > LOOKED_AT
    return sorted((_document(one, more) for one in sorts.values()), key=lambda one: -one["count"]["number"]), more


def start_of(error: str) -> str:
    """Return the type of an error, with its colon so that it finds nothing else; of one without the beginning."""
    kind, colon, _ = error.partition(":")
    short = kind + colon if colon and len(kind) < ERROR_START and "\n" not in kind else error.partition("\n")[0]
    return short[:ERROR_START]


def _first(start: str, row: Any) -> dict[str, Any]:
    return {"error": start, "number": 0, "last_at": row.finished_at, "example": row.job_id,
            "message": row.error_msg.partition("\n")[0][:300], "targets": []}


def _document(one: Mapping[str, Any], more: bool) -> dict[str, Any]:
    first: datetime = one["first_at"]
    return {
        "error": one["error"], "count": paging.count(one["number"], more=more), "first_at": iso(first),
        "last_at": iso(one["last_at"]), "example": one["example"], "message": one["message"], "targets": one["targets"],
        "filter": {"status": "failed", **({"search": one["error"]} if one["error"] else {})}}
