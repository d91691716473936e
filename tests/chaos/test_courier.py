"""Callbacks and foreign messages survive what breaks around them (J2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery.canvas import Signature
from sqlalchemy import select

from console.demo import Site
from models.jobs import jobs
from tests.support.callers import Noted, in_process, stranger
from tests.support.fleet import Fleet, fleet
from tests.support.servers import ValkeyServer, wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(90)]
APP = "tests.support.plain_tasks"


@pytest.fixture
def served(store: Store) -> Iterator[Fleet]:
    sites = [Site("gd-one", columns={"news": 2}), Site("gd-two", columns={"news": 2})]
    with fleet(store, sites, interval_sec=0.05, grouped=False) as site:
        yield site


def call(store: Store, target: str) -> str:
    """Submit a crawl whose end is written down."""
    with in_process(store) as crawl:
        return str(crawl.apply_async((target,), link=Signature("plain.note", args=("end",), app=crawl.app)).id)


def test_j2_a_callback_is_sent_again_with_the_same_id_after_a_death_before_the_note(
    store: Store, workers: Workers, served: Fleet, valkey: ValkeyServer
) -> None:
    noted = Noted(valkey)
    # it reads another queue, so that what it has sent is still there
    first = workers.launch("one", app=APP, arguments=["-Q", "elsewhere"])
    first.probes.order("told", "kill")
    first.wait_ready()
    job_id = call(store, "gd-one_news")
    first.wait_end(30)
    assert store.row(job_id).callbacks_sent_at is None
    workers.start("two", app=APP)
    calls = noted.wait_for("end", times=2, timeout=30)
    assert {one[0] for one in calls} == {calls[0][0]}
    assert {one[1] for one in calls} == {job_id}
    wait_until(lambda: store.row(job_id).callbacks_sent_at, "the note", 15)


def test_j2_callbacks_wait_for_the_broker_and_need_no_free_slot(
    store: Store, workers: Workers, served: Fleet, valkey: ValkeyServer
) -> None:
    noted = Noted(valkey)
    hold = served.server.sites[1].hold("/news/art_1.html")
    (worker,) = workers.start("one", app=APP, concurrency=1, request_timeout_sec=2.5)
    job_id = call(store, "gd-one_news")
    store.wait_attempt(job_id, 1)
    valkey.stop()
    store.wait_for(job_id, "done")
    wait_until(lambda: "event=callbacks.wait" in worker.log, "a try", 20)
    assert store.row(job_id).callbacks_sent_at is None
    store.submit("gd-two_news")
    valkey.start()
    served.server.log.wait_for_arrival("/news/art_1.html", timeout=30)
    wait_until(lambda: store.row(job_id).callbacks_sent_at, "the sending while the only slot is taken", 40)
    assert noted.calls == []
    hold.release()
    noted.wait_for("end", timeout=20)


def test_j2_a_strangers_message_waits_for_the_database_and_survives_the_worker(
    store: Store, workers: Workers, served: Fleet, valkey: ValkeyServer, request: pytest.FixtureRequest
) -> None:
    if store.shares_home:
        pytest.skip("a SQLite file is not away")
    postgres: Any = request.getfixturevalue("postgres")
    (first,) = workers.start("one", app=APP, stray_sweep_sec=0.5)
    postgres.stop()
    stranger(store).send_task("ratelane.crawl", ["gd-one_news"], task_id="patient")
    wait_until(lambda: "event=database.away" in first.log, "a try", 20)
    with valkey.client() as line:
        assert line.hlen("unacked") == 1, "it is not acknowledged before it is stored"
    first.kill()
    postgres.start()
    store.db.dispose()
    first.start().wait_ready()

    def there() -> bool:
        with store.db.read() as conn:
            return conn.execute(select(jobs.c.seq).where(jobs.c.job_id == "patient")).first() is not None

    wait_until(there, "the job", 20)
    store.wait_for("patient", "done")
    with valkey.client() as line:
        wait_until(lambda: not line.exists("inbox", "unacked", "unacked_index"), "an empty broker")
