"""Pool children that die: again and again under one job, or by the hundred under load."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from contextlib import suppress

import pytest
from sqlalchemy import func, select

from config import clock
from console.demo import Site
from models.jobs import jobs
from routing.kinds import register
from tests.support.figures import figure
from tests.support.fleet import fleet
from tests.support.owners import owners
from tests.support.processes import is_alive
from tests.support.servers import wait_until
from tests.support.store import FAST, Store
from tests.support.workers import Worker, Workers

pytestmark = [pytest.mark.slow, pytest.mark.paired, pytest.mark.timeout(90)]


def test_a_job_that_kills_its_pool_child_three_times_is_abandoned(store: Store, workers: Workers) -> None:
    """J8: failed, with every recovery in its error text; the lane goes on with its next job, and nothing overlaps."""
    (worker,) = workers.start("one", pool="prefork", concurrency=2)
    sites = [Site("gd-one", columns={"news": 4, "more": 2}, per_page=2)]
    with fleet(store, sites) as site, owners(store.db):
        for line in ("started", "waiting", "after_guard"):
            worker.probes.order(line, "kill", "deadly")
        store.submit("gd-one_news", job_id="deadly")
        following = store.submit("gd-one_more")
        job = store.wait_for("deadly", "failed")
        assert store.wait_for(following, "done")["attempt"] == 1
        notes = [f"restart_during_run (recovery attempt {number}/3)" for number in (1, 2)]
        assert job["error_msg"] == " | ".join([*notes, "abandoned after 3 restart recoveries"])
        assert job["result"]["error"] == "abandoned after 3 restart recoveries"
        assert (job["attempt"], job["recoveries"], job["failures"]) == (3, 3, 0)
        assert [one["outcome"] for one in job["attempts_log"]] == ["lost", "lost", "abandoned"]
        pids = {worker.probes.taken(line, "deadly")[0] for line in ("started", "waiting", "after_guard")}
        assert len(pids) == 3
        assert worker.lives
        assert store.stored("gd-one_more") == sorted(sites[0].article_urls("more"))
        site.assert_polite()


KILLS = 200
SLOTS = 8
LANES = 40
#: longer than the parent may need to hear of an end while the pool buries others: a slot that is still held a lease after
#: its job's end counts as hanging, and with a quarter of them the worker leaves
LONG_LEASE = 30.0


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_no_job_hangs_when_two_hundred_pool_children_are_killed_under_load(store: Store, workers: Workers) -> None:
    """J8, R3: every job ends done, no lane is left over, the worker lives, and so does nobody who should not."""
    register("naps", "fault.naps")
    (worker,) = workers.start("one", app="tests.support.fault_tasks", pool="prefork", concurrency=SLOTS,
                              max_recoveries=1000, lease_sec=LONG_LEASE)
    draw = random.Random(7)
    sites = [Site(f"site-{number}", columns={"news": 1}) for number in range(LANES)]
    with fleet(store, sites, interval_sec=0.0, grouped=False), owners(store.db):
        began, seen, submitted = clock.monotonic(), set(worker.children()), 0
        for _ in range(KILLS):
            if _count(store, "queued") < 2 * SLOTS:
                for number in range(submitted, submitted + 2 * SLOTS):
                    store.submit(f"site-{number % LANES}_news", kind="naps")
                submitted += 2 * SLOTS
            # the pool stands still for half a second after each death: faster, and nothing but dying would happen
            ended = _count(store, "done")
            wait_until(lambda ended=ended: _count(store, "done") > ended, "the end of another job", 40)
            seen |= _kill_one(worker, draw)
        took = clock.monotonic() - began
        wait_until(lambda: not _count(store, "queued", "running"), f"the end of {submitted} jobs", 60)
        with store.db.read() as conn:
            found = conn.execute(select(jobs.c.status, jobs.c.recoveries, jobs.c.failures)).all()
        recoveries = sum(row.recoveries for row in found)
        figure(f"{KILLS} pool children killed in {took:.1f} s {store.db.dialect}: {submitted} jobs, {recoveries} recoveries")
        assert Counter(row.status for row in found) == {"done": submitted}
        assert not any(row.failures for row in found)
        assert recoveries >= KILLS / 10
        assert worker.lives
        wait_until(lambda: len(worker.children()) == SLOTS, "a whole pool", 20)
        worker.terminate()
        assert worker.wait_end(FAST["soft_stop_sec"] + 15) == 0
        wait_until(lambda: not any(is_alive(pid) for pid in seen), "the end of every child", 5)


def _count(store: Store, *status: str) -> int:
    with store.db.read() as conn:
        return int(conn.execute(select(func.count()).where(jobs.c.status.in_(status))).scalar_one())


def _kill_one(worker: Worker, draw: random.Random) -> set[int]:
    """Kill a child that lives; return all that there were."""
    living: list[int] = []
    wait_until(lambda: living.extend(pid for pid in worker.children() if is_alive(pid)) or living, "a child", 20)
    with suppress(ProcessLookupError):
        os.kill(draw.choice(living), signal.SIGKILL)
    return set(living)
