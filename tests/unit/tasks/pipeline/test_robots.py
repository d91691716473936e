from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from config.errors import HostCooldown, Parked
from tasks.pipeline import Fetcher, RobotsCopy
from tasks.pipeline.firewall import Firewall
from tasks.pipeline.robots import MAX_BYTES, Robots, product_token
from tests.support import misbehave
from tests.support.crawl_ports import USER_AGENT, MemoryGate, MemoryJournal, target
from tests.support.misbehave import Answer, Server, page, redirect, serve


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


class Asked:
    """robots.txt of one server, asked about one path."""

    def __init__(
        self, server: Server, answer: Answer | None = None, journal: MemoryJournal | None = None, **more: Any
    ) -> None:
        if answer is not None:
            server.routes["/robots.txt"] = answer
        self.gate, self.journal, self.server = MemoryGate(), journal or MemoryJournal(), server
        self.fetcher = Fetcher(self.gate, user_agent=USER_AGENT, timeout_sec=0.5)
        spec = target(server.url, more=more)
        self.firewall = Firewall(spec, lone_403_is_weak=False)
        self.robots = Robots(self.fetcher, self.journal, self.gate, spec, self.firewall)

    def allows(self, path: str) -> bool:
        return self.robots.allowed(self.server.url + path)


def text(body: str) -> Answer:
    return page(body, content_type="text/plain")


def test_w84_what_is_disallowed_is_not_allowed(server: Server) -> None:
    asked = Asked(server, text("User-agent: *\nDisallow: /gkmlpt/content/\nAllow: /gkmlpt/content/open\n"))
    assert [asked.allows(path) for path in ("/gkmlpt/content/1", "/gkmlpt/content/open", "/gkmlpt/index")] == [
        False, True, True,
    ]
    assert server.count("/robots.txt") == 1
    assert asked.robots.decisions == {server.host: "200 rules"}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_w85_a_refusal_means_that_there_are_no_rules(server: Server, status: int) -> None:
    asked = Asked(server, page("User-agent: *\nDisallow: /", status))
    assert asked.allows("/a")
    assert asked.robots.decisions == {server.host: f"{status} allow_all"}
    assert asked.journal.copies[server.host].status == status


@pytest.mark.parametrize("status", [429, 500, 503])
def test_w84_w85_a_server_error_means_not_now(server: Server, status: int) -> None:
    asked = Asked(server, page("User-agent: *\nAllow: /", status))
    with pytest.raises(Parked) as caught:
        asked.allows("/a")
    assert (caught.value.reason, caught.value.delay_sec) == ("robots_unreachable", 1800)
    assert asked.robots.decisions == {server.host: f"not now: status {status}"}
    assert asked.journal.copies[server.host].decision == "not_now"


@pytest.mark.parametrize("answer", [misbehave.reset, misbehave.silence], ids=["reset", "silence"])
def test_w85_no_answer_means_not_now(server: Server, answer: Answer) -> None:
    asked = Asked(server, answer)
    with pytest.raises(Parked, match="robots_unreachable"):
        asked.allows("/a")
    assert asked.journal.copies[server.host].decision == "not_now"


def test_not_now_holds_for_the_other_targets_of_the_host_and_they_wait_for_what_is_left(server: Server) -> None:
    journal = MemoryJournal(copies={server.host: RobotsCopy(server.host, 503, "status 503", "not_now", age_sec=300)})
    asked = Asked(server, text("User-agent: *\nAllow: /"), journal, robots_retry_sec=1000.0)
    with pytest.raises(Parked) as caught:
        asked.allows("/a")
    assert (caught.value.reason, caught.value.delay_sec, server.requests) == ("robots_unreachable", 700, [])


def test_not_now_is_over_after_its_time(server: Server) -> None:
    journal = MemoryJournal(copies={server.host: RobotsCopy(server.host, 503, "status 503", "not_now", age_sec=1001)})
    asked = Asked(server, text("User-agent: *\nAllow: /"), journal, robots_retry_sec=1000.0)
    assert asked.allows("/a")
    assert journal.copies[server.host].decision == "rules"


@pytest.mark.parametrize(("asks", "delay"), [("7200", 7200), ("60", 1800), ("soon", 1800)])
def test_a_server_that_asks_for_a_longer_wait_gets_it(server: Server, asks: str, delay: float) -> None:
    asked = Asked(server, page("slow down", 429, retry_after=asks))
    for age in (0.0, 10.0):
        with pytest.raises(Parked) as caught:
            asked.allows("/a")
        assert caught.value.delay_sec == delay - age
        copy = asked.journal.copies[server.host]
        asked.journal.copies[server.host] = replace(copy, age_sec=10.0)
    assert len(server.requests) == 1


CHALLENGE = "<html><title>Just a moment...</title><script src=/cdn-cgi/challenge-platform/x.js></script></html>"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (page("no", 405), "rate"), (page("no", 412), "rate"), (page("no", 418), "rate"), (page("no", 567), "rate"),
        (page("<html><script>x</script></html>", 412), "js_challenge"),
        (page("<script>document.cookie</script>", 521), "js_challenge"),
        (page(CHALLENGE, 403), "js_challenge"), (page(CHALLENGE, 503), "js_challenge"),
        (page("<html><h1>访问过于频繁</h1></html>"), "rate"), (redirect("/captcha"), "rate"),
        (redirect("/robots.txt", set_cookie="c=1; Path=/"), "cookie_loop"),
    ],
    ids=["405", "412", "418", "567", "412 script", "521", "403 mark", "503 mark", "phrase", "captcha", "cookie loop"],
)
def test_a_sure_sign_at_robots_txt_is_a_block(server: Server, answer: Answer, kind: str) -> None:
    with pytest.raises(HostCooldown) as caught:
        Asked(server, answer).allows("/a")
    assert (caught.value.evidence.kind, caught.value.evidence.url) == (kind, f"{server.url}/robots.txt")
    assert server.count("/captcha") == 0


@pytest.mark.parametrize(
    "answer", [text("# rate limit: one a minute\nUser-agent: *\nAllow: /"), page("<html><h1>Welcome</h1></html>")],
    ids=["comment", "home page"],
)
def test_a_harmless_answer_is_no_block(server: Server, answer: Answer) -> None:
    assert Asked(server, answer).allows("/a")


def test_a_rule_that_the_site_switched_off_does_not_block_at_robots_txt(server: Server) -> None:
    assert Asked(server, page("no", 405), waf_off=frozenset({"status_405"})).allows("/a")


def test_what_robots_txt_answers_says_nothing_about_the_pages(server: Server) -> None:
    asked = Asked(server, page("no", 403))
    assert asked.allows("/a")
    assert asked.firewall.document() == {"answered": [], "weak": "", "bodies": {}}


def test_a_byte_order_mark_does_not_hide_the_first_group(server: Server) -> None:
    assert not Asked(server, text("\ufeffUser-agent: *\nDisallow: /a\n")).allows("/a")


def test_our_own_group_counts_whatever_its_case(server: Server) -> None:
    asked = Asked(server, text("User-agent: RateLane\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n"))
    assert (asked.allows("/a"), asked.allows("/b")) == (False, True)


@pytest.mark.parametrize(("line", "delay"), [("2.5", 2.5), ("900", 300.0), ("0", None), ("soon", None)])
def test_a_crawl_delay_is_a_lower_bound_up_to_five_minutes(server: Server, line: str, delay: float | None) -> None:
    asked = Asked(server, text(f"User-agent: *\nCrawl-delay: {line}\n"))
    assert asked.allows("/a")
    assert asked.gate.delays.get(server.host) == delay


def test_a_copy_younger_than_a_day_is_used_and_its_delay_counts(server: Server) -> None:
    copy = RobotsCopy(server.host, 200, "User-agent: *\nDisallow: /a\nCrawl-delay: 3", "rules", age_sec=82_800)
    asked = Asked(server, journal=MemoryJournal(copies={server.host: copy}))
    assert not asked.allows("/a")
    assert (server.requests, asked.gate.delays) == ([], {server.host: 3.0})


@pytest.mark.parametrize("age", [90_000.0, -90_000.0], ids=["older", "of the future"])
def test_another_copy_is_read_again(server: Server, age: float) -> None:
    copy = RobotsCopy(server.host, 200, "User-agent: *\nDisallow: /a", "rules", age_sec=age)
    asked = Asked(server, text("User-agent: *\nAllow: /"), MemoryJournal(copies={server.host: copy}))
    assert asked.allows("/a")
    assert asked.journal.copies[server.host].age_sec == 0


def test_a_redirect_is_followed_and_one_that_never_ends_means_no_rules(server: Server) -> None:
    server.routes["/r"] = text("User-agent: *\nDisallow: /a")
    assert not Asked(server, redirect("/r")).allows("/a")
    assert Asked(server, redirect("/robots.txt")).allows("/a")


def test_a_file_of_any_length_is_read_up_to_its_limit(server: Server) -> None:
    body = "User-agent: *\nDisallow: /a\n" + "# x\n" * (MAX_BYTES // 2)
    assert not Asked(server, text(body)).allows("/a")


@pytest.mark.parametrize(("agent", "token"), [(USER_AGENT, "ratelane"), ("Bot (x)", "Bot"), ("", "*"), ("a/1 b/2", "a")])
def test_robots_txt_calls_us_by_our_product_token(agent: str, token: str) -> None:
    assert product_token(agent) == token
