"""A target's allowed hosts may belong to no other group (rules P3, R1)."""

from __future__ import annotations

import pytest

from models.catalogue import Guests, Standing
from routing.guests import refusals
from routing.rules import Rule


def site(code: str, host: str, group: str = "", adapter: str = "list") -> Standing:
    return Standing(code, f"http://{host}", adapter, None, group or host, "host")


TOWN, LAKE = site("town", "www.town.test"), site("lake", "www.lake.test:8080")


def said(*hosts: str, rules: tuple[Rule, ...] = ()) -> list[str]:
    return refusals([TOWN, LAKE], [Guests("news", "town", hosts)], rules)


@pytest.mark.parametrize("host", ["static.town.test", "www.town.test", "www.lake.test", "*.town.test", "*.sea.test"])
def test_a_host_of_nobody_or_of_the_own_group_is_accepted(host: str) -> None:
    assert said(host) == []


@pytest.mark.parametrize("host", ["www.lake.test:8080", "*.lake.test", "*.test"])
def test_a_host_of_another_groups_site_is_refused_with_a_sentence(host: str) -> None:
    assert said(host) == [f"target news (group www.town.test) may not name {host} in allowed_hosts: www.lake.test:8080 is "
                          "the host of site lake in group www.lake.test:8080"]


def test_a_host_that_a_rule_puts_into_another_group_is_refused_before_any_site_has_it() -> None:
    rules = (Rule("waf", host="*.river.test"), Rule("lists", adapter="list"))
    assert said("static.river.test", rules=rules) == [
        "target news (group www.town.test) may not name static.river.test in allowed_hosts: a rule puts that host into group waf"]
    assert said("static.sea.test", rules=rules) == []


def test_the_platforms_hosts_belong_to_its_group() -> None:
    own = site("gk", "www.gkml.test", adapter="gkmlpt")
    assert "gd_gkmlpt_shared" in refusals([own], [Guests("t", "gk", ("zfsg.gd.gov.cn",))])[0]


def test_targets_of_two_groups_cannot_share_a_host_and_those_of_one_can() -> None:
    near = site("hall", "hall.town.test", group="www.town.test")
    guests = [Guests("news", "town", ("cdn.test",)), Guests("acts", "hall", ("cdn.test",)), Guests("fish", "lake", ("cdn.*",))]
    found = refusals([TOWN, LAKE, near], guests)
    assert len(found) == 2
    assert all(line.startswith("target fish (group www.lake.test:8080) may not name cdn.*") for line in found)
