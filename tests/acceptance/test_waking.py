"""A waiting worker starts a new job at once, whoever submitted it, and not only when its poll comes round."""

from __future__ import annotations

import pytest

from config import clock
from models.db import Database
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Worker, Workers

pytestmark = [pytest.mark.slow, pytest.mark.paired, pytest.mark.timeout(60)]
#: nothing that a test sees within a second was found by the poll
POLL_SEC = 10.0


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_an_idle_worker_starts_a_job_of_another_process_at_once(store: Store, workers: Workers, pool: str) -> None:
    """J5: with a poll of ten seconds, in less than one second."""
    (worker,) = workers.start("one", pool=pool, poll_sec=POLL_SEC)
    with fleet(store, articles=1, interval_sec=0.05):
        took = [_time_of_start(store, worker) for _ in range(4)]
        figure(f"J5 {store.db.dialect} {pool}: started {[round(one * 1000) for one in took]} ms after the submit")
        assert max(took) < 1.0


def test_a_broken_listener_hears_again(store: Store, workers: Workers) -> None:
    """J5: LISTEN again after a reconnect, and what was stored meanwhile is found at once."""
    if store.shares_home:
        pytest.skip("a file needs no connection")
    (worker,) = workers.start("one", poll_sec=POLL_SEC)
    with fleet(store, articles=1, interval_sec=0.05):
        _time_of_start(store, worker)
        assert end_listeners(store.db) == 1
        at_once = _time_of_start(store, worker, rested=False)
        wait_until(lambda: "event=listener.back" in worker.log, "the listener")
        later = _time_of_start(store, worker)
        figure(f"J5 listener cut: started {at_once:.2f} s after, and {later:.2f} s once it was back")
        assert at_once < 2.0
        assert later < 1.0
        assert worker.log.count("event=listener.away") == 1


def _time_of_start(store: Store, worker: Worker, *, rested: bool = True) -> float:
    """Submit a job while the worker has (`rested`: for a while) nothing to do, and return after how many seconds its body began."""
    if rested:
        worker.rest()
    before = clock.monotonic()
    job_id = store.submit("gd-one_news")
    (line,) = worker.probes.wait_for("started", job_id)
    store.wait_for(job_id, "done")
    return float(line["mono"]) - before


def end_listeners(db: Database) -> int:
    """End the sessions that wait for news of this database, and return how many there were."""
    with db.read() as conn:
        return len(conn.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ratelane-listener' "
            "AND datname = current_database()").all())
