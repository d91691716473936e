"""From the file to `SitesFile`: which keys there are, what they mean, and everything that is wrong, at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel

from console.sites_file.document import Problems, compose
from console.sites_file.entry import Entry, Seen
from console.sites_file.options import check_options, find_options
from console.sites_file.schedule import Codes, read_schedule
from console.sites_file.shape import SitesFile
from console.sites_file.site import SITE_KEYS, read_site_options
from models.catalogue import SitePlan, TargetPlan
from routing.keys import host_key, key_problem, site_key
from routing.rules import Rule

_FILE = ("defaults", "rate_groups", "sites", "schedule")
_DEFAULTS = ("interval_sec", "track_checkpoint")
_RULE = ("key", "host", "adapter", "site")
_SITE = ("site_code", "name", "base_url", "cms_adapter", *SITE_KEYS, "targets")
_TARGET = ("target_code", "name", "interval_sec", "track_checkpoint", "enabled", "options")


@dataclass
class _Reading:
    """What has been read so far."""

    problems: Problems
    interval_sec: float
    track_checkpoint: bool = True
    sites: list[SitePlan] = field(default_factory=list)
    targets: list[TargetPlan] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    site_codes: Seen = field(default_factory=Seen)
    target_codes: Seen = field(default_factory=Seen)

    def warn(self, entry: Entry, name: str, text: str) -> None:
        self.warnings.append(f"{self.problems.path}:{entry.line(name)}: {entry.key(name)}: {text}")


def read_sites_file(path: Path, *, default_interval_sec: float = 10.0) -> SitesFile:
    """Return what the file at `path` says; targets that name no interval get the file's default or the given one.

    Raises BadInput: up to 20 problems at once, one a line, each as ``file:line: key: what is wrong``.
    """
    problems = Problems(path)
    root = Entry(compose(path), "", _FILE, problems)
    reading = _Reading(problems, default_interval_sec)
    _defaults(root, reading)
    rules = _rules(root, problems)
    for at, node in root.items("sites"):
        _site(Entry(node, f"sites[{at}]", _SITE, problems), reading)
    if isinstance(root.node, yaml.MappingNode) and not root.has("sites"):
        root.problem("sites", "is required")
    codes = Codes(frozenset(target.target_code for target in reading.targets),
                  frozenset(site.site_code for site in reading.sites))
    schedule = read_schedule(root, problems, codes, reading.warn)
    problems.raise_if_any()
    return SitesFile(path, tuple(reading.sites), tuple(reading.targets), rules, schedule, tuple(reading.warnings))


def _defaults(root: Entry, reading: _Reading) -> None:
    node = root.child("defaults")
    if node is not None:
        entry = Entry(node, "defaults", _DEFAULTS, reading.problems)
        reading.interval_sec = entry.seconds("interval_sec", reading.interval_sec)
        reading.track_checkpoint = bool(entry.flag("track_checkpoint", True))


def _rules(root: Entry, problems: Problems) -> tuple[Rule, ...]:
    found = []
    for at, node in root.items("rate_groups"):
        entry = Entry(node, f"rate_groups[{at}]", _RULE, problems)
        key = entry.text("key")
        problem = key_problem(key)
        if problem is not None and entry.has("key"):
            entry.problem("key", problem)
        if isinstance(node, yaml.MappingNode) and not any(entry.has(name) for name in _RULE[1:]):
            problems.add(node, entry.where, "names neither host, adapter nor site")
        found.append(Rule(key, entry.text("host", "*"), entry.text("adapter", "*"), entry.text("site", "*")))
    return tuple(found)


def _site(entry: Entry, reading: _Reading) -> None:
    code = entry.code("site_code")
    reading.site_codes.first(entry, "site_code", code)
    base_url, adapter = entry.text("base_url"), entry.text("cms_adapter")
    if entry.has("base_url") and host_key(base_url) is None:
        reading.warn(entry, "base_url", f"is no usable http(s) address; the site gets a lane of its own, {site_key(code)}")
    elif "@" in urlsplit(base_url).netloc:
        entry.problem("base_url", "must not hold a user or a password: `basic_auth` is the place")
    model = find_options(adapter) if adapter else ""
    if isinstance(model, str):
        if model:
            entry.problem("cms_adapter", model)
        model = _Anything
    options = read_site_options(entry, reading.warn)
    reading.sites.append(SitePlan(code, base_url, adapter, entry.text("name", ""), options))
    for at, node in entry.items("targets"):
        _target(Entry(node, f"{entry.where}.targets[{at}]", _TARGET, reading.problems), code, model, reading)


class _Anything(BaseModel, extra="allow"):
    """The options of an adapter that does not exist: nothing to say about them."""


def _target(entry: Entry, site_code: str, model: type[BaseModel], reading: _Reading) -> None:
    code = entry.code("target_code")
    reading.target_codes.first(entry, "target_code", code)
    reading.targets.append(
        TargetPlan(
            target_code=code, site_code=site_code, name=entry.text("name", ""),
            interval_sec=entry.seconds("interval_sec", reading.interval_sec),
            track_checkpoint=bool(entry.flag("track_checkpoint", reading.track_checkpoint)),
            enabled=entry.flag("enabled", None), options=check_options(entry, model),
        )
    )
