from __future__ import annotations

import threading
from http.client import HTTPConnection
from pathlib import Path

import pytest

from config import clock
from console.demo import DemoServer, Entry, Site, judge, read_log
from tests.support.site import get, one_site, status


def test_the_log_tells_each_request_in_memory_and_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    site = Site("one")
    with DemoServer([site], log_path=path) as server:
        get(site.base_url, "/news/art_1.html", {"User-Agent": "tester"})
        status(site.base_url, "/missing")
        log = server.wait_for(lambda log: len(log) == 2)
    assert read_log(path) == log
    first = log[0]
    assert (first.host, first.site, first.path, first.status, first.user_agent) == (
        site.netloc, "one", "/news/art_1.html", 200, "tester")
    assert first.bytes > 400 and first.started < first.ended < log[1].started and first.complete
    assert abs(first.started_ns / 1e9 - clock.now().timestamp()) < 60


def test_a_half_written_line_of_the_log_is_left_out(tmp_path: Path) -> None:
    with DemoServer([site := Site("one")], log_path=tmp_path / "log") as server:
        status(site.base_url, "/")
        server.wait_for(lambda log: log)
    with open(tmp_path / "log", "a", encoding="utf-8") as log:
        log.write('{"host": "127')
    assert len(read_log(tmp_path / "log")) == 1


def test_waiting_for_what_never_comes_says_what_came() -> None:
    with one_site() as demo_site:
        status(demo_site.site.base_url, "/missing")
        demo_site.server.wait_for(lambda log: log)
        with pytest.raises(TimeoutError, match="1 requests, last: 404 /missing"):
            demo_site.server.wait_for(lambda log: len(log) > 1, timeout=0.05)


def _entry(host: str, started: float, ended: float) -> Entry:
    return Entry(host, host, "GET", "/", "127.0.0.1", "", started, ended, 0, 0, 200, 1, "", True)


def test_requests_in_turn_with_the_interval_between_them_are_polite() -> None:
    found = judge([_entry("a", 0, 1), _entry("b", 2, 3), _entry("c", 0.5, 2.5)], {"a": "g", "b": "g"}, 1.0)
    assert found.polite and found.smallest_gap == 1.0 and found.requests == 3


def test_the_smallest_gap_is_that_of_any_group() -> None:
    log = [_entry("a", 0, 1), _entry("a", 3, 4), _entry("b", 0, 1), _entry("b", 1.5, 2), _entry("b", 5, 6)]
    assert judge(log, {}).smallest_gap == 0.5


def test_requests_of_a_group_at_the_same_time_are_an_overlap_whatever_their_order_in_the_log() -> None:
    found = judge([_entry("b", 1.5, 2.5), _entry("a", 0, 2)], {"a": "g", "b": "g"})
    assert [(one.host, two.host) for one, two in found.overlaps] == [("a", "b")]
    assert found.smallest_gap == -0.5 and not found.polite


def test_a_short_request_inside_a_long_one_does_not_hide_the_next_overlap() -> None:
    found = judge([_entry("a", 0, 10), _entry("a", 1, 2), _entry("a", 5, 6)], {})
    assert len(found.overlaps) == 2


def test_a_gap_below_the_interval_is_short_unless_it_is_tolerated() -> None:
    log = [_entry("a", 0, 1), _entry("a", 1.95, 3)]
    assert len(judge(log, {}, 1.0).short_gaps) == 1
    assert judge(log, {}, 1.0, tolerance=0.1).polite


def test_groups_can_have_intervals_of_their_own() -> None:
    log = [_entry("a", 0, 1), _entry("a", 1.5, 2), _entry("b", 0, 1), _entry("b", 1.5, 2)]
    found = judge(log, {"a": "slow"}, {"slow": 1.0})
    assert [one.host for one, _ in found.short_gaps] == ["a"]


def test_nothing_asked_is_polite() -> None:
    assert judge([], {}, 1.0) == judge([], {}) and judge([], {}).smallest_gap is None


def test_the_site_itself_sees_a_client_that_asks_twice_at_once() -> None:
    with one_site(2) as demo_site:
        hold = demo_site.site.hold("/news/art_1.html")
        asker = threading.Thread(target=status, args=(demo_site.site.base_url, "/news/art_1.html"))
        asker.start()
        demo_site.server.log.wait_for_arrival("/news/art_1.html")
        status(demo_site.site.base_url, "/news/art_2.html")
        hold.release()
        asker.join(5)
        demo_site.server.wait_for(lambda log: len(log) == 2)
        assert len(demo_site.judged().overlaps) == 1


def test_requests_back_to_back_are_never_taken_for_an_overlap() -> None:
    with one_site(2) as demo_site:
        line = HTTPConnection(demo_site.site.netloc, timeout=5)
        for _ in range(300):
            line.request("GET", "/news/art_1.html")
            line.getresponse().read()
        line.close()
        demo_site.server.wait_for(lambda log: len(log) == 300)
        assert demo_site.judged().overlaps == ()
