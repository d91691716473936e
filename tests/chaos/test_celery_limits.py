"""Limits of Celery end no body under its lease (J2, J10): the site never sees two requests at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx2
import pytest

from config import clock
from config.devstack import spawn, stop_process
from console.demo import Site
from models.ledger import Ledger
from models.operations import Operator
from tasks.gate import LOOK_EVERY_SEC
from tests.support.callers import in_process, stranger
from tests.support.command_line import ROOT, clean_environment
from tests.support.fleet import fleet
from tests.support.servers import free_port, wait_until
from tests.support.store import Store
from tests.support.workers import Workers

# what it costs in time on two databases is not worth it: the rules themselves are tested on both
pytestmark = [
    pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(90),
    pytest.mark.parametrize("database", ["postgresql"], indirect=True)]
LIMIT_SEC = 1.0
APP = "tests.support.plain_tasks"


@pytest.mark.parametrize(
    ("pool", "given"),
    [("prefork", "task_time_limit"), ("prefork", "--time-limit"), ("prefork", "apply_async"), ("threads", "apply_async")])
def test_a_time_limit_ends_no_lane_job(
    store: Store, workers: Workers, pool: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response that takes three times the limit is waited for; the crawl is done by its first attempt."""
    if given == "task_time_limit":
        monkeypatch.setenv("PLAIN_TASKS_TIME_LIMIT", str(LIMIT_SEC))
    arguments = ["--time-limit", str(LIMIT_SEC), "--soft-time-limit", str(LIMIT_SEC)] if given == "--time-limit" else []
    sites = [Site("gd-one", columns={"news": 3})]
    with fleet(store, sites) as site:
        hold = site.server.sites[0].hold("/news/art_2.html")
        (worker,) = workers.start("one", pool=pool, app=APP, arguments=arguments, request_timeout_sec=15, lease_sec=20)
        children = worker.children()
        options: dict[str, Any] = {"time_limit": LIMIT_SEC, "soft_time_limit": LIMIT_SEC} if given == "apply_async" else {}
        with in_process(store) as crawl:
            job_id = crawl.apply_async(("gd-one_news",), **options).id
        site.server.log.wait_for_arrival("/news/art_2.html")
        clock.pause(3 * LIMIT_SEC)
        hold.release()
        job = store.wait_for(job_id, "done")
        assert (job["attempt"], job["outcome"], job["recoveries"]) == (1, "complete", 0)
        assert worker.children() == children
        site.assert_whole(store, most=0)
        site.assert_polite()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_the_terminate_button_of_flower_cancels_at_the_next_stop_point(store: Store, workers: Workers, pool: str) -> None:
    """J10: a running Flower is asked to kill the process in the middle of a slow response; the response is waited for,
    the job ends cancelled, its lane goes on, and it can be requeued."""
    sites = [Site("gd-one", columns={"news": 3, "other": 2})]
    with fleet(store, sites) as site, flower(store) as address:
        hold = site.server.sites[0].hold("/news/art_2.html")
        (worker,) = workers.start("one", pool=pool, request_timeout_sec=15, lease_sec=20)
        children = worker.children()
        job_id = store.submit("gd-one_news")
        site.server.log.wait_for_arrival("/news/art_2.html")
        behind = store.submit("gd-one_other")
        answer = httpx2.post(f"{address}/api/task/revoke/{job_id}", params={"terminate": "true", "signal": "SIGKILL"})
        assert answer.status_code == 200, answer.text
        wait_until(lambda: store.row(job_id).stop_requested, "the stop request", 10)
        clock.pause(LOOK_EVERY_SEC)  # what is left to do takes less than the body may go without a look at its row
        hold.release()
        job = store.wait_for(job_id, "cancelled")
        assert (job["attempt"], job["recoveries"]) == (1, 0)
        assert store.wait_for(behind, "done")["outcome"] == "complete"
        assert worker.children() == children
        assert Ledger(store.db, store.settings()).requeue(job_id, Operator("test")).verdict == "requeued"
        assert store.wait_for(job_id, "done")["outcome"] == "complete"
        site.assert_whole(store, most=1)
        site.assert_polite()


@contextmanager
def flower(store: Store) -> Iterator[str]:
    """Run Flower as its users do; give its address."""
    port, log = free_port(), store.folder / "flower.log"
    environment = clean_environment(**store.environment(), FLOWER_UNAUTHENTICATED_API="true")
    argv = [sys.executable, "-m", "celery", "-A", "config", "flower", "--address=127.0.0.1", f"--port={port}"]
    process = spawn(argv, environment, log, cwd=ROOT)
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        with suppress(httpx2.TransportError):
            return httpx2.get(f"{address}/healthcheck").status_code == 200
        return False

    try:
        wait_until(answers, "Flower", 30)
        yield address
    finally:
        stop_process(process, 5)


def test_an_ordinary_task_keeps_its_limit(store: Store, workers: Workers) -> None:
    """The same worker still ends what is no lane job."""
    workers.start("one", pool="prefork", app=APP, arguments=["--time-limit", "1"])
    stranger(store).send_task("plain.busy", [60])
    worker = workers.named("one")
    wait_until(lambda: "Hard time limit (1.0s) exceeded" in worker.log, "the limit", 30)
