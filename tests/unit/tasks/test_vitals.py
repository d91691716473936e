"""Vitals: does a site answer, with what status, how fast; one request at the most (rule S7)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from models.attempt import enter
from models.ledger import NewJob
from models.queries.reading import db_moment
from models.requests import requests, robots_copies
from models.sites import targets
from models.snapshots import vitals
from tasks.jobs.vitals import look_at_site
from tests.support.crawl_ports import Site, paged_site
from tests.support.misbehave import page, redirect, reset


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        running.routes["/"] = page("<html><body>welcome</body></html>")
        yield running


def look(bench: Any, site: Site, *, knows_robots: bool = True) -> dict[str, Any]:
    """Run the vitals of s1; returns what was written of it."""
    bench.crawls(site.url)
    bench.change(targets, interval_sec=0)
    with bench.db.read() as conn:
        now = db_moment(conn)
    if knows_robots:
        with bench.db.write() as conn:
            conn.execute(insert(robots_copies).values(
                host=site.url.removeprefix("http://"), fetched_at=now, status=404, decision="allow_all"))
    bench.ledger.submit(None, NewJob(kind="vitals", site_code="s1", group="g1", priority=10))
    attempt = bench.attempt_on()
    enter(attempt)
    look_at_site.push_request(id=attempt.claim.job_id)
    try:
        attempt.finish(look_at_site())
    finally:
        look_at_site.pop_request()
        enter(None)
    assert bench.job(attempt.claim.job_id)["status"] == "done"
    (row,) = bench.rows(vitals)
    return dict(row)


@pytest.mark.parametrize(("status", "answer"), [
    (200, page("<html>welcome</html>")), (404, page("no", 404)), (500, page("broken", 500)), (302, redirect("/home"))])
def test_s7_any_answer_is_an_answer_and_costs_one_request(bench: Any, site: Site, status: int, answer: Any) -> None:
    site.routes["/"] = answer
    row = look(bench, site)
    assert (row["state"], row["status"], row["reason"]) == ("reachable", status, "")
    assert row["latency_sec"] >= 0 and row["reachable_at"] == row["checked_at"]
    assert site.paths == ["/"] and len(bench.rows(requests)) == 1


def test_s7_robots_txt_is_asked_first_if_nobody_knows_it(bench: Any, site: Site) -> None:
    assert look(bench, site, knows_robots=False)["state"] == "reachable"
    assert [request.path for request in site.requests] == ["/robots.txt", "/"]


def test_s7_a_page_that_robots_txt_forbids_is_not_asked_for(bench: Any, site: Site) -> None:
    site.routes["/robots.txt"] = page("User-agent: *\nDisallow: /\n")
    row = look(bench, site, knows_robots=False)
    assert (row["state"], row["reason"], site.paths) == ("unknown", "robots.txt disallows it", [])


def test_s7_no_answer_is_unreachable(bench: Any, site: Site) -> None:
    site.routes["/"] = reset
    row = look(bench, site)
    assert (row["state"], row["status"], row["latency_sec"], row["reachable_at"]) == ("unreachable", None, None, None)


def test_s7_a_block_is_told_and_pauses_the_group_without_a_second_look(bench: Any, site: Site) -> None:
    site.routes["/"] = page("slow down", 429, retry_after="1234")
    row = look(bench, site)
    assert (row["state"], row["status"]) == ("reachable", 429) and row["reason"].startswith("host_cooldown: rate 429")
    assert bench.group()["pause_until"] == bench.clock.now + timedelta(seconds=1234)
    assert site.paths == ["/"]


@pytest.mark.parametrize(("minutes", "asked"), [(29, 0), (31, 1)])
def test_s7_an_answer_of_the_last_half_hour_counts_instead_of_a_request(
    bench: Any, site: Site, minutes: int, asked: int
) -> None:
    with bench.db.read() as conn:
        at = db_moment(conn) - timedelta(minutes=minutes)
    row = {"group_key": "g1", "job_id": "j", "attempt": 1, "url": "u", "started_at": at, "interval_sec": 0.0}
    host = site.url.removeprefix("http://")
    with bench.db.write() as conn:
        conn.execute(insert(requests), [
            {**row, "number": 1, "host": host, "status": 503, "ended_at": at + timedelta(seconds=2)},
            {**row, "number": 2, "host": host, "status": None, "ended_at": at + timedelta(seconds=5)},
            {**row, "number": 3, "host": "another.example.org", "status": 200, "ended_at": at + timedelta(seconds=9)}])
    row = look(bench, site)
    assert (len(site.requests), row["state"]) == (asked, "reachable")
    assert (row["status"], row["latency_sec"] == 2.0) == ((200, False) if asked else (503, True))
