"""The short way of storing a new article leaves what the longer one leaves, on both databases (rules P5, J7)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from config.errors import StaleClaim
from models.articles import articles, validators
from models.claim import Commit, Started
from models.db import Database
from models.requests import requests
from models.statements import article_commits
from tests.support.ledger import SMALL, START, Bench, in_thread, seed

LIST = "http://s1.example.org/list"


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def article(started: Started, number: int, **more: Any) -> dict[str, Any]:
    """The row of an article as the journal makes it."""
    return {"target_code": started.claim.target_code, "site_code": started.site_code, "url": f"http://x.example/{number}",
            "own_id": "7", "final_url": f"http://x.example/{number}", "title": "A \0title 标题", "published_at": datetime(
                2026, 3, 1, 10, 5, tzinfo=UTC), "text": "text \ud800", "sha256": "abc", "source_page": LIST, "external": False,
            "marked": False, "facts": {"number": "文 1"}, "etag": '"x"', "last_modified": None, "generation": 3,
            "job_id": started.claim.job_id} | more


def request(number: int, **more: Any) -> dict[str, Any]:
    """A row of the request log as the journal makes it."""
    return {"b_number": number, "b_host": "x.example", "b_url": "http://x.example/\0", "b_started": 3.0, "b_ended": 1.5,
            "b_status": 200, "b_bytes": 12, "b_error": "", "b_interval": 0.5} | more


def commit(bench: Bench, started: Started, number: int, **more: Any) -> None:
    """Commit an article as the journal does."""
    what = {"progress": {"items_new": number, "steps": ["a"]}, "current_page": 4, "articles": (article(started, number),),
            "requests": (request(2 * number), request(2 * number + 1, b_status=None, b_error="Reset: x")),
            "response_age_sec": 1.5, "response_interval_sec": 0.5, "target_code": started.claim.target_code} | more
    bench.ledger.commit(*started.claim[:2], started.claim.group, Commit(**what))


def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that fills with what the short way answers."""
    answers: list[bool] = []
    real = article_commits.store
    monkeypatch.setattr(article_commits, "store", lambda *args: answers.append(real(*args)) or answers[-1])
    return answers


def shape(bench: Bench, job_id: str) -> tuple[Any, ...]:
    """Return all that a commit writes but for names and numbers of the job."""
    job = {name: value for name, value in bench.job(job_id).items() if name in (
        "progress", "current_page", "last_response_at", "last_interval_sec", "busy_until", "updated_at", "checkpoint")}
    # the longer way asks the database's own clock when an article was fetched
    without = {"id", "job_id", "target_code", "site_code", "group_key", "fetched_at"}
    return job, *([{name: value for name, value in row.items() if name not in without} for row in bench.rows(table)
                   if row["job_id"] == job_id] for table in (articles, requests))


def test_p5_the_short_way_writes_what_the_longer_one_writes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    short, longer = bench.begin("t1"), bench.begin("t2")
    bench.clock.advance(10)
    answers = taken(monkeypatch)
    commit(bench, short, 1)
    assert answers == [True]
    monkeypatch.setattr(Commit, "is_one_article", False)
    commit(bench, longer, 1)
    assert answers == [True]
    assert shape(bench, short.claim.job_id) == shape(bench, longer.claim.job_id)
    job, stored, logged = shape(bench, short.claim.job_id)
    assert (job["progress"], stored[0]["title"], stored[0]["facts"]) == (
        {"items_new": 1, "steps": ["a"]}, "A title 标题", {"number": "文 1"})
    assert [row["started_at"] for row in logged] == [START + timedelta(seconds=7)] * 2


def test_p5_a_commit_that_is_repeated_writes_nothing_twice(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    started = bench.begin("t1")
    answers = taken(monkeypatch)
    for _ in range(2):
        commit(bench, started, 1)
    assert answers == [True, False], "what is stored is the longer way's business"
    assert (len(bench.rows(articles)), len(bench.rows(requests))) == (1, 2)


def test_p2_an_article_that_was_stored_before_keeps_its_former_hash(bench: Bench) -> None:
    first = bench.begin("t1")
    commit(bench, first, 1)
    bench.settle(first, result={})
    again = bench.begin("t1")
    commit(bench, again, 1, articles=(article(again, 1, sha256="new"),))
    (row,) = bench.rows(articles)
    assert (row["sha256"], row["facts"]["former_sha256"], row["job_id"]) == ("new", ["abc"], again.claim.job_id)


def test_j7_an_attempt_that_is_over_stores_nothing(bench: Bench) -> None:
    old = bench.begin("t1")
    bench.clock.advance(61)
    bench.reaper.reap()
    before = bench.everything()
    with pytest.raises(StaleClaim):
        commit(bench, old, 1)
    assert bench.everything() == before
    assert bench.rows(articles) == bench.rows(requests) == []


def test_p4_what_is_kept_for_asking_a_list_again_is_void_with_the_first_article(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.ledger.commit(*started.claim[:2], "g1", Commit(
        target_code="t1", validators={"url": LIST, "etag": '"x"', "last_modified": ""}))
    commit(bench, started, 1, answered_lists=("http://other.example/",))
    assert len(bench.rows(validators)) == 1
    commit(bench, started, 2, answered_lists=(LIST,))
    assert bench.rows(validators) == []


def test_j7_one_of_several_that_is_over_costs_the_others_nothing(bench: Bench) -> None:
    """Commits of several lanes may share a transaction."""
    old = bench.begin("t2")
    bench.clock.advance(61)
    bench.reaper.reap()
    living = bench.begin("t1"), bench.begin("t3")

    def store(started: Started) -> None:
        for number in range(30):
            commit(bench, started, number)

    running = [in_thread(lambda one=one: store(one)) for one in living]
    for _ in range(30):
        with pytest.raises(StaleClaim):
            commit(bench, old, 1)
    for one in running:
        one.result(60)
    assert len(bench.rows(articles)) == 60
    assert {row["job_id"] for row in bench.rows(articles)} == {one.claim.job_id for one in living}
