"""What runs again and again spells out the states of jobs: a plan for all values then uses the indexes made for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.dialects import postgresql

from models import queries, schema
from models.db import Database
from models.jobs import STATUSES, in_state
from models.jobs import jobs as table
from models.queries import line
from models.statements import operating, pauses, queueing
from tests.support.ledger import SMALL, START, Bench, seed

_PARAMETER = re.compile(r"\bstatus\s*(=|!=|IN)\s*\(?\s*(%\(|__\[POSTCOMPILE)")
STATEMENTS: dict[str, Any] = {
    "asleep": queueing.asleep(50), "expired": queueing.expired(50, ""), "running_of": queueing.running_of(["boot"]),
    "misplaced": queueing.misplaced(), "wake_all": pauses.WAKE_ALL, "wanted": operating.wanted([], operating.ACTIVE),
}
READS: dict[str, Callable[[Any], object]] = {
    "lanes": queries.lanes, "lane": lambda conn: queries.lane(conn, "g1"), "live": queries.live, "ops": queries.ops,
    "targets": queries.targets, "jobs": queries.jobs, "next_up": lambda conn: queries.next_up(conn, ["g1", "g2"]),
    "heads": lambda conn: line.heads(conn, ["g1", "g2"], START),
    "find_active": lambda conn: queries.find_active(conn, "crawl:t1"),
    "why": lambda conn: [queries.facts(conn, one["job_id"]) for one in queries.jobs(conn)],
}


def parameters(statement: Any) -> list[str]:
    """Return where a statement, as PostgreSQL would get it, compares a status with a parameter."""
    text = str(statement.compile(dialect=postgresql.dialect()))
    return [text[max(0, found.start() - 60) : found.end() + 20] for found in _PARAMETER.finditer(text)]


def test_a_parameter_would_be_found() -> None:
    assert parameters(table.select().where(table.c.status == "queued"))
    assert parameters(table.alias("other").select().where(table.c.status.in_(("queued", "running"))))
    assert not parameters(table.select().where(in_state("queued", "running"), table.c.job_id == "x"))


@pytest.mark.parametrize("name", STATEMENTS)
def test_periodic_statements_name_states_without_parameters(name: str) -> None:
    assert parameters(STATEMENTS[name]) == []


@pytest.mark.parametrize("name", READS)
def test_reads_of_displays_name_states_without_parameters(name: str, tmp_path: Path) -> None:
    """Each statement is caught on its way to an embedded database in which one job runs and two wait."""
    db = Database(f"sqlite:///{tmp_path}/store.sqlite3")
    with db.write() as conn:
        schema.metadata.create_all(conn)
    seed(db, SMALL)
    bench = Bench(db)
    bench.begin("t1")
    bench.submit("t1b")
    bench.submit("t2")
    caught: list[Any] = []
    event.listen(db.engine, "before_execute", lambda _conn, statement, *_: caught.append(statement))
    with db.look() as conn:
        READS[name](conn)
    assert caught
    assert [found for statement in caught for found in parameters(statement)] == []
    db.dispose()


def test_only_states_can_be_spelled_out() -> None:
    assert str(in_state(*STATUSES)).endswith("IN ('queued', 'running', 'done', 'failed', 'cancelled')")
    with pytest.raises(KeyError):
        in_state("queued' OR 'x' = 'x")
