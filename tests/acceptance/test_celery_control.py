"""Revokes, inspection and events of Celery work on lane jobs (J10, U2)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Celery
from celery.result import AsyncResult
from sqlalchemy import update

from console.demo import Site
from models.jobs import jobs
from routing.control import JobControl
from tests.support.callers import Noted, in_process, stranger
from tests.support.fleet import Fleet, fleet
from tests.support.servers import ValkeyServer, wait_until
from tests.support.store import Store
from tests.support.workers import Workers

# what it costs in time on two databases is not worth it: the rules themselves are tested on both
pytestmark = [
    pytest.mark.slow, pytest.mark.acceptance, pytest.mark.timeout(90),
    pytest.mark.parametrize("database", ["postgresql"], indirect=True)]
APP = "tests.support.plain_tasks"


@pytest.fixture
def served(store: Store) -> Iterator[Fleet]:
    sites = [Site("gd-one", columns={"news": 40, "notices": 1}), Site("gd-two", columns={"news": 2})]
    with fleet(store, sites, interval_sec=0.2, grouped=False) as site:
        yield site


@contextmanager
def listening(app: Celery) -> Iterator[list[dict[str, Any]]]:
    """Collect the events that workers send."""
    found: list[dict[str, Any]] = []
    with app.connection_for_read() as line:
        receiver = app.events.Receiver(line, handlers={"*": found.append})
        thread = threading.Thread(target=lambda: receiver.capture(limit=None, timeout=None, wakeup=False), daemon=True)
        thread.start()
        yield found
        receiver.should_stop = True
        thread.join(10)


def ready(workers: Workers, *names: str, **options: Any) -> None:
    """Start workers that are watched, as Flower or `celery events` would, and listen to remote control."""
    for worker in workers.start(*names, app=APP, arguments=["-E"], **options):
        wait_until(lambda log=worker: "@test ready." in log.log, "remote control")


def kinds(events: list[dict[str, Any]], job_id: str) -> list[str]:
    return [one["type"] for one in events if one.get("uuid") == job_id]


def test_j10_a_revoke_that_any_worker_hears_cancels_the_job_and_haunts_no_requeue(
    store: Store, workers: Workers, served: Fleet, valkey: ValkeyServer
) -> None:
    """A broadcast, as every Celery application sends it: queued, running here, unknown, an ordinary task."""
    app, noted = stranger(store), Noted(valkey)
    ready(workers, "one")
    with listening(app) as events:
        running = store.submit("gd-one_news")
        served.server.wait_for(lambda log: len(log) >= 3)
        queued = store.submit("gd-one_notices")
        ordinary = app.send_task("plain.note", ["late"], countdown=3).id
        (answer,) = app.control.broadcast("revoke", arguments={"task_id": [queued, running, "0123456789ab"]}, reply=True,
                                           timeout=2)
        assert "cancelled in the database" in answer["one@test"]["ok"]
        assert app.control.revoke(ordinary, reply=True)
        assert store.wait_for(queued, "cancelled")["attempt"] == 0
        assert store.wait_for(running, "cancelled")["attempt"] == 1
        wait_until(lambda: "task-revoked" in kinds(events, queued) and "task-revoked" in kinds(events, running), "events")
        assert kinds(events, queued) == ["task-revoked"]
    revoked = app.control.inspect(timeout=2).revoked()["one@test"]
    assert {queued, running}.isdisjoint(revoked)
    assert {ordinary, "0123456789ab"} <= set(revoked)
    with store.db.write() as conn:
        conn.execute(update(jobs).where(jobs.c.job_id == queued).values(status="queued", finished_at=None))
    woken = store.submit("gd-one_notices")
    assert [store.wait_for(job_id, "done")["attempt"] for job_id in (queued, woken)] == [1, 1]
    worker = workers.named("one")
    wait_until(lambda: "Discarding revoked task: plain.note" in worker.log, "the end of the ordinary one")
    assert noted.calls == []


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_j10_terminate_asks_a_lane_job_to_stop_and_kills_no_body(
    store: Store, workers: Workers, served: Fleet, pool: str
) -> None:
    """`control terminate SIGKILL` during a slow response: the response ends, no request follows, nothing overlaps."""
    hold = served.server.sites[0].hold("/news/art_39.html")
    ready(workers, "one", pool=pool, request_timeout_sec=15, lease_sec=20)
    worker = workers.named("one")
    job_id = store.submit("gd-one_news")
    served.server.log.wait_for_arrival("/news/art_39.html")
    children = worker.children()
    stranger(store).control.broadcast("terminate", arguments={"signal": "SIGKILL", "task_id": [job_id]})
    wait_until(lambda: store.row(job_id).stop_requested or store.row(job_id).status == "cancelled", "the request to stop")
    hold.release()
    job = store.wait_for(job_id, "cancelled")
    assert (job["recoveries"], job["attempts_log"][0]["outcome"]) == (0, "cancelled")
    assert worker.children() == children
    served.assert_polite()


def test_j10_a_revoke_by_our_application_needs_no_worker_and_no_broker(
    store: Store, workers: Workers, served: Fleet
) -> None:
    """`AsyncResult.revoke` and Flower's buttons use it (W73): cancelled in the database, and nothing is ever sent."""
    with in_process(store) as crawl:
        job = crawl.delay("gd-one_news")
        control = JobControl(app=stranger(store, broker_connection_retry=False))
        assert control.revoke(job.id, terminate=True, reply=True) == [{"ratelane": {"ok": f"{job.id}: cancelled"}}]
        assert store.row(job.id).status == "cancelled"
        assert crawl.app.control.revoke(job.id) is None
        assert isinstance(crawl.app.control, JobControl)
        second = crawl.delay("gd-two_news")
        AsyncResult(second.id, app=crawl.app).revoke()
        assert second.state == "REVOKED"
    (worker,) = workers.start("one")
    woken = store.submit("gd-one_notices")
    store.wait_for(woken, "done")
    assert [one["job"] for one in worker.probes.seen("published")] == [woken]
    assert not [path for path in served.paths() if path.startswith("/news/")]


def test_u2_limits_have_no_effect_and_say_so(store: Store, workers: Workers, served: Fleet) -> None:
    ready(workers, "one")
    control = stranger(store).control
    (rate,) = control.rate_limit("ratelane.crawl", "1/m", reply=True, timeout=5)
    assert "no effect on the lane task" in rate["one@test"]["error"]
    (limit,) = control.time_limit("ratelane.crawl", soft=1, hard=1, reply=True, timeout=5)
    assert "no effect on the lane task" in limit["one@test"]["error"]
    (stock,) = control.rate_limit("plain.note", "10/s", reply=True, timeout=5)
    assert "ok" in stock["one@test"]


def test_u2_events_and_inspection_see_a_lane_job(store: Store, workers: Workers, served: Fleet) -> None:
    """Received, started and succeeded arrive with the job's id; active, query_task and lanes answer while it runs."""
    app = stranger(store)
    hold = served.server.sites[1].hold("/news/art_1.html")
    ready(workers, "one", "two", request_timeout_sec=15, lease_sec=20)
    with listening(app) as events:
        job_id = store.submit("gd-two_news")
        late = store.submit("gd-one_news", run_after_sec=600)
        served.server.log.wait_for_arrival("/news/art_1.html")
        inspect = app.control.inspect(timeout=2)
        runs = {name: [one["id"] for one in found] for name, found in inspect.active().items()}
        assert sorted(runs.values()) == [[], [job_id]]
        here = next(name for name, found in runs.items() if found)
        assert inspect.query_task(job_id)[here][job_id][0] == "active"
        lanes = inspect._request("lanes")
        assert [one["job"] for one in lanes[here]["running"]] == [job_id]
        assert inspect.reserved() == inspect.scheduled() == {name: [] for name in runs}
        hold.release()
        store.wait_for(job_id, "done")
        wait_until(lambda: "task-succeeded" in kinds(events, job_id), "the events")
        assert kinds(events, job_id) == ["task-received", "task-started", "task-succeeded"]
        assert kinds(events, late) == []
    assert {one["name"] for one in events if one["type"] == "task-received"} == {"ratelane.crawl"}
