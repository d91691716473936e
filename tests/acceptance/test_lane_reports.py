"""Public reports of queues that were not fair, not exclusive or not alive (W15, W17, W19, W32, W35, W68, W77), and rule C4."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from config import clock
from console.demo import Site
from models import queries
from models.groups import rate_groups
from models.jobs import attempts, jobs
from routing import dispatch
from routing.kinds import register
from tests.support.figures import figure
from tests.support.fleet import GROUP, fleet
from tests.support.odd_sites import odd_sites, odd_yaml, slow
from tests.support.servers import wait_until
from tests.support.store import FAST, Store
from tests.support.workers import Workers

# what it costs in time on two databases is not worth it: the rules themselves are tested on both
pytestmark = [
    pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(120),
    pytest.mark.parametrize("database", ["postgresql"], indirect=True)]


def test_w15_five_names_of_one_address_share_one_delay(store: Store, workers: Workers) -> None:
    """W15, R8: from the first request on, whatever name it is sent to."""
    names = ("127.0.0.1", "localhost", "127.1", "127.0.1", "2130706433")
    workers.start("one", concurrency=8)
    with odd_sites("all", articles=1) as served:
        port = served["all"].port
        urls = {f"w15-{place}": f"http://{name}:{port}" for place, name in enumerate(names)}
        store.load(odd_yaml(urls, interval_sec=1.0, groups={"one-address": "w15-*"}))
        ids = [store.submit(code) for code in urls]
        wait_until(lambda: len(served["all"].requests) >= 6, "six requests", 30)
        for job_id in ids:
            store.cancel(job_id)
        moments = [request.at for request in served["all"].requests]
        found = [later - earlier for earlier, later in pairwise(moments)]
        figure(f"W15 {store.db.dialect}: gaps {[round(gap, 3) for gap in found]}")
        assert min(found) >= 1.0 - 0.005
        for job_id in ids:
            store.wait_for(job_id, "cancelled", "done")


def test_w17_a_big_slow_site_does_not_keep_small_ones_waiting(store: Store, workers: Workers) -> None:
    """W17, R5, R6: 200 queued crawls with replies of a second, three sites with one crawl each, four slots."""
    small = ("w17-a", "w17-b", "w17-c")
    workers.start("one", concurrency=4, request_timeout_sec=2.0)
    with odd_sites("w17-big", *small, articles=1) as served:
        big = served["w17-big"]
        big.routes = {path: slow(1.0, answer) for path, answer in big.routes.items()}
        store.load(odd_yaml({code: site.url for code, site in served.items()}, interval_sec=1.0))
        with store.db.write() as conn:
            for _ in range(200):
                dispatch.submit(store.db, store.settings(), "w17-big", conn=conn)
        wait_until(lambda: big.requests, "the big site's first request", 20)
        asked = clock.monotonic()
        ids = {code: store.submit(code) for code in small}
        most = 0
        while {store.row(job_id).status for job_id in ids.values()} != {"done"}:
            with store.db.read() as conn:
                running = list(conn.scalars(select(jobs.c.group_key).where(jobs.c.status == "running")))
            most = max(most, running.count(big.host))
            assert clock.monotonic() - asked < 20
            clock.pause(0.02)
        first = {code: served[code].requests[0].at - asked for code in small}
        took = {code: served[code].requests[-1].at - served[code].requests[0].at for code in small}
        figure(f"W17 {store.db.dialect}: first requests after {first}, crawls took {took}")
        assert most == 1
        assert all(len(served[code].requests) == 4 for code in small)
        assert max(took.values()) < 3.0 + 0.5, "four requests, three intervals"
        assert max(first.values()) < 2.0
        with store.db.write() as conn:
            conn.execute(update(jobs).where(jobs.c.status == "queued").values(
                status="cancelled", finished_at=clock.now()))


def test_w19_three_workers_keep_one_interval(store: Store, workers: Workers) -> None:
    """W19, R3, R8: six crawls of one group over three workers; never two requests at once, never too soon."""
    sites = [Site(f"w19-{number}", columns={"news": 2}) for number in range(6)]
    started = workers.start("one", "two", "three")
    with fleet(store, sites, interval_sec=0.25) as site:
        ids = [store.submit(f"{one.name}_news") for one in sites]
        # a worker may go on with its own lane: the one that did the first half leaves the rest to the others
        name = store.wait_for(ids[2], "done")["attempts_log"][-1]["worker"]
        next(worker for worker in started if f"{worker.name}@test" == name).terminate()
        for job_id in ids:
            store.wait_for(job_id, "done")
        found = site.judged()
        figure(f"W19 {store.db.dialect}: {found.requests} requests of {len(started)} workers, smallest gap {found.smallest_gap}")
        assert len({entry.user_agent for entry in site.log}) >= 2
        site.assert_polite()


def test_w35_ten_thousand_waiting_crawls_cost_a_worker_nothing(store: Store, workers: Workers) -> None:
    """W35, R6: 50 paused groups with 200 crawls each; memory grows by less than 50 MB, others start at once."""
    (worker,) = workers.start("one", concurrency=8)
    with odd_sites("w35", articles=1) as served:
        store.load(odd_yaml({"w35": served["w35"].url}, interval_sec=0.5))
        first = store.submit("w35")
        store.wait_for(first, "done")
        before = _resident_mb(worker.pid)
        _pause_many(store, groups=50, each=200)
        clock.pause(2.0)
        asked = clock.monotonic()
        number = len(served["w35"].requests)
        job_id = store.submit("w35")
        wait_until(lambda: len(served["w35"].requests) > number, "a request of another group", 5)
        started = clock.monotonic() - asked
        store.wait_for(job_id, "done")
        grown = _resident_mb(worker.pid) - before
        figure(f"W35 {store.db.dialect}: 10,000 waiting, resident +{grown:.1f} MB, another group started in {started:.2f} s")
        assert grown < 50
        assert started < 0.5 + 1.0
        with store.db.read() as conn:
            assert conn.execute(select(attempts).where(attempts.c.group_key.like("paused-%"))).first() is None


def _pause_many(store: Store, *, groups: int, each: int) -> None:
    """Store paused groups with queued jobs, as many as a fleet has behind one big firewall."""
    now = store.group(_any_group(store)).created_at
    with store.db.write() as conn:
        conn.execute(insert(rate_groups), [
            {"key": f"paused-{number:02}", "created_at": now, "pause_until": now.replace(year=now.year + 1),
             "pause_kind": "rate", "pause_reason": "w35", "ready_at": now.replace(year=now.year + 1)}
            for number in range(groups)])
        conn.execute(insert(jobs), [
            {"job_id": f"w35{number:02}{place:04}", "kind": "crawl", "group_key": f"paused-{number:02}", "status": "queued",
             "enqueued_at": now, "queue_at": now, "updated_at": now} for number in range(groups) for place in range(each)])


def _any_group(store: Store) -> str:
    with store.db.read() as conn:
        return str(conn.scalars(select(rate_groups.c.key).limit(1)).one())


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def test_w68_a_dead_owner_is_named_until_its_lease_is_over_and_a_slow_one_keeps_it(
    store: Store, workers: Workers
) -> None:
    """W68, J3, J6, J8: a second submit answers with the job that runs, the lane says who holds it and until when."""
    workers.pair()
    with fleet(store, [Site("gd-one", columns={"news": 40}, per_page=5)], interval_sec=0.3) as site:
        job_id = store.submit("gd-one_news", dedupe_key="crawl:gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 2)
        begun = clock.monotonic()
        clock.pause(2 * FAST["lease_sec"])
        assert store.row(job_id).attempt == 1, "a slow owner that lives keeps its lease"
        owner, _ = workers.running(job_id)
        owner.kill()
        killed = clock.monotonic()
        again = dispatch.submit(store.db, store.settings(), "gd-one_news", dedupe_key="crawl:gd-one_news")
        assert (again.job_id, again.created) == (job_id, False)
        with store.db.look() as conn:
            (lane,) = [one for one in queries.lanes(conn) if one["group"] == GROUP]
        assert lane["running_job_id"] == job_id
        assert (lane["worker"] or "").startswith(owner.name)
        assert lane["lease_until"] is not None
        row = store.wait_attempt(job_id, 2)
        figure(f"W68 {store.db.dialect}: held for {killed - begun:.1f} s, taken over {clock.monotonic() - killed:.2f} s after kill -9")
        assert clock.monotonic() - killed <= FAST["lease_sec"] + 3.0
        assert row.recoveries == 1
        store.cancel(job_id)
        store.wait_for(job_id, "cancelled")
        site.assert_polite()


def test_w32_numbers_are_those_of_the_rows_whatever_is_restarted(store: Store, workers: Workers) -> None:
    """W32, J15: five crawls, one worker killed and another restarted: whoever asks anew is told what the database holds."""
    names = [f"w32-{number}" for number in range(5)]
    sites = [Site(name, columns={"news": 12}, per_page=4) for name in names]
    first, second = workers.start("one", "two", concurrency=4)
    for worker in (first, second):
        worker.wait_age(FAST["lease_sec"])
    with fleet(store, sites, grouped=False) as site:
        ids = [store.submit(f"{name}_news") for name in names]
        site.server.wait_for(lambda log: len(log) >= 10, 30)
        first.kill()
        second.terminate()
        second.wait_end(15)
        second.start().wait_ready()
        done = 0
        while done < len(ids):
            with store.db.look() as conn:
                told, lanes = queries.counts(conn), queries.lanes(conn)
                rows = conn.execute(select(jobs.c.status)).all()
            assert told == {status: sum(row[0] == status for row in rows) for status in told}
            assert sum(one["running_job_id"] is not None for one in lanes) == told["running"] <= len(ids)
            assert sum(told.values()) == len(ids)
            done = told["done"]
            clock.pause(0.1)
        site.assert_polite()
    for job_id in ids:
        assert store.job(job_id)["status"] == "done"


def test_w77_children_never_share_a_connection_of_their_parent(store: Store, workers: Workers) -> None:
    """W77: prefork with four children, a connection opened before the fork, 200 jobs; not one protocol error."""
    register("touches", "forked.touches")
    codes = [f"w77-{number}" for number in range(20)]
    store.load(odd_yaml({code: f"http://{code}.example.org" for code in codes}))
    (worker,) = workers.start("one", pool="prefork", app="tests.support.forked_tasks")
    before = clock.monotonic()
    with store.db.write() as conn:
        ids = [dispatch.submit(store.db, store.settings(), code, kind="touches", conn=conn).job_id
               for code in codes for _ in range(10)]
    wait_until(lambda: _done(store) == len(ids), "the end of 200 jobs", 60)
    with store.db.read() as conn:
        rows = conn.execute(select(jobs.c.attempt, jobs.c.failures, jobs.c.recoveries, jobs.c.result)).all()
    children = {row.result["pid"] for row in rows}
    figure(f"W77 {store.db.dialect}: {len(ids)} jobs in {len(children)} children, {clock.monotonic() - before:.1f} s")
    assert {(row.attempt, row.failures, row.recoveries) for row in rows} == {(1, 0, 0)}
    assert len(children) >= 2
    assert worker.pid not in children
    assert all(row.result["before_fork"] for row in rows)
    for sign in ("OperationalError", "InterfaceError", "ProgrammingError", "lost synchronization", "Traceback"):
        assert sign not in worker.log


def _done(store: Store) -> int:
    with store.db.read() as conn:
        return len(list(conn.scalars(select(jobs.c.job_id).where(jobs.c.status == "done"))))


def test_c4_a_task_of_somebody_elses_that_only_tells_of_a_block_pauses_its_group(
    store: Store, workers: Workers
) -> None:
    """C4, C5: a plain lane task returns what it met; the job is done, its group pauses, its interval grows."""
    register("tells", "odd.tells")
    workers.start("one", app="tests.support.odd_tasks")
    with fleet(store):
        job = store.wait_for(store.submit("gd-one_news", kind="tells"), "done")
        assert job["result"]["pages"] == [{"error": ["page 2", "host_cooldown: rate 429 http://a.example.org/list"]}]
        assert job["result"]["cooldown_interval_adjustment"]["status"] == "updated"
        assert job["cooldown_retries"] == 0
        (row,) = store.cooldowns(GROUP)
        assert (row.job_id, row.kind) == (job["job_id"], "rate")
        assert store.intervals("gd-one_news") == [(0.2, 1.2)]
