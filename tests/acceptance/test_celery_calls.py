"""Plain Celery works (J2): a call, a chain and a message of somebody else all become the same durable job."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import chain, chord, group
from celery.canvas import Signature
from sqlalchemy import select

from config.errors import JobFailed
from console.demo import Site
from models.jobs import jobs
from tests.support.callers import Noted, in_process, stranger
from tests.support.fleet import Fleet, fleet
from tests.support.servers import ValkeyServer, wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.timeout(90)]
APP = "tests.support.plain_tasks"


@pytest.fixture
def served(store: Store) -> Iterator[Fleet]:
    """Two sites, one of which has a target whose every page is gone."""
    sites = [Site("gd-one", columns={"news": 3, "notices": 1}), Site("gd-two", columns={"news": 1})]
    with fleet(store, sites, interval_sec=0.02, grouped=False) as site:
        yield site


@pytest.fixture
def crawl(store: Store, served: Fleet) -> Iterator[Any]:
    with in_process(store) as task:
        yield task


@pytest.fixture
def noted(valkey: ValkeyServer) -> Noted:
    return Noted(valkey)


def plain(crawl: Any, name: str, *args: Any, **options: Any) -> Signature:
    """Return the signature of an ordinary task that this process does not know."""
    return Signature(f"plain.{name}", args=args, app=crawl.app, **options)


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_j2_callbacks_and_chains_are_told_the_end(
    store: Store, workers: Workers, crawl: Any, noted: Noted, pool: str
) -> None:
    workers.start("one", app=APP, pool=pool, max_attempts=1)
    told = crawl.apply_async(("gd-one_news",), link=[plain(crawl, "note", "a"), plain(crawl, "note", "b", immutable=True)],
                             link_error=plain(crawl, "note", "never"))
    steps = chain(crawl.s("gd-two_news"), plain(crawl, "note", "step"), plain(crawl, "note", "last")).apply_async()
    lanes = (crawl.si("gd-one_notices") | crawl.si("gd-two_news") | plain(crawl, "note", "after lanes")).delay()
    fails = store.submit("gd-one_news", kind="crawl", options=None)
    result = told.get(timeout=20)
    assert result["status"] == "ok"

    (call,) = noted.wait_for("a")
    assert (call[1], call[2]) == (told.id, [result, "a"])
    assert noted.wait_for("b")[0][2] == ["b"], "an immutable signature takes nothing"
    (step,) = noted.wait_for("step")
    assert step[2][0]["status"] == "ok"
    (last,) = noted.wait_for("last")
    assert (last[0], last[1], last[2]) == (steps.id, step[0], ["noted", "last"])
    assert noted.wait_for("after lanes")[0][0] == lanes.id
    assert store.row(lanes.parent.id).status == store.row(lanes.parent.parent.id).status == "done"
    store.wait_for(fails, "done")
    assert not [one for one in noted.calls if one[2][-1] == "never"]
    wait_until(lambda: store.row(told.id).callbacks_sent_at, "the note that they were sent")


def test_j2_a_failed_job_tells_its_error_callbacks_its_id_and_a_cancelled_one_nobody(
    store: Store, workers: Workers, crawl: Any, noted: Noted
) -> None:
    callbacks = {"link": plain(crawl, "note", "good"), "link_error": [plain(crawl, "note"), plain(crawl, "note", "x")]}
    crawl_gone = crawl.apply_async(("gd-one_news",), **callbacks)
    cancelled = crawl.apply_async(("gd-two_news",), **callbacks)
    assert store.cancel(cancelled.id).verdict == "cancelled"
    with store.db.write() as conn:
        conn.exec_driver_sql("UPDATE targets SET options = '{\"nonsense\": 1}' WHERE target_code = 'gd-one_news'")
    workers.start("one", app=APP)
    with pytest.raises(JobFailed):
        crawl_gone.get(timeout=20)
    noted.wait_for(crawl_gone.id)
    noted.wait_for(crawl_gone.id, "x")
    wait_until(lambda: store.row(cancelled.id).callbacks_sent_at, "the cancelled one to be left alone")
    assert len(noted.calls) == 2


def test_j2_a_group_is_many_submits_and_a_chord_is_refused(store: Store, workers: Workers, crawl: Any) -> None:
    workers.start("one", app=APP)
    made = group(crawl.s("gd-one_news"), crawl.s("gd-two_news")).apply_async()
    assert [one["status"] for one in made.get(timeout=20)] == ["ok", "ok"]
    assert made.successful()
    before = _ids(store)
    with pytest.raises(Exception, match="a chord of lane jobs is refused"):
        chord([crawl.s("gd-one_news"), crawl.s("gd-two_news")])(plain(crawl, "note", "never"))
    assert _ids(store) == before


@pytest.mark.parametrize("protocol", [1, 2])
def test_j2_a_strangers_message_becomes_the_same_durable_job(
    store: Store, workers: Workers, served: Fleet, noted: Noted, protocol: int
) -> None:
    """`send_task` by an application that has none of our tasks; its ETA, expiry, callbacks and id count."""
    workers.start("one", app=APP)
    app = stranger(store, task_protocol=protocol)
    later = datetime.now(UTC) + timedelta(hours=1)
    app.send_task("ratelane.crawl", ["gd-one_news"], task_id="mine", link=Signature("plain.note", args=("told",), app=app))
    app.send_task("ratelane.crawl", [], {"target_code": "gd-two_news", "force": True}, task_id="forced")
    app.send_task("ratelane.crawl", ["gd-one_notices"], task_id="late", eta=later, expires=later + timedelta(hours=1))
    app.send_task("ratelane.crawl", ["nosuch"], task_id="unknown")
    app.send_task("ratelane.crawl", ["gd-two_news"], task_id="nonsense", countdown=5, link=Signature("ratelane.crawl", app=app))
    app.send_task("plain.note", ["ordinary"])
    wait_until(lambda: {"mine", "forced", "late"} <= _ids(store), "three jobs")
    assert store.wait_for("mine", "done")["status"] == "done"
    assert store.wait_for("forced", "done")["force"] is True
    noted.wait_for("told")
    noted.wait_for("ordinary")
    worker = workers.named("one")
    wait_until(lambda: worker.log.count("event=inbox.refused") == 2, "two refusals")
    assert "unknown target 'nosuch'" in worker.log
    late = store.row("late")
    assert (late.status, abs((late.run_after - later).total_seconds()) < 1) == ("queued", True)
    assert 3590 < (late.expires_at - late.run_after).total_seconds() < 3610
    assert {"unknown", "nonsense"}.isdisjoint(_ids(store))
    inspected = stranger(store).control.inspect(timeout=2)
    assert [inspected.scheduled(), inspected.reserved()] == [{"one@test": []}] * 2, "nothing waits in a worker"
    # the same message once more: the job answers
    app.send_task("ratelane.crawl", ["gd-one_news"], task_id="mine")
    wait_until(lambda: "created=False" in worker.log or "created=false" in worker.log, "the repeat")
    assert store.row("mine").attempt == 1


def test_u2_what_lies_in_a_lane_without_a_claim_goes_to_the_inbox(
    store: Store, workers: Workers, served: Fleet, valkey: ValkeyServer
) -> None:
    """Sent straight to a lane's queue: met by the hand-over, or found by the sweep; rubbish costs nobody anything."""
    lane, other = (f"rg.{site.netloc}" for site in served.server.sites)
    app = stranger(store)
    app.send_task("ratelane.crawl", ["gd-one_news"], task_id="met", queue=lane)
    app.send_task("ratelane.crawl", ["gd-two_news"], task_id="swept", queue=other)
    app.send_task("ratelane.crawl", ["gd-two_news"], task_id="urgent", queue="inbox", priority=9)
    with valkey.client() as line:
        line.lpush(lane, b"rubbish", b'{"body": "x"}', b"\xff\xfe")
        line.lpush(other, b"rubbish")
    first = store.submit("gd-one_notices")
    worker = workers.launch("one", app=APP, stray_sweep_sec=0.3)
    wait_until(lambda: {"met", "swept", "urgent"} <= _ids(store), "three jobs", 20)
    for job_id in (first, "met", "swept", "urgent"):
        store.wait_for(job_id, "done")
    with valkey.client() as line:
        wait_until(lambda: not line.exists(lane, other), "empty lanes")
    wait_until(lambda: worker.log.count("event=stray.unreadable") == 4, "the excerpts")
    assert worker.lives
    assert "Traceback" not in worker.log


def _ids(store: Store) -> set[str]:
    with store.db.read() as conn:
        return set(conn.execute(select(jobs.c.job_id)).scalars())
