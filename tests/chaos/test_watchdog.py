"""A worker that lives and consumes nothing says so, and ends for its supervisor if that will not pass (W33, W76)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from config import clock
from models import queries
from tests.support.command_line import CommandLine
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.proxy import Proxy
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Worker, Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(120)]
#: a silence of 5 s is called trouble (with these heartbeats), one of 20 s ends the worker: time enough for a few commands
SHORT: dict[str, Any] = {"watchdog_sec": 20.0, "soft_stop_sec": 2.0}


def test_a_scout_that_hangs_is_named_and_the_worker_ends(store: Store, workers: Workers) -> None:
    """W76, D2: the dispatcher is blocked; the claim that it had in hand is given back, and another worker does it."""
    (worker,) = workers.start("one", **SHORT)
    with fleet(store, articles=3) as site:
        worker.probes.order("claimed", "hold")
        job_id = store.submit("gd-one_news")
        worker.probes.wait_taken("claimed")
        _assert_named(store, worker, "scout_stuck", "looks for work")
        _assert_ends(worker, "scout_stuck")
        workers.start("two", home="one")
        job = store.wait_for(job_id, "done")
        assert (job["recoveries"], job["failures"]) == (0, 0)
        site.assert_whole(store)
        site.assert_polite()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_an_event_loop_that_hangs_is_named_and_the_worker_ends(store: Store, workers: Workers) -> None:
    """D2: what runs meanwhile goes on to its next stop point; nothing more is claimed."""
    (worker,) = workers.start("one", **SHORT)
    with fleet(store, articles=3) as site:
        worker.probes.order("published", "hold")
        job_id = store.submit("gd-one_news")
        worker.probes.wait_taken("published")
        _assert_named(store, worker, "hub_stuck", "event loop")
        _assert_ends(worker, "hub_stuck", by_force=True)
        workers.start("two", home="one")
        job = store.wait_for(job_id, "done")
        assert (job["recoveries"], job["failures"]) == (0, 0)
        site.assert_whole(store)
        site.assert_polite()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_worker_that_stays_away_from_a_broker_that_answers_ends(
    store: Store, workers: Workers, proxy: Proxy
) -> None:
    """W33: alive, and consumes nothing after a reset of its connections."""
    (worker,) = workers.start("one", **SHORT)
    worker.rest()
    worker.probes.order("consumer_closed", "hold")
    proxy.cut_all()
    worker.probes.wait_taken("consumer_closed")
    _assert_named(store, worker, "broker_down", "connection to the broker")
    _assert_ends(worker, "broker_down", by_force=True)


@pytest.mark.acceptance
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_broker_that_is_away_for_long_ends_nobody(store: Store, workers: Workers, proxy: Proxy) -> None:
    """W33: connections hang for longer than the watchdog waits; the worker says so, and goes on by itself."""
    (worker,) = workers.start("one", **SHORT)
    worker.rest()
    proxy.hang()
    proxy.cut_all()
    _assert_named(store, worker, "broker_down", "connection to the broker")
    worker.rest(SHORT["watchdog_sec"] + 3)
    assert worker.lives
    assert not _worker(store)["consuming"]
    proxy.resume()
    back = clock.monotonic()
    with fleet(store, articles=1):
        store.wait_for(store.submit("gd-one_news"), "done", timeout=40)
        figure(f"broker hung for over {SHORT['watchdog_sec']:.0f} s {store.db.dialect}: next job done "
               f"{clock.monotonic() - back:.1f} s after")
    wait_until(lambda: _worker(store)["trouble"] == "", "the worker's own word")
    assert worker.log.count("event=worker.watchdog") == 0


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_solo_body_that_takes_long_is_no_trouble(store: Store, workers: Workers) -> None:
    """D4: it holds up the event loop, as solo pools do."""
    (worker,) = workers.start("one", pool="solo", **SHORT)
    with fleet(store, articles=3):
        worker.probes.order("before_guard", "hold")
        job_id = store.submit("gd-one_news")
        worker.probes.wait_taken("before_guard")
        worker.rest(SHORT["watchdog_sec"] + 2)
        assert worker.lives
        assert (_worker(store)["consuming"], _worker(store)["trouble"]) == (True, "")
        worker.probes.go("before_guard")
        store.wait_for(job_id, "done")


def test_a_worker_that_stops_says_so(store: Store, workers: Workers) -> None:
    """D5, D2: while its crawl goes on to a stop point it takes nothing new."""
    (worker,) = workers.start("one", soft_stop_sec=10.0)
    with fleet(store, articles=3):
        worker.probes.order("before_guard", "hold")
        store.submit("gd-one_news")
        worker.probes.wait_taken("before_guard")
        worker.terminate()
        wait_until(lambda: _worker(store)["trouble"] == "stopping", "the word")
        worker.probes.go("before_guard")
        assert worker.wait_end(20) == 0


def _worker(store: Store) -> dict[str, Any]:
    with store.db.look() as conn:
        return queries.workers(conn)[0]


def _assert_named(store: Store, worker: Worker, trouble: str, words: str) -> None:
    """Fail unless `workers` and `health` name what is wrong, while the process lives."""
    before = clock.monotonic()
    wait_until(lambda: _worker(store)["trouble"] == trouble, f"the word {trouble}", 20)
    figure(f"watchdog {store.db.dialect}: {trouble} named after {clock.monotonic() - before:.1f} s")
    # commands ask the broker itself and not through a proxy that hangs
    direct = store.environment("one", broker_url=store.valkey_url)
    line = CommandLine(store.folder / "one")
    found: dict[str, Any] = {}
    wait_until(lambda: found.update(json.loads(line.run("health", "--json", **direct).stdout)) or not found["ok"],
               "the command's word", 20)
    assert found["workers_consuming"] == 0
    assert [(one["trouble"], words in one["text"]) for one in found["not_consuming"]] == [(trouble, True)]
    said = line.run("health", **direct)
    assert (said.returncode, f"({trouble})" in said.stdout) == (1, True)
    assert worker.lives


def _assert_ends(worker: Worker, reason: str, *, by_force: bool = False) -> None:
    assert worker.wait_end(40) == 1
    assert f"event=worker.watchdog worker=one@test reason={reason}" in worker.log
    assert worker.log.count("event=worker.ended_by_force") == by_force
