"""Which rate group a site belongs to, and which rule said so (rule R1). Facts in, a frozen value with its reason out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from routing.keys import host_glob, host_key, host_of, site_key

BUILT_IN_GROUP = "gd_gkmlpt_shared"
BUILT_IN_TEXT = "built-in: adapter gkmlpt and host gd.gov.cn or *.gd.gov.cn"

#: how strong the ways of finding a group are; of two rules of the file the earlier one is the stronger
ASSIGNED, RULE, BUILT_IN, HOST, SITE = 4, 3, 2, 1, 0

Strength = tuple[int, int]


@dataclass(frozen=True)
class SiteFacts:
    """What decides about the group of a site."""

    site_code: str
    base_url: str
    adapter: str


@dataclass(frozen=True)
class Rule:
    """One group rule of the file: all its globs must match; `*` stands for whatever there is."""

    key: str
    host: str = "*"
    adapter: str = "*"
    site: str = "*"

    def matches(self, site: SiteFacts, host: str | None) -> bool:
        """Say whether `site` at `host` (no port) is meant; without a usable host only a rule that names sites can."""
        if host is None and (self.host != "*" or self.site == "*"):
            return False
        glob = host_glob(self.host)
        at_host = host is None or host == glob or fnmatchcase(host, glob)
        return at_host and fnmatchcase(site.adapter, self.adapter) and fnmatchcase(site.site_code, self.site)

    def text(self) -> str:
        """The rule's conditions in words; those that hold for everything are left out."""
        named = [f"{name} {glob}" for name, glob in self._conditions() if glob != "*"]
        return ", ".join(named) or "every site"

    def _conditions(self) -> list[tuple[str, str]]:
        return [("host", self.host), ("adapter", self.adapter), ("site", self.site)]


@dataclass(frozen=True)
class Resolution:
    """The group of a site, the rule that decided in words, and what is to be said about it.

    The greater `strength` wins where sites of one host disagree.
    """

    group: str
    rule_text: str
    strength: Strength
    note: str = ""


def resolve(site: SiteFacts, assigned: str | None, rules: Sequence[Rule]) -> Resolution:
    """Return the group of one site, first match wins: assignment, the file's rules, the built-in rule, the host."""
    if assigned:
        return Resolution(assigned, "assigned: groups assign", (ASSIGNED, 0))
    host = host_of(site.base_url)
    for position, rule in enumerate(rules, start=1):
        if rule.matches(site, host):
            return Resolution(rule.key, f"rule {position}: {rule.text()}", (RULE, -position))
    if host is not None and site.adapter == "gkmlpt" and (host == "gd.gov.cn" or host.endswith(".gd.gov.cn")):
        return Resolution(BUILT_IN_GROUP, BUILT_IN_TEXT, (BUILT_IN, 0))
    key = host_key(site.base_url)
    if key is None:
        return Resolution(site_key(site.site_code), "site: base_url names no usable host", (SITE, 0))
    return Resolution(key, f"host: {key}", (HOST, 0))


def resolve_all(
    sites: Iterable[SiteFacts],
    rules: Sequence[Rule],
    assigned: Mapping[str, str] | None = None,
    kept: Mapping[str, tuple[str, str]] | None = None,
) -> dict[str, Resolution]:
    """Return the resolution of every site by its code; sites of one host always share a group (rule R1).

    `assigned` holds explicit assignments by site code. `kept` holds (group, rule text) of stored sites that the file
    does not describe: a rule of the file that put them there stays in force unless a stronger one is found now.
    """
    facts = sorted(sites, key=lambda site: site.site_code)
    own = {site.site_code: _with_kept(resolve(site, (assigned or {}).get(site.site_code), rules),
                                      (kept or {}).get(site.site_code)) for site in facts}
    by_host: dict[str, list[str]] = defaultdict(list)
    for site in facts:
        key = host_key(site.base_url)
        if key is not None:
            by_host[key].append(site.site_code)
    for host, codes in by_host.items():
        _unite(host, codes, own)
    return own


def _unite(host: str, codes: Sequence[str], found: dict[str, Resolution]) -> None:
    """Give all sites of one host the group of the strongest rule among them, and say so."""
    leader = max(codes, key=lambda code: found[code].strength)
    best = found[leader]
    for code in codes:
        mine = found[code]
        if mine.group != best.group:
            text = f"{best.rule_text}{_FOLLOWS} {leader} at {host}, which itself says {mine.group})"
            note = (f"site {code}: group {best.group} instead of {mine.group} ({mine.rule_text}), because site {leader} "
                    f"has the same host {host} and a stronger rule ({best.rule_text})")
            found[code] = replace(best, rule_text=text, note=note)


_FOLLOWS = " (follows site"
_KEPT = re.compile(r"rule (\d+): ")


def _with_kept(found: Resolution, kept: tuple[str, str] | None) -> Resolution:
    if kept is None or found.strength >= (RULE, -1_000_000):
        return found
    group, text = kept
    match = _KEPT.match(text)
    if match is None or _FOLLOWS in text:
        return found
    return Resolution(group, text, (RULE, -int(match[1])))
