"""Which group a site belongs to (rule R1)."""

from __future__ import annotations

import pytest

from routing.rules import BUILT_IN_GROUP, Rule, SiteFacts, resolve, resolve_all


def site(code: str = "s", base_url: str = "http://www.example.org/", adapter: str = "list") -> SiteFacts:
    return SiteFacts(code, base_url, adapter)


CITY = Rule("city-waf", host="*.example.org")


def test_an_assignment_is_stronger_than_every_rule() -> None:
    found = resolve(site(), "by-hand", [CITY])
    assert found.group == "by-hand"
    assert found.rule_text.startswith("assigned")


def test_the_first_rule_that_matches_wins() -> None:
    found = resolve(site(), None, [Rule("other", host="other.org"), CITY, Rule("late", host="*")])
    assert found.group == "city-waf"
    assert found.rule_text == "rule 2: host *.example.org"


def test_all_globs_of_a_rule_must_match() -> None:
    rule = Rule("k", host="*.example.org", adapter="feed", site="news*")
    assert resolve(site("news1", adapter="feed"), None, [rule]).group == "k"
    assert resolve(site("news1", adapter="list"), None, [rule]).group == "www.example.org"
    assert resolve(site("old", adapter="feed"), None, [rule]).group == "www.example.org"


def test_rules_match_the_host_without_its_port() -> None:
    assert resolve(site(base_url="http://www.example.org:8080"), None, [CITY]).group == "city-waf"


def test_a_glob_of_subdomains_does_not_match_the_domain_itself() -> None:
    assert resolve(site(base_url="http://example.org"), None, [CITY]).group == "example.org"


def test_a_rule_can_name_an_ipv6_address() -> None:
    assert resolve(site(base_url="http://[::1]:8080"), None, [Rule("six", host="[::1]")]).group == "six"


@pytest.mark.parametrize("host", ["gd.gov.cn", "www.gd.gov.cn", "a.b.gd.gov.cn", "WWW.GD.GOV.CN.", "x.gd.gov.cn:8080"])
def test_the_built_in_rule_takes_gkmlpt_sites_of_that_domain(host: str) -> None:
    assert resolve(site(base_url=f"http://{host}/gkmlpt", adapter="gkmlpt"), None, []).group == BUILT_IN_GROUP


@pytest.mark.parametrize(("host", "adapter"), [("www.gd.gov.cn", "list"), ("notgd.gov.cn", "gkmlpt"), ("gd.gov.cn.org", "gkmlpt")])
def test_the_built_in_rule_takes_no_others(host: str, adapter: str) -> None:
    assert resolve(site(base_url=f"http://{host}/", adapter=adapter), None, []).group == host


def test_a_rule_of_the_file_comes_before_the_built_in_one() -> None:
    found = resolve(site(base_url="http://www.gd.gov.cn", adapter="gkmlpt"), None, [Rule("mine", adapter="gkmlpt")])
    assert found.group == "mine"


def test_an_unusable_address_gives_a_lane_for_this_site_alone() -> None:
    rules = [Rule("all", host="*"), Rule("lists", adapter="list")]
    assert resolve(site("s1", base_url="nowhere"), None, rules).group == "site:s1"
    assert resolve(site("s2", base_url=""), None, rules).group == "site:s2"


def test_a_rule_that_names_the_site_holds_without_a_usable_address() -> None:
    assert resolve(site("s1", base_url="nowhere"), None, [Rule("named", site="s*")]).group == "named"


def test_sites_of_one_host_take_the_group_of_the_stronger_rule_and_it_is_said() -> None:
    found = resolve_all(
        [site("a", "http://www.gd.gov.cn/", "list"), site("b", "http://www.gd.gov.cn/gkmlpt", "gkmlpt")], []
    )
    assert found["a"].group == found["b"].group == BUILT_IN_GROUP
    assert "site b" in found["a"].rule_text and "www.gd.gov.cn" in found["a"].rule_text
    assert "site a" in found["a"].note and BUILT_IN_GROUP in found["a"].note
    assert found["b"].note == ""


def test_an_assignment_takes_the_other_sites_of_the_host_along() -> None:
    found = resolve_all([site("a"), site("b")], [Rule("r", site="b")], {"a": "by-hand"})
    assert found["a"].group == found["b"].group == "by-hand"


def test_of_two_rules_for_one_host_the_earlier_is_the_stronger() -> None:
    found = resolve_all([site("a"), site("b")], [Rule("first", site="b"), Rule("second", site="a")])
    assert found["a"].group == found["b"].group == "first"


def test_another_port_is_another_host() -> None:
    found = resolve_all([site("a"), site("b", "http://www.example.org:8080/")], [Rule("r", site="b")])
    assert found["a"].group == "www.example.org"


def test_sites_without_a_usable_address_are_never_united() -> None:
    found = resolve_all([site("a", "nowhere"), site("b", "nowhere")], [])
    assert found["a"].group != found["b"].group


def test_a_stored_site_keeps_the_rule_that_put_it_where_it_is() -> None:
    kept = {"a": ("city-waf", "rule 1: host *.example.org")}
    assert resolve_all([site("a")], [], None, kept)["a"].group == "city-waf"


def test_a_stored_site_obeys_a_rule_that_is_loaded_now() -> None:
    kept = {"a": ("city-waf", "rule 1: host *.example.org")}
    assert resolve_all([site("a")], [Rule("new", host="www.*")], None, kept)["a"].group == "new"


def test_a_stored_site_that_followed_another_one_does_not_lead_it() -> None:
    stored = resolve_all([site("a"), site("b")], [Rule("r", site="b")])
    kept = {"a": (stored["a"].group, stored["a"].rule_text)}
    assert resolve_all([site("a")], [], None, kept)["a"].group == "www.example.org"
