from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.pipeline.urls import Scope, canonical, host_key, is_private, join


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("HTTP://WWW.Example.ORG:80/a", "http://www.example.org/a"),
        ("https://example.org:443", "https://example.org/"),
        ("http://example.org:8080/a#part", "http://example.org:8080/a"),
        ("http://user:secret@example.org/a", "http://example.org/a"),
        ("http://example.org./a", "http://example.org/a"),
        ("http://example.org/a/./b/../c/", "http://example.org/a/c/"),
        ("http://example.org/a//b", "http://example.org/a//b"),
        ("http://example.org/a?b=2&a=1&b=1", "http://example.org/a?b=2&a=1&b=1"),
        ("http://example.org/%b9%e3?q=%b9%e3", "http://example.org/%B9%E3?q=%B9%E3"),
        ("http://www.中国.cn/通知", "http://www.xn--fiqs8s.cn/%E9%80%9A%E7%9F%A5"),
        ("  http://example.org/a b\n", "http://example.org/a%20b"),
        ("http://[::1]:8080/a", "http://[::1]:8080/a"),
    ],
)
def test_a_url_has_one_canonical_spelling(link: str, expected: str) -> None:
    assert canonical(link) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize("link", ["javascript:void(0)", "mailto:a@b.org", "", "http://", "http://h:99999/", "ftp://h/a"])
def test_what_is_no_http_address_is_refused(link: str) -> None:
    with pytest.raises(ValueError, match="not an"):
        canonical(link)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("c.html", "http://h/a/c.html"), ("../c.html", "http://h/c.html"), ("/c", "http://h/c"), ("//k/c", "http://k/c"),
        ("x//y", "http://h/a/x//y"), ("?p=2", "http://h/a/b?p=2"), ("#top", "http://h/a/b?q=1"), ("./", "http://h/a/"),
    ],
)
def test_links_are_joined_as_a_browser_does(link: str, expected: str) -> None:
    assert canonical(link, "http://h/a/b?q=1") == expected


def test_a_query_is_encoded_in_the_charset_of_its_page() -> None:
    assert canonical("/s?q=广", "http://h/", "gb18030") == "http://h/s?q=%B9%E3"


def test_join_keeps_a_link_that_is_absolute() -> None:
    assert join("http://h/a", "https://k/b") == "https://k/b"


def test_a_host_key_carries_only_an_unusual_port() -> None:
    assert [host_key(url) for url in ("http://H:80/", "https://h:8443/", "http://[::1]/", "nothing")] == [
        "h", "h:8443", "[::1]", "",
    ]


def test_scope_covers_named_hosts_with_their_port_and_globs_without() -> None:
    scope = Scope("a.org:8080", frozenset({"b.org", "*.gd.gov.cn"}))
    inside = ["http://a.org:8080/x", "http://b.org/", "http://zfsg.gd.gov.cn/", "http://zfsg.gd.gov.cn:81/"]
    outside = ["http://a.org/x", "http://a.org:8081/", "http://b.org:81/", "http://gd.gov.cn.evil.org/", "mailto:x"]
    assert [scope.covers(url) for url in inside] == [True] * 4
    assert [scope.covers(url) for url in outside] == [False] * 5


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "[fe80::1%eth0]", "::ffff:10.0.0.1"])
def test_private_addresses_are_recognised(address: str) -> None:
    assert is_private(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "www.example.org"])
def test_public_addresses_and_names_are_not_private(address: str) -> None:
    assert not is_private(address)


@given(st.text(alphabet=st.sampled_from("ab中/.:?#%[]@&=-+ \\2e\t\x00\u2100"), max_size=30))
@example("//[")
@example("http://a:b/")
@example("http://\u2100/")
def test_any_link_has_a_canonical_form_that_stays_or_is_refused(link: str) -> None:
    try:
        found = canonical(link, "http://www.example.org/a/b.html")
    except ValueError:
        return
    assert canonical(found) == found
    assert found.isascii()
    assert "#" not in found
