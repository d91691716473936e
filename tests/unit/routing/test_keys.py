"""The names of rate groups (rule R1)."""

from __future__ import annotations

import pytest

from routing.keys import host_glob, host_key, host_of, is_key, key_problem, lane_name, site_key


@pytest.mark.parametrize(
    ("base_url", "key"),
    [
        ("http://WWW.Example.org/news", "www.example.org"),
        ("https://user:secret@h.example.org.:443/x?y", "h.example.org"),
        ("http://h:80", "h"),
        ("https://h:80", "h:80"),
        ("http://h.example.org:8080/", "h.example.org:8080"),
        ("HTTP://H/", "h"),
        ("  http://h/  ", "h"),
        ("http://h。cn/", "h.cn"),
        ("http://例子.cn/", "xn--fsqu00a.cn"),
        ("http://xn--fsqu00a.cn/", "xn--fsqu00a.cn"),
        ("http://my_host.example.org", "my_host.example.org"),
        ("http://[::1]/", "[::1]"),
        ("http://[0:0::1]:8080/", "[::1]:8080"),
        ("http://[::ffff:127.0.0.1]/", "127.0.0.1"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("http://127.1/", "127.0.0.1"),
        ("http://0x7f.1/", "127.0.0.1"),
    ],
)
def test_the_key_of_a_host_is_one_spelling_for_all_ways_to_write_it(base_url: str, key: str) -> None:
    assert host_key(base_url) == key
    assert is_key(key)


@pytest.mark.parametrize(
    "base_url",
    ["", "www.example.org", "//h", "ftp://h/", "http://", "http://./", "http://a..b/", "http://a b/", "http://h:x/",
     "http://h:99999/", "http://h:0/", "http://[::1", "http://[fe80::1%25eth0]/", "http://-a.org/", "http://a%41.org",
     "http://evil\\@good.org/", "http://1.2.3.4.5/", "http://h\n.org/", "http://" + "a" * 64 + ".org"],
)
def test_an_unusable_address_has_no_host(base_url: str) -> None:
    assert host_key(base_url) is None
    assert host_of(base_url) is None


def test_rules_see_the_host_without_its_port() -> None:
    assert host_of("http://h.example.org:8080/") == "h.example.org"
    assert host_of("http://[::1]:8080/") == "[::1]"


def test_no_host_gets_into_an_internal_lane() -> None:
    assert host_key("http://_seed/") == "host:_seed"
    assert key_problem("_seed") is not None


def test_a_host_called_site_never_shares_a_key_with_a_site_code() -> None:
    assert host_key("http://site:8080/") != site_key("8080")
    assert host_key("http://site/") == "site"


def test_long_hosts_that_differ_only_at_their_end_have_different_keys() -> None:
    stem = "http://" + ".".join(["a" * 60] * 3)
    one, other = host_key(f"{stem}.{'b' * 50}.org"), host_key(f"{stem}.{'c' * 50}.org")
    assert one is not None and other is not None
    assert one != other
    assert is_key(one) and is_key(other)


def test_the_key_of_a_site_is_its_code_where_that_fits() -> None:
    assert site_key("city_news-1.a:b") == "site:city_news-1.a:b"


@pytest.mark.parametrize(
    ("one", "other"),
    [("News", "news"), ("a b", "a-b"), ("新闻", "消息"), ("x" * 300, "x" * 299), ("A", "a:x" + "0" * 32), ("", "-")],
)
def test_codes_that_do_not_fit_get_keys_that_fit_and_differ(one: str, other: str) -> None:
    assert site_key(one) != site_key(other)
    assert is_key(site_key(one)) and is_key(site_key(other))


def test_a_code_that_looks_like_a_shortened_one_cannot_take_its_key() -> None:
    taken = site_key("News")
    assert site_key(taken.removeprefix("site:")) != taken


def test_a_lane_is_named_after_its_group() -> None:
    assert lane_name("www.example.org") == "rg.www.example.org"


@pytest.mark.parametrize("key", ["", "City", "a b", "ä", "a/b", "x" * 201, "_cleanup"])
def test_a_person_cannot_use_a_key_outside_the_alphabet(key: str) -> None:
    assert key_problem(key)


def test_the_built_in_key_and_the_longest_key_are_usable() -> None:
    assert key_problem("gd_gkmlpt_shared") is None
    assert key_problem("x" * 200) is None


def test_host_globs_are_spelled_as_hosts_are() -> None:
    assert host_glob("*.Example.ORG.") == "*.example.org"
    assert host_glob("*.例子.cn") == "*.xn--fsqu00a.cn"
