"""Pages of jobs are the list, cut: whatever is filtered, searched or sorted, no job is left out or shown twice (J13)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from config import clock
from config.errors import BadInput
from models import queries
from models.db import Database
from models.jobs import STATUSES, jobs
from models.queries import JobFilter
from models.queries.board import jobs as board
from models.queries.board import paging
from tests.support.ledger import SMALL, START, seed

NUMBER = 130
ERRORS = ("", "", "HTTPError: 503 from x", "TransportError: gone", "100%_sure: no wildcard", "Ünfug: größer")
FILTERS = (
    {}, {"status": "done"}, {"status": "failed"}, {"status": "queued"}, {"group": "g1"}, {"site": "s2"}, {"target": "t3"},
    {"kind": "crawl"}, {"kind": "export"}, {"source": "schedule"}, {"source": "retry"}, {"run": 7}, {"dedupe_key": "k"},
    {"search": "httperror"}, {"search": "HTTPError: 503 from"}, {"search": "t1"}, {"search": "00"}, {"search": "f"},
    {"search": "zz-given"}, {"search": "100%_"}, {"search": "_"}, {"search": "g"}, {"search": "s"},
    {"group": "g2", "status": "done", "source": "manual"}, {"search": "t", "status": "cancelled"},
    {"include_history": False}, {"source": "schedule", "kind": "crawl"},
)


@pytest.fixture
def conn(database: Database) -> Iterator[Connection]:
    seed(database, SMALL)
    chance = random.Random(4)
    with database.write() as line:
        line.execute(insert(jobs), [row(number, chance) for number in range(NUMBER)])
    with database.look() as line:
        yield line


def row(number: int, chance: random.Random) -> dict[str, Any]:
    """Return a job in any state; many share their moments, so that only the order of submitting tells them apart."""
    target = chance.choice(("t1", "t1b", "t2", "t3"))
    site = {"t1": "s1", "t1b": "s1", "t2": "s2", "t3": "s3"}[target]
    status = chance.choice(STATUSES) if number > 2 else "running"
    if status == "running":
        site, status = (f"s{number + 1}", status) if number < 3 else (site, "done")
    at = clock.now() - timedelta(seconds=chance.randrange(20) * 10)
    final = status in queries.FINAL
    return {
        "job_id": f"{chance.randrange(16**12):012x}" if number % 9 else f"zz-given-{number}", "kind": chance.choice(
            ("crawl", "crawl", "vitals", "export")), "site_code": site, "target_code": target,
        "group_key": site.replace("s", "g"), "source": chance.choice(("manual", "schedule")), "status": status,
        "priority": chance.choice((5, 100)), "dedupe_key": "k" if number % 7 == 0 and final else None,
        "run_id": chance.choice((None, 7)), "error_msg": chance.choice(ERRORS) if status != "running" else "",
        "enqueued_at": at, "queue_at": at, "updated_at": at, "started_at": None if status == "queued" else at,
        "finished_at": at if final else None, "lease_until": clock.now() + timedelta(hours=1) if status == "running" else None}


def through(conn: Connection, wanted: JobFilter, sort: str, limit: int) -> list[dict[str, Any]]:
    """Return the rows of all pages."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(40 * NUMBER):
        page = board.page(conn, wanted, sort=sort, limit=limit, cursor=cursor)
        assert len(page.rows) <= limit
        found += page.rows
        cursor = page.next
        if cursor is None:
            return found
    raise AssertionError("the pages do not end")


def expected(conn: Connection, wanted: JobFilter, sort: str) -> list[str]:
    """Return the ids of the same list, cut from one that nothing is left out of."""
    listed = [one["job_id"] for one in queries.jobs(conn, wanted)]
    if sort == "order":
        return listed
    rows = {row.job_id: row for row in conn.execute(jobs.select().where(jobs.c.job_id.in_(listed)))}
    if sort.endswith("finished"):
        listed = [one for one in listed if rows[one].finished_at is not None]
        return sorted(listed, key=lambda one: (rows[one].finished_at, rows[one].seq), reverse=sort.startswith("-"))
    return sorted(listed, key=lambda one: rows[one].seq, reverse=sort.startswith("-"))


@pytest.mark.parametrize("walk", [3, 10_000], ids=["walking", "at once"])
def test_pages_are_the_list_cut(conn: Connection, walk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "WALK", walk)
    monkeypatch.setattr("models.queries.board.searching.MOST_CODES", 2)
    limits = itertools.cycle((7, 1, 500))
    for (given, sort), limit in zip(itertools.product(FILTERS, board.SORTS), limits, strict=False):
        wanted = JobFilter(**{"limit": None, "id_by_start": True, **given})  # type: ignore[arg-type]
        found = [one["job_id"] for one in through(conn, wanted, sort, limit)]
        assert found == expected(conn, wanted, sort), (given, sort, limit)


def test_counts_are_exact_below_their_ceiling(conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in FILTERS:
        wanted = JobFilter(**{"limit": None, "id_by_start": True, **given})  # type: ignore[arg-type]
        number = len(queries.jobs(conn, wanted))
        monkeypatch.setattr(paging, "CEILING", 10_000)
        assert board.total(conn, wanted) == {"number": number, "capped": False}, given
        monkeypatch.setattr(paging, "CEILING", 20)
        assert board.total(conn, wanted) == {"number": min(number, 20), "capped": number > 20}, given
    assert {name: one["number"] for name, one in board.counts(conn).items()} == {
        name: min(number, 20) for name, number in queries.counts(conn).items()}


def test_what_changes_between_two_pages_hides_nothing_that_stays(database: Database) -> None:
    seed(database, SMALL)
    chance = random.Random(9)
    with database.write() as line:
        line.execute(insert(jobs), [row(number, chance) | {"status": "queued", "finished_at": None, "lease_until": None,
                                                           "dedupe_key": None} for number in range(40)])
    with database.look() as line:
        first = board.page(line, JobFilter(), limit=10)
        rest = [one["job_id"] for one in through(line, JobFilter(), "order", 10)][10:]
    with database.write() as line:
        line.execute(jobs.delete().where(jobs.c.job_id.in_([one["job_id"] for one in first.rows])))
    with database.look() as line:
        again = board.page(line, JobFilter(), limit=50, cursor=first.next)
    assert [one["job_id"] for one in again.rows] == rest


@pytest.mark.parametrize("cursor", ["", "x", "bm9uZQ", "W10", "WzFd", "WzksMV0", paging.encode(0, "a"), paging.encode(7, None),
                                    paging.encode(0, START, 2**70), "[" * 5_000, "é", paging.encode(True, None)])
def test_a_cursor_that_leads_nowhere_is_bad_input(conn: Connection, cursor: str) -> None:
    with pytest.raises(BadInput, match="cursor"):
        board.page(conn, JobFilter(), cursor=cursor)
