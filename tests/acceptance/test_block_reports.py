"""Public reports of crawlers that did not take no for an answer, each with its numbers (W20, W21, W23 to W25, W27, W28)."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import select

from config import clock
from models.articles import failed_items
from models.jobs import jobs
from models.sites import targets
from tests.support.crawl_ports import Site
from tests.support.figures import figure
from tests.support.misbehave import article_html, page
from tests.support.odd_sites import (
    asks_until,
    for_seconds,
    gaps,
    odd_sites,
    odd_yaml,
    once,
    silence_after,
    until,
)
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Workers

# what it costs in time on two databases is not worth it: the rules themselves are tested on both
pytestmark = [
    pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(90),
    pytest.mark.parametrize("database", ["postgresql"], indirect=True)]
PAUSE = 2.0
#: a settle, a scout, a claim, and two cores that others use as well
SLACK = 4.0
LIST = "/list/1"

#: W24: what nobody can read is no header
ODD = {"year": "Fri, 31 Dec 99999 23:59:59 GMT", "digits": "4" * 400, "empty": "", "word": "abc", "float": "1e3",
       "iso": "2026-11-30T06:05:00Z"}
#: W25: a date on both statuses, by a right clock and by one that is an hour late
DATES = {"d429": (429, timedelta(0)), "d503": (503, timedelta(0)), "s429": (429, timedelta(hours=-1)),
         "s503": (503, timedelta(hours=-1))}


def shown(site: Site) -> None:
    """Keep what the list page answers when nothing is wrong."""
    site.routes["good"] = site.routes[LIST]


def test_what_servers_ask_for_is_heard_in_every_form(store: Store, workers: Workers) -> None:
    """W20, W23, W24, W25, W28, W69: thirteen sites, each with an objection of its own, and one worker for all."""
    names = ["w20", "w23", *ODD, *DATES, "w28"]
    (worker,) = workers.start("one", concurrency=16, cooldown_delay_sec=PAUSE, park_after_sec=1.0)
    with odd_sites(*names) as served:
        for site in served.values():
            shown(site)
        served["w20"].routes["/a/1"] = for_seconds(1.0, page("no", 429), page(article_html("/a/1")))
        served["w23"].routes[LIST] = once(page("no", 429, retry_after="4"), served["w23"].routes["good"])
        for name, value in ODD.items():
            served[name].routes[LIST] = once(page("no", 429, retry_after=value), served[name].routes["good"])
        for name, (status, skew) in DATES.items():
            served[name].routes[LIST] = once(asks_until(status, 5, skew), served[name].routes["good"])
        served["w28"].routes[LIST] = page("no", 429, retry_after="3600")
        store.load(odd_yaml({name: site.url for name, site in served.items()}))
        ids = {name: store.submit(name) for name in names}

        # W28: the slot is free at once, and cancelling needs nobody
        wait_until(lambda: served["w28"].count(LIST), "the objection of w28", 20)
        asked = clock.monotonic()
        store.wait_for(ids["w28"], "queued", timeout=5)
        wait_until(lambda: store.row(ids["w28"]).wait_reason == "cooldown", "the cooldown of w28", 5)
        figure(f"W28 {store.db.dialect}: slot free {clock.monotonic() - asked:.2f} s after the objection was sent")
        assert clock.monotonic() - asked < 1.0 + 1.5
        assert store.cancel(ids["w28"]).verdict == "cancelled"
        assert store.row(ids["w28"]).status == "cancelled"

        found = {name: store.wait_for(ids[name], "done") for name in names if name != "w28"}
        for name, job in found.items():
            assert (job["outcome"], job["failures"], job["cooldown_retries"]) == ("complete", 0, 1), name
        with store.db.read() as conn:
            assert conn.execute(select(failed_items)).all() == []

        delays = {name: round(_pause_of(store, site), 3) for name, site in served.items()}
        assert delays == dict.fromkeys(("w20", *ODD), PAUSE) | {"w23": 4.0} | dict.fromkeys(DATES, 5.0) | {"w28": 3600.0}
        waits = {name: silence_after(served[name], LIST) for name in names if name not in ("w20", "w28")}
        waits["w20"] = silence_after(served["w20"], "/a/1")
        figure(f"silences {store.db.dialect}: " + ", ".join(f"{name} {wait:.2f}" for name, wait in waits.items()))
        for name, wait in waits.items():
            assert delays[name] <= wait < delays[name] + SLACK, name
        assert served["w28"].count(LIST) == 1
        for value in filter(None, ODD.values()):
            assert value[:200] in worker.log, "the raw value is logged"


def _pause_of(store: Store, site: Site) -> float:
    """Return how long the only cooldown of a site's group was, in seconds."""
    (row,) = store.cooldowns(site.host)
    return float((row.until - row.at).total_seconds())


def test_w21_ten_hosts_behind_one_firewall_cost_one_request_a_pause(store: Store, workers: Workers) -> None:
    """W21, C7: 405 for all; one blocked request, nine crawls that wait, one probe, and no burst after that."""
    names = [f"w21-{number}" for number in range(10)]
    workers.start("one", concurrency=16, cooldown_delay_sec=PAUSE)
    with odd_sites(*names, articles=1) as served:
        banned: list[str] = []

        def over(_number: int) -> bool:
            return len(banned) >= 2

        for name, site in served.items():
            good = site.routes[LIST]
            blocked = page("<h1>405</h1> blocked as it may cause potential threats, errors.aliyun.com", 405)

            def note(conn: object, request: object, name: str = name, blocked: object = blocked) -> bool:
                banned.append(name)
                return blocked(conn, request)  # type: ignore[operator,no-any-return]

            site.routes[LIST] = until(over, note, good)
        store.load(odd_yaml({name: site.url for name, site in served.items()}, groups={"aliyun": "w21-*"}, interval_sec=0.1))
        ids = [store.submit(name) for name in names]
        wait_until(lambda: banned, "the objection", 20)
        wait_until(lambda: store.group("aliyun").pause_until is not None, "the pause", 3)
        assert {store.row(job_id).status for job_id in ids} == {"queued"}
        for job_id in ids:
            store.wait_for(job_id, "done")
        assert len(banned) == 2, "one request before the first pause, one probe after it"
        sent = sorted(request.at for site in served.values() for request in site.requests)
        pauses = sorted(later - earlier for earlier, later in pairwise(sent))[-2:]
        figure(f"W21 {store.db.dialect}: {len(banned)} blocked requests of ten crawls, silences {pauses}")
        assert all(PAUSE <= pause < PAUSE + SLACK for pause in pauses)
        shortest = min(later - earlier for earlier, later in pairwise(sent))
        assert shortest >= 0.1 - 0.005, "no burst behind the pause"
        with store.db.read() as conn:
            assert all(conn.scalars(select(targets.c.enabled)))
            retries = list(conn.scalars(select(jobs.c.cooldown_retries)))
        assert sorted(retries)[-2:] == [1, 1]


def test_w27_an_interval_grows_by_a_block_and_stays_so_over_a_restart(store: Store, workers: Workers) -> None:
    """W27, C5: fast answers never shrink it, a fast 503 makes it longer, up to the most; the next worker keeps to it."""
    settings = {"cooldown_delay_sec": 1.0, "cooldown_interval_max_sec": 0.9}
    (worker,) = workers.start("one", **settings)
    with odd_sites("gd-w27", articles=12) as served:
        site = served["gd-w27"]
        bare = "<title>503 Service Temporarily Unavailable</title><h1>503 Service Temporarily Unavailable</h1>"
        site.routes["/a/10"] = once(page(bare, 503), page(article_html("/a/10")))
        store.load(odd_yaml({"gd-w27": site.url}, interval_sec=0.05))
        job_id = store.submit("gd-w27")
        wait_until(lambda: store.row(job_id).wait_reason == "cooldown", "the objection", 20)
        assert store.intervals("gd-w27") == [(0.05, 0.9)]
        before = [request.at for request in site.requests]
        assert len(before) >= 11
        assert min(b - a for a, b in pairwise(before)) >= 0.05 - 0.005
        worker.terminate()
        worker.wait_end(15)
        number = len(site.requests)
        worker.start().wait_ready()
        assert store.wait_for(job_id, "done")["outcome"] == "complete"
        after = [request.at for request in site.requests[number:]]
        figure(f"W27 {store.db.dialect}: gaps after the block and a restart {[round(b - a, 2) for a, b in pairwise(after)]}")
        assert min(b - a for a, b in pairwise(after)) >= 0.9 - 0.005
        assert store.intervals("gd-w27") == [(0.05, 0.9)]
        assert gaps(site, "/a/10")[0] >= 1.0
