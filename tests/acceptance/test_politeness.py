"""Two sites behind one firewall, two workers, a restart in the middle: the sites never see two requests at once."""

from __future__ import annotations

import pytest

from console.demo import Site
from models.audit import read_audit
from tests.support.figures import figure
from tests.support.fleet import GROUP, fleet
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def test_a_group_is_asked_one_thing_at_a_time_and_never_too_soon(store: Store, workers: Workers) -> None:
    """R3, R8, P5: over four jobs of two sites and both workers, one of which is restarted in the middle."""
    sites = [Site(name, columns={"news": 48, "notices": 48}, per_page=24) for name in ("gd-one", "gd-two")]
    workers.start("one", "two")
    with fleet(store, sites) as site:
        job_ids = [store.submit(f"{name}_{column}") for column in ("news", "notices") for name in ("gd-one", "gd-two")]
        site.server.wait_for(lambda log: len(log) >= 60, 40)
        restarted = workers.named(store.row(job_ids[1]).worker)
        restarted.terminate()
        restarted.wait_end(15)
        restarted.start().wait_ready()
        for job_id in job_ids:
            job = store.wait_for(job_id, "done", timeout=60)
            assert (job["failures"], job["recoveries"]) == (0, 0)

        found = site.judged()
        figure(f"politeness {store.db.dialect}: {found.requests} requests, smallest gap {found.smallest_gap:.4f} s")
        assert found.requests >= 200
        assert len({entry.user_agent for entry in site.log}) == 2
        site.assert_whole(store)
        site.assert_polite()
        with store.db.look() as conn:
            audit = read_audit(conn, group=GROUP)
        assert audit["requests"] == found.requests
        assert audit["overlaps"] == audit["gaps_too_short"] == 0
