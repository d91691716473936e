"""A body that says nothing for too long loses its lease, and never meets its own successor in one process."""

from __future__ import annotations

import pytest

from config import clock
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.paired, pytest.mark.timeout(60)]


def test_the_next_attempt_waits_until_the_silent_body_has_ended(store: Store, workers: Workers) -> None:
    """J6, J7: past `busy_until + stall_after` it is not renewed; the worker that holds it does not claim in a frenzy."""
    (worker,) = workers.start("one", park_after_sec=1.0, stall_after_sec=0.3)
    with fleet(store, articles=6) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 4)
        worker.probes.order("before_guard", "hold", job_id)
        worker.probes.wait_taken("before_guard", job_id)
        silent = len(site.log)
        store.wait_claims(job_id, 2, timeout=20)
        clock.pause(2.0)
        assert store.row(job_id).attempt <= 5
        assert len(site.log) == silent
        worker.probes.go("before_guard")
        job = store.wait_for(job_id, "done")
        outcomes = [one["outcome"] for one in job["attempts_log"]]
        figure(f"silent body {store.db.dialect}: attempts {outcomes}")
        assert outcomes[0] == "lost"
        assert outcomes[-1] == "done"
        assert set(outcomes[1:-1]) == {"older_body_lives"}
        assert job["recoveries"] == 1
        site.assert_whole(store)
        site.assert_polite()
