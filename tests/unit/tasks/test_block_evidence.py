"""What a block leaves behind: its pause, its evidence with the attempt, and no request more (rules C1, C3)."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from config.errors import HostCooldown
from console.cli.evidence import evidence_lines
from console.cli.job_commands import _print_job
from console.cli.session import Session
from models import queries
from models.articles import articles
from models.groups import cooldowns
from models.queries import find_active
from tests.support.crawl_ports import Site, paged_site, rows
from tests.support.misbehave import Answer, article_html, page, redirect, sequence

RIVER = "<html><head><script>$_ts=window['$_ts'];</script><script src=/x.js></script></head><body></body></html>"
PHRASE = "<html><body><h2>访问过于频繁，请稍后再试</h2></body></html>"


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        running.show(rows(1, 2))
        yield running


def document(bench: Any, job_id: str) -> dict[str, Any]:
    with bench.db.read() as conn:
        found = queries.job(conn, job_id)
    assert found is not None
    return dict(found)


def lengths(bench: Any) -> list[tuple[str, float]]:
    return [(row["kind"], round((row["until"] - row["at"]).total_seconds())) for row in bench.rows(cooldowns)]


@pytest.mark.parametrize("fenced", [("*",), ("/list/1",)], ids=["the whole site", "all but robots.txt"])
def test_w51_a_challenge_is_asked_twice_at_most_pauses_long_and_ends_with_an_operator(
    bench: Any, site: Site, fenced: tuple[str, ...]
) -> None:
    """W51: each attempt sends one request that is objected to; after three pauses of six hours nobody tries any more."""
    if fenced == ("*",):
        site.routes.clear()
    site.routes |= dict.fromkeys(fenced, page(RIVER, 412, set_cookie="FSSBBIl1UgzbN7N80S=x; Path=/"))
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit().job_id
    assert bench.run_job(job_id, most=1) == ["cooldown"]
    assert len(site.requests) <= 2
    assert bench.run_job(job_id, most=2) == ["cooldown", "cooldown"]
    assert lengths(bench) == [("js_challenge", 21_600)] * 3
    assert all(tried["evidence"]["kind"] == "js_challenge" for tried in document(bench, job_id)["attempts_log"])
    with pytest.raises(HostCooldown):  # no retry: this is how an attempt ends whose job fails for good
        bench.run_attempt()
    assert bench.job(job_id)["progress"]["steps"][0]["status"] in ("failed", "done")
    assert len(site.requests) <= 4 * 2


def test_the_evidence_is_kept_with_its_attempt_and_shown(
    bench: Any, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = page(f"<h1>429</h1>{'x' * 3000}", 429, retry_after="7", server="YUNDUN")
    site.routes |= {"/a/1": redirect("/moved"), "/moved": sequence(blocked, page(article_html("/a/1")))}
    bench.crawls(site.url, interval_sec=0, max_pages=1)
    job_id = bench.submit().job_id
    assert bench.run_job(job_id) == ["cooldown", "done"]
    first, second = document(bench, job_id)["attempts_log"]
    assert second["evidence"] is None
    evidence = first["evidence"]
    assert (evidence["status"], evidence["headers"]["server"], evidence["retry_after_raw"]) == (429, "YUNDUN", "7")
    assert len(evidence["body"]) == 2_000
    assert evidence["hops"] == [f"{site.url}/a/1", f"{site.url}/moved"]
    lines = evidence_lines(1, evidence)
    assert lines[0] == f"attempt 1 met host_cooldown: rate 429 {site.url}/a/1"
    assert f"  way: {site.url}/a/1 → {site.url}/moved" in lines
    assert "    server: YUNDUN" in lines
    assert any(line.startswith("    <h1>429</h1>xxx") for line in lines)
    session = cast(Session, SimpleNamespace(database=bench.db))
    _print_job(session, document(bench, job_id))
    assert "\n".join(lines) in capsys.readouterr().out


def test_what_a_site_sends_moves_no_cursor() -> None:
    lines = evidence_lines(2, {"line": "host_cooldown", "headers": {"x": "\x1b]0;title\x07"}, "body": "a\x1b[2Jb\n\n\u202ec\td"})
    assert not any(char in "".join(lines) for char in "\x1b\x07\u202e")
    assert lines[-2:] == ["    a\N{REPLACEMENT CHARACTER}[2Jb", "    \N{REPLACEMENT CHARACTER}c d"]


@pytest.mark.parametrize("block", [page(PHRASE), page("no", 403), page("", 503)], ids=["a phrase", "403", "503"])
def test_w49_the_article_is_fetched_after_the_pause_and_the_block_page_never_stored(
    bench: Any, site: Site, block: Answer
) -> None:
    site.routes["/a/2"] = sequence(block, site.routes["/a/2"])
    bench.crawls(site.url, interval_sec=0, max_pages=1)
    job_id = bench.submit().job_id
    assert bench.run_job(job_id) == ["cooldown", "done"]
    assert lengths(bench) == [("rate", 600)]
    assert {row["url"] for row in bench.rows(articles)} == site.urls(1, 2)
    assert not any("频繁" in row["text"] for row in bench.rows(articles))


def test_w54_a_crawl_that_is_paused_by_a_block_is_the_one_that_later_submits_are_answered_with(
    bench: Any, site: Site
) -> None:
    """W54: two occurrences fall into the pause; both find the crawl that waits, which goes on for them."""
    site.routes["/a/2"] = sequence(page("no", 429), site.routes["/a/2"])
    bench.crawls(site.url, interval_sec=0, max_pages=1)
    job_id = bench.submit(dedupe_key="crawl:t1").job_id
    assert bench.run_attempt() == "cooldown"
    for _ in range(2):
        again = bench.submit(dedupe_key="crawl:t1", source="schedule")
        assert (again.job_id, again.created) == (job_id, False)
        bench.clock.advance(60)
    assert bench.claims() == [], "nothing of the group is taken while it is paused"
    bench.clock.advance(600)
    assert bench.run_job(job_id) == ["done"]
    with bench.db.read() as conn:
        assert find_active(conn, "crawl:t1") is None
    assert {row["url"] for row in bench.rows(articles)} == site.urls(1, 2)
