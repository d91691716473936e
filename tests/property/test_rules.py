"""Resolution is total, stable and never splits a host (rule R1)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from routing.keys import host_key, is_key, site_key
from routing.rules import Rule, SiteFacts, resolve, resolve_all

HOSTS = st.sampled_from(["a.org", "A.org.", "b.org:8080", "b.org", "www.gd.gov.cn", "[::1]", "例子.cn", "", "bad host", "x:0"])
URLS = st.builds("{}{}/{}".format, st.sampled_from(["http://", "https://", ""]), HOSTS, st.sampled_from(["", "x"]))
SITES = st.lists(
    st.builds(SiteFacts, st.sampled_from("abcdefgh"), URLS, st.sampled_from(["list", "gkmlpt"])),
    unique_by=lambda site: site.site_code, max_size=8,
)
GLOBS = st.sampled_from(["*", "*.org", "a.org", "*.gd.gov.cn", "[a-c]*"])
RULES = st.lists(
    st.builds(Rule, st.sampled_from(["g1", "g2", "g3"]), GLOBS, st.sampled_from(["*", "list"]), st.sampled_from(["*", "a", "[bc]"])),
    max_size=4,
)
ASSIGNED = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(["h1", "h2"]), max_size=2)


@given(st.text(max_size=300))
def test_every_code_has_a_key_that_fits(code: str) -> None:
    assert is_key(site_key(code))


@given(st.lists(st.text(max_size=40), unique=True, max_size=20))
def test_different_codes_have_different_keys(codes: list[str]) -> None:
    assert len({site_key(code) for code in codes}) == len(codes)


@given(st.text(max_size=60))
def test_every_address_has_a_key_that_fits_or_none(text: str) -> None:
    for url in (text, f"http://{text}/", f"http://{text}:8080"):
        key = host_key(url)
        assert key is None or (is_key(key) and not key.startswith("_"))


@given(st.text(max_size=60))
def test_a_key_read_as_a_host_again_is_the_same_key(text: str) -> None:
    key = host_key(f"http://{text}/")
    if key is not None and not key.startswith("host:") and ":x" not in key:
        assert host_key(f"http://{key}/") == key


@given(SITES, RULES, ASSIGNED)
def test_every_site_gets_a_group_and_a_host_only_one(
    sites: list[SiteFacts], rules: list[Rule], assigned: dict[str, str]
) -> None:
    found = resolve_all(sites, rules, assigned)
    assert set(found) == {site.site_code for site in sites}
    groups: dict[str, set[str]] = {}
    for site in sites:
        assert is_key(found[site.site_code].group)
        host = host_key(site.base_url)
        if host is not None:
            groups.setdefault(host, set()).add(found[site.site_code].group)
    assert all(len(group) == 1 for group in groups.values())


@given(SITES, RULES, ASSIGNED, st.randoms(use_true_random=False))
def test_the_order_of_the_sites_does_not_matter(
    sites: list[SiteFacts], rules: list[Rule], assigned: dict[str, str], random: object
) -> None:
    shuffled = list(sites)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert resolve_all(shuffled, rules, assigned) == resolve_all(sites, rules, assigned)


@given(SITES, RULES, ASSIGNED)
def test_a_site_leaves_its_own_group_only_for_a_stronger_rule_of_its_host(
    sites: list[SiteFacts], rules: list[Rule], assigned: dict[str, str]
) -> None:
    found = resolve_all(sites, rules, assigned)
    for site in sites:
        alone = resolve(site, assigned.get(site.site_code), rules)
        together = found[site.site_code]
        assert together.strength >= alone.strength
        if together.group != alone.group:
            assert together.note and host_key(site.base_url) is not None


@given(SITES, RULES, ASSIGNED)
def test_loading_the_same_again_changes_nothing(
    sites: list[SiteFacts], rules: list[Rule], assigned: dict[str, str]
) -> None:
    first = resolve_all(sites, rules, assigned)
    kept = {code: (each.group, each.rule_text) for code, each in first.items()}
    assert resolve_all(sites, rules, assigned, kept) == first
