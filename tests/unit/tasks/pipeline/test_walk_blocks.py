"""What a walk does when the site's firewall objects (rule C1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from email.utils import format_datetime

import pytest

from config.clock import now
from config.errors import HostCooldown
from tasks.pipeline import StartPoint, TargetSpec
from tasks.pipeline.firewall import Firewall
from tasks.pipeline.page import FetchedPage
from tests.support import misbehave
from tests.support.crawl_ports import MemoryGate, MemoryJournal, target, walk
from tests.support.misbehave import Answer, Server, article_html, list_html, page, redirect, sequence, serve

PHRASE = "<html><body><h1>访问过于频繁，请稍后再试</h1></body></html>"
RIVER = "<html><script>$_ts=window['$_ts'];</script><script src=/x.js></script></html>"


@pytest.fixture
def site() -> Iterator[Server]:
    with serve() as server:
        server.routes["/list/1"] = page(list_html([f"/a/{number}" for number in range(1, 6)]))
        for number in range(1, 6):
            server.routes[f"/a/{number}"] = page(article_html(f"/a/{number}"))
        yield server


def blocked(spec: TargetSpec, journal: MemoryJournal | None = None, gate: MemoryGate | None = None) -> HostCooldown:
    with pytest.raises(HostCooldown) as caught:
        walk(spec, journal or MemoryJournal(), gate)
    return caught.value


def test_w20_the_first_429_ends_the_crawl_and_fails_no_item(site: Server) -> None:
    site.routes["/a/3"] = page("slow down", 429, retry_after="7")
    journal = MemoryJournal()
    block = blocked(target(site.url), journal)
    assert site.paths == ["/list/1", "/a/1", "/a/2", "/a/3"]
    assert (len(journal.articles), journal.failures) == (2, {})
    assert block.retry_after_sec == 7
    assert block.evidence.line() == f"host_cooldown: rate 429 {site.url}/a/3"
    assert (block.evidence.retry_after_raw, block.evidence.body) == ("7", "slow down")
    assert block.evidence.headers["retry-after"] == "7"


@pytest.mark.parametrize("raw", ["Fri, 31 Dec 99999 23:59:59 GMT", "9" * 400, "", "abc", "1e3", "2026-11-30T00:00:00Z"])
def test_w24_an_odd_retry_after_is_kept_as_evidence_and_harms_nothing(site: Server, raw: str) -> None:
    site.routes["/list/1"] = page("no", 429, retry_after=raw)
    block = blocked(target(site.url))
    assert (block.retry_after_sec, block.evidence.retry_after_raw) == (None, raw)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("skew", [0, -3600])
def test_w25_a_date_is_obeyed_on_429_and_503_whatever_the_servers_clock(site: Server, status: int, skew: int) -> None:
    server_time = now().replace(microsecond=0) + timedelta(seconds=skew)
    site.routes["/list/1"] = page(
        "<p>busy</p>" * 200, status, date=format_datetime(server_time, usegmt=True),
        retry_after=format_datetime(server_time + timedelta(seconds=5), usegmt=True),
    )
    assert blocked(target(site.url)).retry_after_sec == 5


def test_w49_a_block_page_in_place_of_an_article_is_not_stored(site: Server) -> None:
    site.routes["/a/2"] = page(PHRASE)
    journal = MemoryJournal()
    block = blocked(target(site.url), journal)
    assert (block.evidence.kind, block.evidence.signs) == ("rate", ("known_phrase",))
    assert (set(journal.articles), journal.failures) == ({f"{site.url}/a/1"}, {})
    site.routes["/a/2"] = page(article_html("/a/2"))
    walk(target(site.url), journal)
    assert f"{site.url}/a/2" in journal.articles


def test_w49_without_a_content_selector_the_missing_title_gives_it_away(site: Server) -> None:
    site.routes["/a/2"] = page(PHRASE)
    assert blocked(target(site.url, content=None)).evidence.signs == ("known_phrase",)


def test_a_short_article_that_speaks_of_the_phrase_is_an_article(site: Server) -> None:
    site.routes["/a/2"] = page(article_html("/a/2", "网站提示访问过于频繁怎么办？请输入验证码。"))
    journal = MemoryJournal()
    for content in (".content", None):
        assert walk(target(site.url, content=content), journal, start=StartPoint(force=True)).outcome == "complete"
        assert "访问过于频繁" in journal.articles.pop(f"{site.url}/a/2").text


def test_w51_a_412_with_a_script_is_a_challenge_and_is_asked_once(site: Server) -> None:
    site.routes["/list/1"] = page(RIVER, 412, set_cookie="FSSBBIl1UgzbN7N80S=x; Path=/")
    block = blocked(target(site.url))
    assert (block.evidence.kind, block.evidence.status) == ("js_challenge", 412)
    assert "$_ts" in block.evidence.body
    assert site.paths == ["/list/1"]


@pytest.mark.parametrize(
    ("answer", "kind"), [(page("<h1>403</h1>", 403), "rate"), (page(PHRASE), "rate")], ids=["403 page", "200 page"]
)
def test_w52_a_block_page_in_place_of_a_list_is_a_block(site: Server, answer: Answer, kind: str) -> None:
    site.routes["/list/1"] = answer
    assert blocked(target(site.url)).evidence.kind == kind


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (misbehave.truncated('{"rows": ['), "truncated"),
        (page('{"error": 1}', content_type="application/json"), "wrong shape"),
        (page("%PDF", content_type="application/pdf"), "wrong shape"),
    ],
    ids=["truncated", "another format", "a file"],
)
def test_w52_what_is_no_list_is_never_an_empty_list(site: Server, answer: Answer, reason: str) -> None:
    site.routes["/list/1"] = answer
    result = walk(target(site.url), MemoryJournal())
    assert (result.outcome, len(result.reasons)) == ("partial", 1)
    assert reason in result.reasons[0]


def test_a_403_from_a_host_that_has_answered_is_a_block_at_once(site: Server) -> None:
    site.routes["/a/1"] = page("no", 403)
    assert blocked(target(site.url)).evidence.signs == ("answered_403", "other_403")
    assert site.paths == ["/list/1", "/a/1"]


def test_a_403_at_first_contact_is_a_block_when_it_repeats(site: Server) -> None:
    site.routes["/list/1"] = sequence(page("no", 403), site.routes["/list/1"])
    assert walk(target(site.url), MemoryJournal()).outcome == "complete"
    site.routes["/list/1"] = page("no", 403)
    assert blocked(target(site.url)).evidence.signs == ("other_403", "other_403")


def test_an_article_that_answers_403_again_after_the_pause_is_forbidden_and_no_block(site: Server) -> None:
    site.routes["/a/2"] = page("private", 403)
    journal = MemoryJournal()
    block = blocked(target(site.url), journal)
    journal.refused.add(block.evidence.url)
    result = walk(target(site.url), journal)
    assert (result.outcome, result.progress.items_failed) == ("complete", 1)
    assert journal.marked == {f"{site.url}/a/2"}
    assert journal.failures[f"{site.url}/a/2"].startswith("forbidden")


def test_on_a_target_with_a_forbidden_article_a_lone_403_is_weak(site: Server) -> None:
    site.routes["/a/2"] = page("private", 403)
    journal = MemoryJournal(marked={"http://elsewhere/"})
    result = walk(target(site.url), journal)
    assert (result.outcome, set(journal.failures), site.count("/a/2")) == ("partial", {f"{site.url}/a/2"}, 1)
    site.routes["/a/3"] = page("private", 403)
    journal.articles.clear()
    assert blocked(target(site.url), journal).evidence.signs == ("other_403", "other_403")


def test_two_resets_in_a_row_after_an_answer_are_a_block(site: Server) -> None:
    site.routes["/a/2"] = misbehave.reset
    block = blocked(target(site.url))
    assert (block.evidence.kind, block.evidence.status, block.evidence.url) == ("reset", None, f"{site.url}/a/2")
    assert site.count("/a/2") == 2


def test_resets_of_the_list_page_are_a_block_if_robots_txt_has_answered(site: Server) -> None:
    """C1: a firewall that hangs up instead of answering does so at the list page first, in each attempt after a pause."""
    site.routes["/list/1"] = misbehave.reset
    journal = MemoryJournal()
    for _ in range(2):
        assert blocked(target(site.url), journal).evidence.signs == ("reset", "reset")
    assert (site.count("/list/1"), site.count("/robots.txt")) == (4, 1), "the second time its stored copy tells"


def test_one_reset_is_tried_again_and_forgotten(site: Server) -> None:
    for number in (2, 3, 4):
        site.routes[f"/a/{number}"] = sequence(misbehave.reset, site.routes[f"/a/{number}"])
    assert walk(target(site.url), MemoryJournal()).outcome == "complete"


def test_one_body_for_three_articles_is_a_block_and_the_second_is_not_stored(site: Server) -> None:
    for number in (2, 3, 4):
        site.routes[f"/a/{number}"] = page(article_html("/same"))
    journal = MemoryJournal()
    assert blocked(target(site.url), journal).evidence.signs == ("twin_body", "twin_body")
    assert set(journal.articles) == {f"{site.url}/a/1", f"{site.url}/a/2"}


def test_the_bodies_that_came_lately_are_remembered_however_long_the_walk_is() -> None:
    firewall = Firewall(target("http://a.cn"), lone_403_is_weak=False)

    def rule(number: int, body: str) -> str:
        url = f"http://a.cn/{number}"
        found = firewall.judge(FetchedPage(url, url, 200, {}, f"<p>{body}</p>".encode()), has_expected=True, is_article=True)
        return found.rule if found else ""

    assert [rule(1, "first"), rule(2, "kept"), rule(3, "kept")] == ["", "", "twin_body"]
    for number in range(4, 3_000):
        assert rule(number, str(number)) == ""
        # what keeps coming is not forgotten
        assert number % 500 or rule(-number, "kept") == "twin_body"
    assert [rule(3_001, "kept"), rule(3_002, "other"), rule(3_003, "2999"), rule(3_004, "first")] == ["twin_body", "", "twin_body", ""]


def test_one_body_for_two_articles_is_a_copy_and_both_are_stored(site: Server) -> None:
    for number in (4, 5):
        site.routes[f"/a/{number}"] = page(article_html("/same"))
    journal = MemoryJournal()
    assert walk(target(site.url), journal).outcome == "complete"
    assert len(journal.articles) == 5
    assert journal.last is not None
    assert journal.last.items_new == 5


def test_a_redirect_to_a_captcha_is_a_block_and_the_captcha_is_not_fetched(site: Server) -> None:
    site.routes["/a/2"] = redirect("/captcha?from=/a/2")
    block = blocked(target(site.url))
    assert (block.evidence.signs, block.evidence.url) == (("captcha_redirect",), f"{site.url}/a/2")
    assert site.paths[-1] == "/a/2"


def test_a_cookie_loop_is_a_block_of_its_own_kind(site: Server) -> None:
    site.routes["/a/2"] = redirect("/a/2", set_cookie="c=1; Path=/")
    assert blocked(target(site.url)).evidence.kind == "cookie_loop"


def test_a_rule_that_the_site_switched_off_blocks_nothing(site: Server) -> None:
    site.routes["/a/2"] = page("<p>no</p>", 405)
    result = walk(target(site.url, more={"waf_off": frozenset({"status_405"})}), MemoryJournal())
    assert (result.outcome, result.progress.items_new) == ("partial", 4)


def test_w51_nothing_is_sent_after_a_block(site: Server) -> None:
    site.routes["/a/1"] = page("no", 418)
    gate = MemoryGate()
    blocked(target(site.url), gate=gate)
    assert gate.records[-1].status == 418
    assert gate.pending == 0
