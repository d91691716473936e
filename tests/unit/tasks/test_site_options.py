"""What a file says of a site, as its crawl uses it: identity, secrets, hosts, rules of its firewall (rules P1, P3, U6)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select

from config.errors import PermanentJobError
from models.base import metadata
from models.jobs import attempts
from models.requests import requests
from models.sites import sites
from tests.support.crawl_ports import Site, paged_site, rows
from tests.support.misbehave import Answer, Request, article_html, list_html, page, redirect, serve

SECRET = "s3cret-of-the-town"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("TOWN_SECRET", SECRET)
    with paged_site() as running:
        running.show(rows(1, 2))
        yield running


def crawl(
    bench: Any, site: Site, *, options: dict[str, Any] | None = None, most: int = 1, **site_options: Any
) -> dict[str, Any]:
    """Run up to `most` attempts under these options of the site (and of the target); returns the job's row."""
    bench.crawls(site.url, interval_sec=0, **({"max_pages": 1} | (options or {})))
    bench.change(sites, sites.c.site_code == "s1", options=site_options)
    job_id = bench.submit().job_id
    bench.run_job(job_id, most=most)
    return dict(bench.job(job_id))


def echo(conn: Any, request: Request) -> bool:
    """A block page that shows the request and sets a session, as the error pages of some gateways do."""
    shown = "".join(f"{name}: {value}\n" for name, value in request.headers.items())
    return page(f"<h1>429</h1><pre>{shown}</pre>", 429, set_cookie=f"sid={SECRET}; Path=/, lang=zh")(conn, request)


def everything(bench: Any) -> str:
    """All rows of all tables as text."""
    with bench.db.read() as conn:
        return "\n".join(str(row) for table in metadata.sorted_tables for row in conn.execute(select(table)))


def test_the_site_is_told_who_asks_and_gets_its_secrets_with_every_request(bench: Any, site: Site) -> None:
    job = crawl(bench, site, user_agent="town-reader/2 (+mailto:x@y.test)", headers={"X-Api-Key": "${TOWN_SECRET}", "X-Kind": "A"},
                cookies={"lang": "zh"}, basic_auth={"user": "ann", "password": "${TOWN_SECRET}"})
    assert job["outcome"] == "truncated"
    assert [request.path for request in site.requests] == ["/robots.txt", "/list/1", "/a/1", "/a/2"]
    for request in site.requests:
        assert (request.headers["user-agent"], request.headers["x-kind"]) == ("town-reader/2 (+mailto:x@y.test)", "A")
        assert (request.headers["x-api-key"], request.headers["cookie"]) == (SECRET, "lang=zh")
        assert request.headers["authorization"].startswith("Basic ")


def test_a_missing_variable_fails_the_job_at_once_and_is_named(bench: Any, site: Site) -> None:
    with pytest.raises(PermanentJobError, match="site s1: the environment variable TOWN_KEY is not set where the worker runs"):
        crawl(bench, site, headers={"X-Api-Key": "${TOWN_KEY}"})
    assert site.requests == []


def test_u6_no_row_and_no_line_of_the_log_holds_a_secret_not_even_if_the_site_sends_it_back(
    bench: Any, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    site.routes["/a/2"] = echo
    job = crawl(bench, site, headers={"X-Api-Key": "${TOWN_SECRET}"}, basic_auth={"user": "ann", "password": "${TOWN_SECRET}"})
    (evidence,) = [row["evidence"] for row in bench.rows(attempts) if row["evidence"]]
    assert job["wait_reason"] == "cooldown"
    assert "x-api-key: ***" in evidence["body"]
    assert "authorization: Basic ***" in evidence["body"]
    assert evidence["headers"]["set-cookie"] == "sid=***; Path=/, lang=***"
    assert SECRET not in everything(bench)
    assert not any(SECRET in record.getMessage() for record in caplog.records if record.name.startswith("ratelane"))


def test_other_hosts_of_the_crawl_get_no_secret(bench: Any, site: Site) -> None:
    with serve() as other:
        other.routes["/b"] = page(article_html("/b"))
        site.routes["/list/1"] = page(list_html([f"{other.url}/b", "/a/1"]))
        job = crawl(bench, site, options={"allowed_hosts": [other.host]}, headers={"X-Api-Key": "${TOWN_SECRET}", "X-Kind": "A"},
                    cookies={"lang": "zh"}, basic_auth={"user": "ann", "password": "${TOWN_SECRET}"})
        assert job["outcome"] == "truncated"
        assert [request.path for request in other.requests] == ["/robots.txt", "/b"]
        for request in other.requests:
            assert request.headers["x-kind"] == "A"
            assert not {"x-api-key", "cookie", "authorization"} & set(request.headers)


def test_an_allowed_host_counts_for_the_group_and_its_crawl_delay_stays(bench: Any, site: Site) -> None:
    """P3: its requests are in the log under the group; R8: its crawl-delay bounds the group, whoever is asked later."""
    with serve() as other:
        other.routes |= {"/b": page(article_html("/b")), "/robots.txt": page("User-agent: *\nCrawl-delay: 0.2\n")}
        site.routes |= {"/list/1": page(list_html([f"{other.url}/b", "/a/1"])),
                        "/robots.txt": page("User-agent: *\nDisallow: /no\n")}
        job = crawl(bench, site, options={"allowed_hosts": [other.host]}, most=20)
        assert job["outcome"] == "truncated"
        assert {(row["group_key"], row["host"]) for row in bench.rows(requests)} == {("g1", site.host), ("g1", other.host)}
        assert bench.group()["crawl_delay_sec"] == pytest.approx(0.2)
        bench.clock.advance(86_500)
        with bench.db.write() as conn:
            from models.requests import robots_copies

            conn.execute(robots_copies.delete().where(robots_copies.c.host == site.host))
        site.routes["/list/1"] = page(list_html(["/a/1", "/a/2"]))
        assert crawl(bench, site, options={"allowed_hosts": [other.host]}, most=20)["status"] == "done"
        assert bench.group()["crawl_delay_sec"] == pytest.approx(0.2)


def test_cookies_that_the_site_sets_are_kept_for_one_crawl_and_no_longer(bench: Any, site: Site) -> None:
    site.routes["/list/1"] = page(list_html(rows(1)), set_cookie="visit=1; Path=/")
    for _ in range(2):
        site.requests.clear()
        crawl(bench, site)
        bench.clock.advance(1)
        by_path = {request.path: request.headers.get("cookie", "") for request in site.requests}
        assert by_path["/list/1"] == ""
    site.show(rows(1, 2))
    site.routes["/list/1"] = page(list_html(rows(1, 2)), set_cookie="visit=1; Path=/")
    site.requests.clear()
    crawl(bench, site)
    assert {r.path: r.headers.get("cookie") for r in site.requests} == {"/list/1": None, "/a/2": "visit=1"}


def test_a_proxy_is_used_with_its_password_and_named_in_no_row(bench: Any, site: Site) -> None:
    with serve() as way:
        way.routes["*"] = page("no", 502)
        job = crawl(bench, site, proxy=f"http://ann:${{TOWN_SECRET}}@{way.host}")
        assert way.requests[0].path == f"{site.url}/robots.txt"
        assert way.requests[0].headers["proxy-authorization"].startswith("Basic ")
    assert site.requests == []
    assert job["status"] == "queued"
    assert SECRET not in everything(bench)


PUZZLE = {"name": "puzzle", "kind": "js_challenge", "statuses": [200], "any_of": ["请完成拼图"], "lacks_content": True, "max_text": 90}


@pytest.mark.parametrize(
    ("options", "kind"),
    [({}, "rate"), ({"waf_off": ["status_405"]}, None), ({"waf_off": ["status_405"], "waf_extra": [PUZZLE]}, "js_challenge")],
    ids=["as it comes", "switched off", "and one added"],
)
def test_rules_of_the_firewall_can_be_switched_off_and_added(
    bench: Any, site: Site, options: dict[str, Any], kind: str | None
) -> None:
    """C1: rules are data."""
    site.routes |= {"/a/1": page("method not allowed", 405), "/a/2": page("<p>请完成拼图</p>")}
    job = crawl(bench, site, **options)
    assert (job["wait_reason"] == "cooldown") is (kind is not None)
    assert bench.group()["pause_kind"] == kind


@pytest.mark.parametrize(("own", "stopped"), [((), True), (("127.0.0.1", "::1"), False)])
def test_w87_a_private_address_is_reached_only_if_it_is_the_sites_own(bench: Any, site: Site, own: tuple[str, ...], stopped: bool) -> None:
    there: Answer = redirect(f"http://localhost:{site.port}/real")
    site.routes |= {"/a/1": there, "/real": page(article_html("/a/1"))}
    crawl(bench, site, options={"allowed_hosts": ["local*"]}, own_addresses=list(own))
    assert (site.count("/real") == 0) is stopped
