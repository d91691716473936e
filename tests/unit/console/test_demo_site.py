from __future__ import annotations

import threading
from http.client import HTTPConnection, RemoteDisconnected

import pytest

from console.demo import DemoServer, Site
from tests.support.site import get, one_site, status


def test_list_pages_lead_from_the_newest_to_the_oldest_article_and_end() -> None:
    with one_site(7, per_page=3) as demo_site:
        url = demo_site.site.base_url
        pages = [get(url, f"/news/index_{number}.html") for number in (1, 2, 3, 4)]
        texts = [body.decode() for _, body in pages]
    assert [answer.status for answer, _ in pages] == [200, 200, 200, 404]
    assert [text.count('<li class="item">') for text in texts] == [3, 3, 1, 0]
    assert texts[0].index("art_7.html") < texts[0].index("art_5.html")
    assert ['class="next" href="index_2.html"' in texts[0], 'class="next"' in texts[2]] == [True, False]


def test_pinned_rows_stand_above_every_list_page() -> None:
    with one_site(5, per_page=2, pinned=1) as demo_site:
        for number in (1, 2, 3):
            _, body = get(demo_site.site.base_url, f"/news/index_{number}.html")
            assert body.decode().count('<li class="item pinned"><a href="art_1.html">') == 1


def test_articles_hold_a_title_a_date_and_text_in_two_languages() -> None:
    with one_site(2) as demo_site:
        answer, body = get(demo_site.site.base_url, "/news/art_2.html")
        _, other = get(demo_site.site.base_url, "/news/art_1.html")
        assert status(demo_site.site.base_url, "/news/art_3.html") == 404
    text = body.decode()
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    assert "<h1>关于" in text and '<span class="date">2025-01-03</span>' in text and '<article class="content">' in text
    assert len(text) > 400 and body != other


def test_a_gbk_site_says_so_in_a_meta_tag_alone() -> None:
    with one_site(1, gbk=True) as demo_site:
        answer, body = get(demo_site.site.base_url, "/news/art_1.html")
    assert answer.getheader("Content-Type") == "text/html"
    assert '<meta charset="gb2312">' in body.decode("gbk") and "关于" in body.decode("gbk")
    with pytest.raises(UnicodeDecodeError):
        body.decode("utf-8")


def test_robots_txt_is_what_the_site_was_given() -> None:
    with one_site(robots="User-agent: *\nCrawl-delay: 2\n") as demo_site:
        assert get(demo_site.site.base_url, "/robots.txt")[1] == b"User-agent: *\nCrawl-delay: 2\n"
    with one_site(robots=None) as demo_site:
        assert status(demo_site.site.base_url, "/robots.txt") == 404


def test_an_unchanged_page_answers_304_to_its_own_etag() -> None:
    with one_site(3) as demo_site:
        url = demo_site.site.base_url
        etag = {"If-None-Match": str(get(url, "/news/index_1.html")[0].getheader("ETag"))}
        assert get(url, "/news/index_1.html", etag)[0].status == 304
        demo_site.site.add_articles("news")
        assert get(url, "/news/index_1.html", etag)[0].status == 200


def test_articles_can_be_added_and_removed_while_the_site_runs() -> None:
    with one_site(2) as demo_site:
        url = demo_site.site.base_url
        assert demo_site.site.add_articles("news", 2) == [f"{url}/news/art_4.html", f"{url}/news/art_3.html"]
        demo_site.site.remove_article("news", 1)
        text = get(url, "/news/index_1.html")[1].decode()
        assert "art_4.html" in text and "art_1.html" not in text
        assert (status(url, "/news/art_4.html"), status(url, "/news/art_1.html")) == (200, 404)


def test_a_path_fails_as_often_as_it_was_told_to() -> None:
    with one_site(2) as demo_site:
        demo_site.site.fail("/news/art_*.html", 500, times=2)
        url = demo_site.site.base_url
        assert [status(url, path) for path in ("/news/art_1.html", "/news/art_2.html", "/news/art_1.html")] == [500, 500, 200]


def test_a_failure_of_status_0_resets_the_connection() -> None:
    with one_site(2) as demo_site:
        demo_site.site.fail("/news/art_1.html", 0)
        with pytest.raises(ConnectionResetError):
            get(demo_site.site.base_url, "/news/art_1.html")


def test_a_path_can_be_served_as_anything() -> None:
    with one_site(2) as demo_site:
        demo_site.site.serve("/old", "", 302, {"Location": "/news/art_1.html"})
        answer, _ = get(demo_site.site.base_url, "/old")
    assert (answer.status, answer.getheader("Location")) == (302, "/news/art_1.html")


def test_a_held_request_is_answered_when_it_is_released() -> None:
    with one_site(2) as demo_site:
        hold = demo_site.site.hold("/news/art_1.html")
        answers: list[int] = []
        asker = threading.Thread(target=lambda: answers.append(status(demo_site.site.base_url, "/news/art_1.html")))
        asker.start()
        demo_site.server.log.wait_for_arrival("/news/art_1.html")
        assert demo_site.server.log.entries == [] and answers == []
        hold.release()
        asker.join(5)
        assert answers == [200]
        assert status(demo_site.site.base_url, "/news/art_1.html") == 200


def test_several_hosts_share_a_port_and_differ_in_their_pages() -> None:
    one, two = Site("one", columns={"a": 1}), Site("two", columns={"b": 1})
    with DemoServer([one, two]) as server:
        assert one.host != two.host and one.port == two.port and not server.shares_address
        assert (status(one.base_url, "/a/art_1.html"), status(two.base_url, "/a/art_1.html")) == (200, 404)


def test_where_an_address_cannot_be_bound_each_site_has_a_port() -> None:
    one, two = Site("one", "203.0.113.7", {"a": 1}), Site("two", "203.0.113.8", {"b": 1})
    with DemoServer([one, two]) as server:
        assert one.host == two.host == "127.0.0.1" and one.port != two.port and server.shares_address
        assert (status(one.base_url, "/a/art_1.html"), status(two.base_url, "/a/art_1.html")) == (200, 404)


def test_a_stopped_server_hangs_up_and_comes_back_at_the_same_place() -> None:
    site = Site("one")
    server = DemoServer([site]).start()
    place = site.netloc
    line = HTTPConnection(place, timeout=5)
    line.request("GET", "/")
    line.getresponse().read()
    server.stop()
    line.request("GET", "/")
    with pytest.raises((RemoteDisconnected, ConnectionError)):
        line.getresponse()
    with pytest.raises(ConnectionRefusedError):
        status(site.base_url, "/")
    server.start()
    assert status(site.base_url, "/") == 200 and site.netloc == place
    server.stop()


def test_connections_are_kept_alive() -> None:
    with one_site(2) as demo_site:
        line = HTTPConnection(demo_site.site.netloc, timeout=5)
        for _ in range(3):
            line.request("GET", "/news/index_1.html")
            line.getresponse().read()
            assert line.sock is not None
        line.close()
        log = demo_site.server.wait_for(lambda log: len(log) == 3)
    assert len({entry.client for entry in log}) == 1
