"""Answers that never end cost their time limit and nothing else: the lease lives, and the rest is read (W89)."""

from __future__ import annotations

import pytest

from models.audit import read_audit
from tests.support import misbehave
from tests.support.figures import figure
from tests.support.odd_sites import odd_sites, odd_yaml
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.timeout(120)]

ENDLESS = {
    "/a/1": misbehave.drip, "/a/2": misbehave.endless_headers, "/a/3": misbehave.silence,
    "/a/4": misbehave.unannounced_body(300), "/a/5": misbehave.gzip_bomb(50),
}


def test_w89_endless_answers_are_cut_and_read_later_while_the_lease_lives(store: Store, workers: Workers) -> None:
    """W89, J6, P4: drip, endless headers, silence, 300 MB, a bomb; three tries each outlast two leases."""
    settings = {"max_body_bytes": 1_000_000, "backoff_base_sec": 4.0}
    workers.start("one", **settings)
    with odd_sites("w89", articles=6) as served:
        site = served["w89"]
        well = {path: site.routes[path] for path in ENDLESS}
        site.routes |= ENDLESS
        store.load(odd_yaml({"w89": site.url}))
        job_id = store.submit("w89")
        wait_until(lambda: store.row(job_id).failures == 1, "the end of the first attempt", 60)
        site.routes |= well
        job = store.wait_for(job_id, "done", timeout=60)
    first, second = job["attempts_log"]
    assert (job["outcome"], job["recoveries"], second["outcome"]) == ("complete", 0, "done")
    assert [site.count(path) for path in ENDLESS] == [4, 4, 4, 2, 2], "what is too large is tried once a crawl"
    assert site.count("/a/6") == 1
    assert set(store.stored("w89")) == site.urls(1, 2, 3, 4, 5, 6)
    with store.db.look() as conn:
        audit = read_audit(conn)
    assert audit["overlaps"] == audit["gaps_too_short"] == 0
    figure(f"W89 {store.db.dialect}: first attempt {first['started_at']} to {first['finished_at']}")
