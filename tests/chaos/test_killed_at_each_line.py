"""A worker that is killed on any line of a job's way, and whoever lives does the job once."""

from __future__ import annotations

from typing import Any

import pytest

from config import clock
from console.demo import Site
from tests.support.figures import figure
from tests.support.fleet import Fleet, fleet
from tests.support.owners import owners
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(300)]
#: before the body's first write nothing is spent; from then on a recovery, until the job is settled
BEFORE = ("claimed", "published", "handed")
INSIDE = (
    "started", "waiting", "before_guard", "after_guard", "responded", "committing", "in_transaction", "committed",
    "settling",
)
AFTER = ("settled", "acknowledged")
LINES = (*BEFORE, *INSIDE, *AFTER)
#: where the crawl waits for the kill's order, so that it meets it in its middle
ARTICLES, MIDDLE = 3, "/news/art_2.html"


def test_a_worker_killed_on_any_line_of_a_jobs_way_costs_one_recovery_at_most(store: Store, workers: Workers) -> None:
    """J8, D4, D5: each article once, nothing overlaps; what never started spends nothing, the lane's next job goes on.

    On every second line the killed worker comes back at once under its name; on the others somebody else takes over:
    one that lives, when the lease is over, or one that starts in the same home. Which line is which differs between the
    databases.
    """
    workers.pair()
    sites = [Site(line.replace("_", "-"), columns={"news": ARTICLES, "more": 1}, per_page=2) for line in LINES]
    with fleet(store, sites, grouped=False, interval_sec=0.1) as fleet_, owners(store.db):
        for number, (line, site) in enumerate(zip(LINES, sites, strict=True)):
            comes_back = (number % 2 == 0) == store.shares_home
            began = clock.monotonic()
            try:
                job, following = _kill_on(line, site, fleet_, store, workers, comes_back=comes_back)
                _assert_spent(line, job, following)
            except (AssertionError, TimeoutError) as error:
                error.add_note(f"killed on the line {line!r}; the worker {'came back' if comes_back else 'stayed away'}")
                raise
            figure(f"killed on {line} {store.db.dialect} {'restarted' if comes_back else 'replaced'}: "
                   f"over after {clock.monotonic() - began:.2f} s")
        fleet_.assert_whole(store)
        fleet_.assert_polite()
        assert store.counters()["fenced_writes"] == 0


def _kill_on(
    line: str, site: Site, fleet_: Fleet, store: Store, workers: Workers, *, comes_back: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Kill whoever runs a job of `site` on `line`, and start it again; return both jobs of the lane, done."""
    job_id = f"killed-on-{line}"
    middle = None
    if line in (*BEFORE, "started"):
        workers.order(line, "kill", job_id)
    else:
        middle = site.hold(MIDDLE)
    store.submit(f"{site.name}_news", job_id=job_id)
    following = store.submit(f"{site.name}_more")
    if middle is not None:
        fleet_.server.wait_for(lambda log: sum(one.site == site.name for one in log) >= 3, 30)
        workers.order(line, "kill", job_id)
        middle.release()
    wait_until(lambda: workers.taken(line, job_id), f"the kill on {line}", 30)
    (first,) = workers.taken(line, job_id)
    first.wait_end(10)
    workers.withdraw(line, job_id)
    if not comes_back and line in AFTER:
        store.wait_for(following, "done", timeout=40)
    elif not comes_back:
        store.wait_claims(job_id, 2, timeout=40)
    first.start()
    return store.wait_for(job_id, "done", timeout=40), store.wait_for(following, "done", timeout=40)


def _assert_spent(line: str, job: dict[str, Any], following: dict[str, Any]) -> None:
    before = ["worker_lost"] if line in BEFORE else ["lost"] if line in INSIDE else []
    assert [one["outcome"] for one in job["attempts_log"]] == [*before, "done"]
    assert (job["recoveries"], job["failures"]) == (1 if line in INSIDE else 0, 0)
    # the lane's next job is claimed, and may have begun, when its predecessor is settled
    assert following["recoveries"] <= (1 if line in AFTER else 0)
    assert following["failures"] == 0
    assert job["outcome"] == following["outcome"] == "complete"
    assert job["progress"]["items_new"] == ARTICLES
