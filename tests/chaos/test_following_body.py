"""A body that has begun with the end of another, and whose worker is stopped, held up or killed before its first line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from console.demo import Site
from models.jobs import attempts
from tests.support.fleet import Fleet, fleet
from tests.support.ledger import Bench
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Worker, Workers

pytestmark = [pytest.mark.slow, pytest.mark.exclusive, pytest.mark.timeout(60)]
#: the line between the end of the first body and the beginning of the one that follows
LINE = "published"
ARTICLES = 2


@contextmanager
def following(store: Store, workers: Workers, word: str) -> Iterator[tuple[Fleet, Worker, str]]:
    """Have a worker with one slot run two jobs of two lanes, and obey `word` when the second has begun."""
    sites = [Site(name, columns={"news": ARTICLES}, per_page=2) for name in ("before", "behind")]
    with fleet(store, sites, grouped=False, interval_sec=0.1) as site:
        store.submit("before_news", priority=1)
        job_id = store.submit("behind_news")
        worker = workers.launch("one", concurrency=1)
        worker.probes.order(LINE, word, job_id)
        yield site, worker, job_id
        site.assert_whole(store)
        site.assert_polite()


def log_of(store: Store, job_id: str) -> list[dict[str, Any]]:
    """Return the attempts of a job that is done."""
    log = sorted((row for row in Bench(store.db).rows(attempts) if row["job_id"] == job_id), key=lambda row: row["attempt"])
    assert store.row(job_id).status == "done"
    return log


def taken_over(store: Store, site: Fleet, workers: Workers, job_id: str) -> None:
    """Have a second worker do the job."""
    (second,) = workers.start("two", concurrency=1)
    store.wait_for(job_id, "done", timeout=30)
    assert {one.user_agent for one in site.log if one.site == "behind"} == {second.user_agent}


@pytest.mark.parametrize("word", ["freeze", "kill"])
def test_j8_what_has_begun_on_a_worker_that_stopped_is_recovered_and_never_done_there(
    store: Store, workers: Workers, word: str
) -> None:
    """J6, J8: nobody can tell that it had not run, so a recovery is counted; behind its lease its worker does not run it."""
    with following(store, workers, word) as (site, first, job_id):
        first.probes.wait_taken(LINE, job_id)
        if word == "freeze":
            first.wait_frozen()
        taken_over(store, site, workers, job_id)
        lost, done = log_of(store, job_id)
        assert lost["started_at"] == lost["claimed_at"], "it had begun with its claim"
        assert (lost["outcome"], done["outcome"], store.row(job_id).recoveries) == ("lost", "done", 1)
        if word == "freeze":
            first.thaw()
            wait_until(lambda: "event=claim.stale" in first.log, "the refusal of the old body")


def test_j8_what_has_begun_and_cannot_be_handed_over_goes_back_and_nothing_is_spent(
    store: Store, workers: Workers
) -> None:
    """The event loop hangs for longer than a hand-over may take; when it goes on the body does not start any more."""
    with following(store, workers, "hold") as (site, first, job_id):
        first.probes.wait_taken(LINE, job_id)
        assert store.row(job_id).started_at == store.row(job_id).claimed_at, "it has begun with its claim"
        taken_over(store, site, workers, job_id)
        assert [row["outcome"] for row in log_of(store, job_id)] == ["handed_back", "done"]
        assert (store.row(job_id).recoveries, store.row(job_id).failures) == (0, 0)
        first.probes.go(LINE)
        wait_until(lambda: "event=claim.stale" in first.log, "the refusal of the old body")
