"""Discovery: pages of a site that look like lists and belong to no target, politely and within bounds (rule S7)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery.exceptions import Retry
from sqlalchemy import insert

from config.settings import Settings
from models.attempt import enter
from models.ledger import NewJob
from models.requests import requests
from models.sites import sites, targets
from models.snapshots import candidates
from tasks.jobs.discovery import discover_site
from tasks.pipeline.discovery import MOST_PAGES
from tasks.signals import settle_retry
from tests.support.crawl_ports import Site, paged_site, rows
from tests.support.ledger import START
from tests.support.misbehave import page, sequence


def links(*pairs: tuple[str, str]) -> str:
    return "<html><title>页</title><body>" + "".join(f'<p><a href="{url}">{text}</a></p>' for url, text in pairs) + "</body></html>"


def articles(folder: str, number: int = 6) -> list[tuple[str, str]]:
    return [(f"/{folder}/2026/t{each}.html", f"关于第{each}号事项处理结果的通知") for each in range(1, number + 1)]


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        running.show(rows(1, 2, 3))
        running.routes["/"] = page(links(
            ("/list/1", "通知"), ("/policy/", "政策文件"), ("/about.html", "关于我们"), ("/rules.pdf", "办事指南"),
            ("http://elsewhere.example.net/news/", "新闻"), *articles("home")))
        running.routes["/policy/"] = page(links(*articles("policy", 8), ("/", "首页")))
        running.routes["/about.html"] = page(links(("/", "首页")))
        yield running


def ready(bench: Any, site: Site, interval_sec: float) -> None:
    """Serve s1 from the test's site; the site's interval is the largest of its targets."""
    bench.crawls(site.url)
    bench.change(targets, interval_sec=interval_sec)


def run_discovery(bench: Any, *, most: int = 60) -> list[str]:
    """Run the discovery of s1 to its end, moving the clock on; returns why each attempt ended."""
    job_id = bench.ledger.submit(None, NewJob(kind="discovery", site_code="s1", group="g1")).job_id
    ends: list[str] = []
    while len(ends) < most and bench.job(job_id)["status"] == "queued":
        attempt = bench.attempt_on()
        enter(attempt)
        discover_site.push_request(id=job_id)
        try:
            attempt.finish(discover_site())
        except Retry as retry:
            settle_retry(request=discover_site.request, reason=retry)
        finally:
            discover_site.pop_request()
            enter(None)
        assert attempt.verdict is not None
        ends.append(attempt.verdict.why)
        due = [moment for moment in (bench.job(job_id)["run_after"], bench.group()["next_request_at"],
                                     bench.group()["pause_until"]) if moment is not None]
        bench.clock.now = max([bench.clock.now, *due])
    assert bench.job(job_id)["status"] == "done"
    return ends


def found(bench: Any, site: Site) -> dict[str, tuple[str, int]]:
    return {row["url"].removeprefix(site.url): (row["title"], row["links"]) for row in bench.rows(candidates)}


def test_s7_a_list_that_belongs_to_no_target_becomes_a_candidate(bench: Any, site: Site) -> None:
    ready(bench, site, 0)
    assert run_discovery(bench) == ["done"]
    assert found(bench, site) == {"/policy/": ("政策文件", 8)}
    assert sorted(request.path for request in site.requests) == ["/", "/about.html", "/list/1", "/policy/", "/robots.txt"]
    assert len(bench.rows(requests)) == len(site.requests)
    assert bench.rows(candidates)[0]["site_code"] == "s1"


def test_s7_a_list_of_stored_articles_belongs_to_a_target(bench: Any, site: Site) -> None:
    site.show([f"{url}|{text}" for url, text in articles("policy", 8)])
    ready(bench, site, 0)
    bench.run_job(bench.submit().job_id)
    run_discovery(bench)
    assert found(bench, site) == {}


def test_s7_a_candidate_that_is_linked_again_is_seen_again_without_a_request(bench: Any, site: Site) -> None:
    ready(bench, site, 0)
    with bench.db.write() as conn:
        conn.execute(insert(candidates), [
            {"site_code": "s1", "url": f"{site.url}{path}", "title": "老", "links": 9, "first_seen_at": START, "last_seen_at": START}
            for path in ("/policy/", "/gone/")])
    bench.clock.advance(60)
    run_discovery(bench)
    assert not [request for request in site.requests if request.path in ("/policy/", "/gone/")]
    seen = {row["url"].removeprefix(site.url): row["last_seen_at"] > START for row in bench.rows(candidates)}
    assert seen == {"/policy/": True, "/gone/": False}


def test_s7_the_number_of_requests_is_bounded(bench: Any, site: Site) -> None:
    site.routes["/"] = page(links(*((f"/c{number}/", f"栏目{number}") for number in range(40))))
    ready(bench, site, 0)
    run_discovery(bench)
    assert len([request for request in site.requests if request.path != "/robots.txt"]) == MOST_PAGES


def test_s7_robots_txt_is_obeyed(bench: Any, site: Site) -> None:
    site.routes["/robots.txt"] = page("User-agent: *\nDisallow: /policy/\n")
    ready(bench, site, 0)
    run_discovery(bench)
    assert "/policy/" not in {request.path for request in site.requests}
    assert found(bench, site) == {}


def test_s7_with_a_long_interval_it_goes_on_where_it_was_parked(bench: Any, site: Site) -> None:
    ready(bench, site, 0.3)
    ends = run_discovery(bench)
    assert ends.count("parked") >= 3 and ends[-1] == "done"
    paths = [request.path for request in site.requests]
    assert len(paths) == len(set(paths)) and found(bench, site) == {"/policy/": ("政策文件", 8)}


def test_s7_a_block_pauses_the_group_and_the_search_goes_on_behind_it(bench: Any, site: Site) -> None:
    site.routes["/policy/"] = sequence(page("slow down", 429), site.routes["/policy/"])
    ready(bench, site, 0)
    before = bench.clock.now
    assert run_discovery(bench) == ["cooldown", "done"]
    assert bench.group()["pause_until"] >= before + timedelta(seconds=Settings().cooldown_delay_sec)
    assert found(bench, site) == {"/policy/": ("政策文件", 8)}


def test_a_site_that_is_gone_ends_it_for_good(bench: Any) -> None:
    bench.ledger.submit(None, NewJob(kind="discovery", site_code="s1", group="g1"))
    attempt = bench.attempt_on()
    with bench.db.write() as conn:
        conn.execute(sites.delete())
    enter(attempt)
    discover_site.push_request(id=attempt.claim.job_id)
    with pytest.raises(Exception, match="site s1 is gone"):
        discover_site()
    discover_site.pop_request()
    enter(None)
