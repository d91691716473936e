from __future__ import annotations

from email.utils import parsedate_to_datetime
from http.client import RemoteDisconnected

import pytest

from config import clock
from console.demo import DemoServer, Site, Waf
from tests.support.servers import wait_until
from tests.support.site import get, one_site, status


def _with_waf(**waf: object) -> Waf:
    return Waf(**{"after_requests": 1, **waf})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("behaviour", "code", "text"),
    [
        ("rate_429", 429, "Too Many Requests"),
        ("block_403", 403, "Forbidden"),
        ("busy_503", 503, "Unavailable"),
        ("challenge_412", 412, "<script>"),
        ("soft_200", 200, "访问过于频繁"),
    ],
)
def test_the_firewall_answers_as_its_behaviour_says(behaviour: str, code: int, text: str) -> None:
    with one_site(3, waf=_with_waf(behaviour=behaviour)) as demo_site:
        assert status(demo_site.site.base_url, "/news/art_1.html") == 200
        answer, body = get(demo_site.site.base_url, "/news/art_2.html")
        log = demo_site.server.wait_for(lambda log: len(log) == 2)
    assert answer.status == code and text in body.decode() and len(body) < 300
    assert (answer.getheader("Set-Cookie") is not None) == (behaviour == "challenge_412")
    assert [entry.waf for entry in log] == ["", behaviour]


@pytest.mark.parametrize(("behaviour", "error"), [("reset", ConnectionResetError), ("close", RemoteDisconnected)])
def test_the_firewall_ends_connections_without_a_word(behaviour: str, error: type[Exception]) -> None:
    with one_site(3, waf=_with_waf(behaviour=behaviour)) as demo_site:
        assert status(demo_site.site.base_url, "/news/art_1.html") == 200
        with pytest.raises(error):
            get(demo_site.site.base_url, "/news/art_2.html")
        log = demo_site.server.wait_for(lambda log: len(log) == 2)
    assert (log[1].status, log[1].bytes, log[1].waf) == (0, 0, behaviour)


def test_a_slow_firewall_delays_its_answer() -> None:
    with one_site(3, waf=_with_waf(behaviour="slow", delay_sec=0.2)) as demo_site:
        status(demo_site.site.base_url, "/news/art_1.html")
        assert status(demo_site.site.base_url, "/news/art_2.html") == 200
        log = demo_site.server.wait_for(lambda log: len(log) == 2)
    assert log[1].ended - log[1].started >= 0.2 > log[0].ended - log[0].started


def test_a_dripping_firewall_sends_a_byte_at_a_time() -> None:
    with one_site(3, waf=_with_waf(behaviour="drip", delay_sec=0.001)) as demo_site:
        _, whole = get(demo_site.site.base_url, "/news/index_1.html")
        _, dripped = get(demo_site.site.base_url, "/news/index_1.html")
        log = demo_site.server.wait_for(lambda log: len(log) == 2)
    assert dripped == whole
    assert log[1].ended - log[1].started >= 0.001 * len(whole)


@pytest.mark.parametrize("behaviour", ["slow", "drip"])
def test_a_request_ends_in_the_log_when_the_client_gives_up(behaviour: str) -> None:
    with one_site(3, waf=_with_waf(behaviour=behaviour, delay_sec=30)) as demo_site:
        status(demo_site.site.base_url, "/news/art_1.html")
        with pytest.raises(TimeoutError):
            get(demo_site.site.base_url, "/news/art_2.html", timeout=0.2)
        log = demo_site.server.wait_for(lambda log: len(log) == 2, timeout=2)
    assert not log[1].complete and 0.15 < log[1].ended - log[1].started < 1


@pytest.mark.parametrize(("given", "seconds"), [(120, 120), ("date", 60), ("-5", None), (None, None)])
def test_the_firewall_asks_to_come_back_later_in_the_form_it_was_told(given: int | str | None, seconds: int | None) -> None:
    with one_site(3, waf=_with_waf(behaviour="rate_429", retry_after=given, lasts_sec=60)) as demo_site:
        status(demo_site.site.base_url, "/")
        raw = get(demo_site.site.base_url, "/")[0].getheader("Retry-After")
    if given == "date":
        assert raw is not None and abs((parsedate_to_datetime(raw) - clock.now()).total_seconds() - 60) < 5
    else:
        assert raw == (None if given is None else str(given))


def test_hosts_behind_one_firewall_are_counted_and_blocked_together() -> None:
    sites = [Site("one"), Site("two"), Site("free")]
    with DemoServer(sites, [Waf(["one", "two"], after_requests=2, lasts_sec=60)]):
        one, two, free = (site.base_url for site in sites)
        assert [status(url, "/") for url in (one, free, free, free, two, one, two, free)] == [
            200, 200, 200, 200, 200, 403, 403, 200]


def test_the_firewall_forgets_after_its_time_and_trips_as_often_as_it_was_told() -> None:
    waf = Waf(after_requests=1, lasts_sec=0.1, trips=2)
    with one_site(waf=waf) as demo_site:
        url = demo_site.site.base_url
        assert [status(url, "/"), status(url, "/"), status(url, "/")] == [200, 403, 403]
        wait_until(lambda: status(url, "/") == 200, "the end of the ban")
        assert status(url, "/") == 403
        wait_until(lambda: status(url, "/") == 200, "the end of the second ban")
        assert [status(url, "/") for _ in range(5)] == [200] * 5
    assert waf.tripped == 2


def test_a_request_during_the_ban_starts_its_time_anew_if_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0.0, 5.0, 10.0, 15.0, 21.5, 21.6])
    monkeypatch.setattr(clock, "monotonic", lambda: next(moments))
    waf = Waf(after_requests=0, lasts_sec=6, extends=True)
    assert [waf.objects("one", "/") for _ in range(6)] == [True, True, True, True, False, False]


def test_paths_can_be_fenced_while_lists_are_served() -> None:
    with one_site(3, waf=Waf(at_paths=["/news/art_*"], lasts_sec=0, trips=None)) as demo_site:
        url = demo_site.site.base_url
        assert [status(url, path) for path in ("/news/art_1.html", "/news/index_1.html", "/news/art_2.html")] == [403, 200, 403]


@pytest.mark.parametrize(("counts", "expected"), [(False, 200), (True, 403)])
def test_robots_txt_counts_only_if_it_is_told_to(counts: bool, expected: int) -> None:
    with one_site(waf=_with_waf(counts_robots=counts)) as demo_site:
        status(demo_site.site.base_url, "/robots.txt")
        assert status(demo_site.site.base_url, "/") == expected


def test_an_unknown_behaviour_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'tarpit'.*rate_429"):
        _with_waf(behaviour="tarpit")
