"""Two crawls that store the same URL at the same moment (rule P2, public reports W37 and W42), on both databases."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from models.articles import articles
from models.claim import Commit, Started
from models.db import Database
from tests.support.ledger import SMALL, Bench, seed
from tests.support.ledger import in_thread as run

ROW = {"own_id": "7", "final_url": "", "published_at": None, "source_page": "", "external": False, "marked": False,
       "facts": {"number": "文〔2026〕1号"}, "etag": None, "last_modified": None, "generation": 1}


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def row(started: Started, number: int, **more: Any) -> dict[str, Any]:
    """An article of a job's target."""
    claim = started.claim
    return ROW | {"target_code": claim.target_code, "site_code": started.site_code, "url": f"http://x.example/{number}",
                  "title": f"{claim.target_code} {number}", "text": str(claim.target_code), "sha256": str(claim.target_code),
                  "job_id": claim.job_id} | more


def test_w42_two_groups_that_store_one_url_at_the_same_moment_a_hundred_times(bench: Bench) -> None:
    jobs = [bench.begin("t1"), bench.begin("t2")]
    barrier = threading.Barrier(2, timeout=30)

    def store(started: Started) -> None:
        for number in range(100):
            barrier.wait()
            # the second one is a commit that is repeated after a lost answer
            for _ in range(2):
                bench.ledger.commit(*started.claim[:2], started.claim.group, Commit(
                    articles=(row(started, number),), target_code=started.claim.target_code))

    for answer in [run(lambda one=one: store(one)) for one in jobs]:
        answer.result(timeout=100)
    found = bench.rows(articles)
    assert len(found) == len({(one["target_code"], one["url"]) for one in found}) == 200
    for one in jobs:
        assert bench.settle(one, result={"outcome": "complete"})


def test_w37_one_id_on_two_sites_is_two_articles_with_their_own_texts(bench: Bench) -> None:
    for code in ("t1", "t2"):
        started = bench.begin(code)
        url = f"http://{code}.example/gkmlpt/content/7.html"
        bench.ledger.commit(*started.claim[:2], started.claim.group, Commit(
            articles=(row(started, 7, url=url),), target_code=code))
    assert {(one["own_id"], one["target_code"], one["text"]) for one in bench.rows(articles)} == {("7", "t1", "t1"), ("7", "t2", "t2")}
    assert [one["facts"] for one in bench.rows(articles)] == [ROW["facts"]] * 2


def test_p2_what_has_a_body_does_not_lose_it_to_a_mark(bench: Bench) -> None:
    started = bench.begin("t1")
    for more in ({}, {"marked": True, "text": "", "sha256": ""}, {"external": True, "text": "", "sha256": "", "job_id": "other"}):
        bench.ledger.commit(*started.claim[:2], started.claim.group, Commit(
            articles=(row(started, 1, **more),), target_code="t1"))
    (one,) = bench.rows(articles)
    assert (one["text"], one["marked"], one["external"]) == ("t1", False, False)
