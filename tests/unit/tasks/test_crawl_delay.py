"""The group's bound follows what robots.txt of its hosts ask for, up and down (rules P4, R8)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from models.requests import robots_copies
from models.sites import sites
from tests.support.crawl_ports import Site, paged_site, rows
from tests.support.misbehave import page


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        running.show(rows(1))
        yield running


def robots(site: Site, seconds: float | None) -> None:
    """Have a site's robots.txt ask for so many seconds between requests, or for nothing."""
    line = "" if seconds is None else f"Crawl-Delay: {seconds}\n"
    site.routes["/robots.txt"] = page(f"User-agent: *\n{line}Disallow: /private\n")


def next_day(bench: Any) -> None:
    """Let every copy of a robots.txt be a day old."""
    for copy in bench.rows(robots_copies):
        bench.change(robots_copies, robots_copies.c.host == copy["host"],
                     fetched_at=copy["fetched_at"] - timedelta(days=1, seconds=1))
    bench.clock.advance(86_401)


def bound(bench: Any) -> float:
    """Crawl once and return the group's bound."""
    assert bench.run_job(bench.submit().job_id)[-1] == "done"
    return float(bench.group()["crawl_delay_sec"])


def test_a_crawl_delay_that_robots_txt_no_longer_asks_for_falls_again(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0)
    found = []
    for asked in (0.4, 0.2, None, 0.1):
        robots(site, asked)
        found.append(bound(bench))
        next_day(bench)
    assert found == [0.4, 0.2, 0.0, 0.1]


def test_the_bound_is_the_largest_over_the_hosts_of_the_group(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0)
    with bench.db.write() as conn:
        conn.execute(insert(sites).values(
            site_code="s9", base_url="http://b.example.org", cms_adapter="list", group_key="g1", group_rule="test",
            options={}, created_at=bench.clock.now, updated_at=bench.clock.now))
        conn.execute(insert(robots_copies), [
            {"host": host, "fetched_at": bench.clock.now, "status": 200, "decision": decision,
             "body": f"User-agent: *\nCrawl-delay: {seconds}\n"}
            for host, decision, seconds in (("b.example.org", "rules", 0.3), ("elsewhere.example.org", "rules", 9))])
    robots(site, 0.2)
    assert bound(bench) == 0.3
    next_day(bench)
    with bench.db.write() as conn:
        conn.execute(robots_copies.delete().where(robots_copies.c.host == "b.example.org"))
    assert bound(bench) == 0.2
