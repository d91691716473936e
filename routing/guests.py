"""Hosts that a target may fetch from beside its group's own, and why a group may not have one (rules P3, R1). Pure.

A host belongs to one group: two groups would keep two intervals, and hit it at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from models.catalogue import Guests, Standing
from routing.keys import host_key, host_of
from routing.rules import BUILT_IN, RULE, Rule, SiteFacts, resolve


@dataclass(frozen=True)
class _Claim:
    """One allowed host of one target."""

    target_code: str
    group: str
    adapter: str
    host: str

    def covers(self, key: str, bare: str) -> bool:
        """Say whether a host is meant; a glob stands for every port."""
        return fnmatchcase(bare, self.host) if _is_glob(self.host) else key == self.host

    def text(self) -> str:
        return f"target {self.target_code} (group {self.group}) may not name {self.host} in allowed_hosts"


def refusals(standings: Sequence[Standing], guests: Sequence[Guests], rules: Sequence[Rule] = ()) -> list[str]:
    """Return a sentence for every allowed host that belongs to another group: by a site, a rule, or another target."""
    sites = {site.site_code: site for site in standings}
    claims = [
        _Claim(each.target_code, home.group or "", home.cms_adapter, host)
        for each in guests if (home := sites.get(each.site_code)) is not None for host in each.hosts
    ]
    found = [*_by_sites(claims, standings), *_by_rules(claims, rules), *_by_each_other(claims)]
    return list(dict.fromkeys(found))


def _by_sites(claims: Sequence[_Claim], standings: Iterable[Standing]) -> Iterator[str]:
    if not claims:
        return
    hosts = [(host_key(site.base_url), host_of(site.base_url), site) for site in standings]
    for claim in claims:
        for key, bare, site in hosts:
            if key and bare and site.group != claim.group and claim.covers(key, bare):
                yield f"{claim.text()}: {key} is the host of site {site.site_code} in group {site.group}"


def _by_rules(claims: Iterable[_Claim], rules: Sequence[Rule]) -> Iterator[str]:
    of_hosts = [rule for rule in rules if rule.host != "*"]
    for claim in claims:
        if not _is_glob(claim.host):
            found = resolve(SiteFacts("", f"http://{claim.host}", claim.adapter), None, of_hosts)
            if found.strength[0] in (RULE, BUILT_IN) and found.group != claim.group:
                yield f"{claim.text()}: a rule puts that host into group {found.group}"


def _by_each_other(claims: Sequence[_Claim]) -> Iterator[str]:
    for at, claim in enumerate(claims):
        for other in claims[:at]:
            if other.group != claim.group and _overlap(claim.host, other.host):
                yield f"{claim.text()}: target {other.target_code} of group {other.group} names {other.host} as well"


def _overlap(one: str, other: str) -> bool:
    return one == other or fnmatchcase(one, other) or fnmatchcase(other, one)


def _is_glob(text: str) -> bool:
    return "*" in text or "?" in text
