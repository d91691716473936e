from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from config.clock import now
from config.errors import Parked
from tasks.pipeline import Fetcher, RobotsCopy
from tasks.pipeline.robots import MAX_BYTES, Robots, product_token
from tasks.pipeline.urls import Scope
from tests.support import misbehave
from tests.support.crawl_ports import USER_AGENT, MemoryGate, MemoryJournal
from tests.support.misbehave import Answer, Server, page, redirect, serve


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


class Asked:
    """robots.txt of one server, asked about one path."""

    def __init__(self, server: Server, answer: Answer | None = None, journal: MemoryJournal | None = None) -> None:
        if answer is not None:
            server.routes["/robots.txt"] = answer
        self.gate, self.journal, self.server = MemoryGate(), journal or MemoryJournal(), server
        self.fetcher = Fetcher(self.gate, user_agent=USER_AGENT, timeout_sec=0.5)
        self.robots = Robots(self.fetcher, self.journal, self.gate, Scope(server.host), USER_AGENT)

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
    assert asked.journal.copies == {}


@pytest.mark.parametrize("answer", [misbehave.reset, misbehave.silence], ids=["reset", "silence"])
def test_w85_no_answer_means_not_now(server: Server, answer: Answer) -> None:
    with pytest.raises(Parked, match="robots_unreachable"):
        Asked(server, answer).allows("/a")


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
    copy = RobotsCopy(server.host, 200, "User-agent: *\nDisallow: /a\nCrawl-delay: 3", now() - timedelta(hours=23), "rules")
    asked = Asked(server, journal=MemoryJournal(copies={server.host: copy}))
    assert not asked.allows("/a")
    assert (server.requests, asked.gate.delays) == ([], {server.host: 3.0})


@pytest.mark.parametrize("age", [timedelta(hours=25), timedelta(hours=-25)], ids=["older", "of the future"])
def test_another_copy_is_read_again(server: Server, age: timedelta) -> None:
    copy = RobotsCopy(server.host, 200, "User-agent: *\nDisallow: /a", now() - age, "rules")
    asked = Asked(server, text("User-agent: *\nAllow: /"), MemoryJournal(copies={server.host: copy}))
    assert asked.allows("/a")
    assert now() - asked.journal.copies[server.host].fetched_at < timedelta(minutes=1)


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
