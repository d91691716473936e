"""Plain Celery on RabbitMQ (J2): callbacks, messages of other producers, and those that lie in a lane."""

from __future__ import annotations

import pytest
from celery.canvas import Signature
from sqlalchemy import select

from console.demo import Site
from models.jobs import jobs
from tests.support.callers import Noted, in_process, stranger
from tests.support.fleet import fleet
from tests.support.rabbit import RabbitServer
from tests.support.servers import ValkeyServer, wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [
    pytest.mark.acceptance, pytest.mark.timeout(120), pytest.mark.parametrize("database", ["sqlite"], indirect=True)]


def test_j2_calls_callbacks_and_strays(
    store: Store, workers: Workers, rabbit: RabbitServer, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rabbit.flush()
    store.broker_url = rabbit.url
    monkeypatch.setenv("NOTED_URL", valkey.url)
    noted = Noted(valkey)
    (worker,) = workers.start("one", app="tests.support.plain_tasks", stray_sweep_sec=1.0)
    sites = [Site("gd-one", columns={"news": 2}), Site("gd-two", columns={"news": 2})]
    with fleet(store, sites, interval_sec=0.05, grouped=False):
        with in_process(store) as crawl:
            job = crawl.apply_async(("gd-one_news",), link=Signature("plain.note", args=("end",), app=crawl.app))
        (call,) = noted.wait_for("end")
        assert call[1] == job.id
        app = stranger(store)
        app.conf.broker_transport_options = {}
        app.send_task("ratelane.crawl", ["gd-two_news"], task_id="inbox", priority=5)
        with app.connection_for_write() as line:
            lane = f"rg.{sites[0].netloc}"
            for job_id in ("lane-a", "lane-b"):
                message = app.amqp.as_task_v2(job_id, "ratelane.crawl", args=["gd-one_news"])
                line.Producer().publish(
                    message.body, routing_key=lane, exchange="", headers=message.headers, serializer="json",
                    **{k: v for k, v in message.properties.items() if v})
        for job_id in ("inbox", "lane-a", "lane-b"):
            wait_until(lambda wanted=job_id: _there(store, wanted), job_id, 20)
            store.wait_for(job_id, "done")
        assert store.row("inbox").priority == 5
    assert "Connection to broker lost" not in worker.log
    assert "Traceback" not in worker.log


def test_j2_a_callback_to_an_exchange_that_is_not_there_keeps_no_other_waiting(
    store: Store, workers: Workers, rabbit: RabbitServer, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server closes the channel over it: the next one is sent on a new channel."""
    rabbit.flush()
    store.broker_url = rabbit.url
    monkeypatch.setenv("NOTED_URL", valkey.url)
    noted = Noted(valkey)
    (worker,) = workers.start("one", app="tests.support.plain_tasks")
    with fleet(store, [Site("gd-one", columns={"news": 1})], interval_sec=0.05), in_process(store) as crawl:
        links = [Signature("plain.note", args=(word,), app=crawl.app) for word in ("lost", "second")]
        links[0].set(exchange="nowhere", routing_key="nowhere")
        first = crawl.apply_async(("gd-one_news",), link=links)
        assert [call[1] for call in noted.wait_for("second")] == [first.id]
        wait_until(lambda: store.row(first.id).callbacks_sent_at, "the note", 10)
    assert worker.log.count("event=callbacks.impossible") == 1


def _there(store: Store, job_id: str) -> bool:
    with store.db.read() as conn:
        return conn.execute(select(jobs.c.seq).where(jobs.c.job_id == job_id)).first() is not None
