"""What `why` answers, once for command line, API and pages: facts read in one snapshot, put into words (rule J16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from config.errors import Unknown
from console.explain import Answer, explain
from models import queries
from models.facts import Facts


def why(conn: Connection, job_id: str) -> dict[str, Any]:
    """Return the document of `why` for a job; raises Unknown if no job has the id.

    `conn` should be a snapshot (`Database.look`): every reason is then true of one and the same moment.
    """
    facts = queries.facts(conn, job_id)
    if facts is None:
        raise Unknown(f"no job has the id {job_id!r}; `ratelane jobs` lists them")
    return explain(facts, queries.zone()).document(queries.zone())


def notes(conn: Connection, job_ids: Sequence[str]) -> dict[str, str]:
    """Return in a few words why each of the queued jobs waits, by id; a handful of statements for all of them."""
    return {facts.job.job_id: _short(facts) for facts in queries.many(conn, list(job_ids))}


def lane_notes(conn: Connection, groups: Sequence[str]) -> dict[str, str]:
    """Return in a few words why the next job of each lane waits, by group; lanes without a queued job are left out."""
    following = queries.next_up(conn, list(groups))
    words = notes(conn, list(following.values()))
    return {group: words[job_id] for group, job_id in following.items() if job_id in words}


def _short(facts: Facts) -> str:
    answer: Answer = explain(facts, queries.zone())
    return answer.reasons[0].short(facts.now)
