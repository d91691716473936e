"""Pure: what a file wants of sites and targets, compared with what is stored. `models.catalogue` carries it out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from config.errors import BadInput
from models.catalogue_schedule import Documents, ScheduleDifference, compare_schedule

Row = dict[str, Any]
_MOST_PROBLEMS = 20
#: the columns that a file decides; everything else in the rows was learned
SITE_COLUMNS = (
    "site_code", "name", "base_url", "cms_adapter", "group_key", "group_rule", "assigned_group", "options",
)
TARGET_COLUMNS = (
    "target_code", "site_code", "name", "interval_sec", "track_checkpoint", "enabled", "options", "options_hash",
)


@dataclass(frozen=True)
class SitePlan:
    """A site as the file describes it; `options` holds what is sent and judged differently there."""

    site_code: str
    base_url: str
    cms_adapter: str
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetPlan:
    """A target as the file describes it; `enabled` None leaves a stored target as it is."""

    target_code: str
    site_code: str
    name: str = ""
    interval_sec: float = 10.0
    track_checkpoint: bool = True
    enabled: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Standing:
    """A site as it will stand, for whoever chooses its group; `group` and `rule` are the stored ones of a site that
    the file does not describe, None otherwise."""

    site_code: str
    base_url: str
    cms_adapter: str
    assigned: str | None = None
    group: str | None = None
    rule: str | None = None


@dataclass(frozen=True)
class Choice:
    """The group that was chosen for a site, by which rule, and what is to be said about it."""

    group: str
    rule: str
    note: str = ""


Choose = Callable[[Sequence[Standing]], Mapping[str, Choice]]


@dataclass(frozen=True)
class Guests:
    """The hosts that a target may fetch from beside those of its group (rule P3)."""

    target_code: str
    site_code: str
    hosts: tuple[str, ...]


#: says of sites as they will stand, each with its group, and of the guests of all targets, what cannot be, in sentences
Refuse = Callable[[Sequence[Standing], Sequence[Guests]], Sequence[str]]


def refuse_nothing(_standings: Sequence[Standing], _guests: Sequence[Guests]) -> Sequence[str]:
    """Accept everything."""
    return ()


@dataclass(frozen=True)
class CataloguePlan:
    """Everything a file says, and the function that finds the groups: asked inside the transaction, about the stored
    sites too, because sites of one host share a group (rule R1)."""

    sites: Sequence[SitePlan]
    targets: Sequence[TargetPlan]
    choose: Choose
    refuse: Refuse = refuse_nothing
    #: documents about schedule entries by name; None leaves what is stored
    schedule: Documents | None = None


@dataclass(frozen=True)
class Stored:
    """The rows of sites and targets by their codes, and the documents about schedule entries by name."""

    sites: Mapping[str, Row]
    targets: Mapping[str, Row]
    schedule: Documents = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """What has to be written, and what it means in words."""

    new_sites: list[Row] = field(default_factory=list)
    changed_sites: list[Row] = field(default_factory=list)
    new_targets: list[Row] = field(default_factory=list)
    changed_targets: list[Row] = field(default_factory=list)
    #: site codes with the old and the new group
    moves: list[tuple[str, str, str]] = field(default_factory=list)
    #: target codes that change their site, with the old and the new site
    rehomed: list[tuple[str, str, str]] = field(default_factory=list)
    disabled: list[str] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    schedule: ScheduleDifference = field(default_factory=ScheduleDifference)
    changed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def options_hash(adapter: str, base_url: str, options: Mapping[str, Any]) -> str:
    """Return the hash under which a checkpoint is valid: other options, adapter or address restart the walk."""
    told = {"adapter": adapter, "base_url": base_url, "options": options}
    text = json.dumps(told, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def compare(
    stored: Stored, plan: CataloguePlan, *, prune: bool = False, assigned: Mapping[str, str | None] | None = None
) -> Difference:
    """Return what `plan` changes; `assigned` are new explicit assignments by site code (None lifts one).

    Raises BadInput with everything that the plan's `refuse` has to say.
    """
    wanted = _wanted_sites(stored, plan, assigned or {})
    choices = plan.choose([_standing(row) for row in wanted.values()])
    found = Difference(notes=[choices[code].note for code in sorted(choices) if choices[code].note],
                       schedule=compare_schedule(stored.schedule, plan.schedule))
    for code in sorted(wanted):
        row = {**wanted[code], "group_key": choices[code].group, "group_rule": choices[code].rule}
        found.groups[code] = row["group_key"]
        _compare_site(found, stored.sites.get(code), row)
    targets = _wanted_targets(stored, plan, wanted, prune, found)
    _refuse(plan, wanted, choices, targets)
    for code in sorted(targets):
        _compare_target(found, stored.targets.get(code), targets[code])
    found.changed.extend(found.schedule.changed)
    return found


def _refuse(plan: CataloguePlan, sites: Mapping[str, Row], choices: Mapping[str, Choice], targets: Mapping[str, Row]) -> None:
    guests = [Guests(code, row["site_code"], tuple(row["options"]["allowed_hosts"]))
              for code, row in sorted(targets.items()) if row["options"].get("allowed_hosts")]
    if guests:
        standings = [replace(_standing(row), group=choices[code].group, rule=choices[code].rule)
                     for code, row in sites.items()]
        if problems := plan.refuse(standings, guests):
            raise BadInput("\n".join(problems[:_MOST_PROBLEMS]))


def _wanted_sites(stored: Stored, plan: CataloguePlan, assigned: Mapping[str, str | None]) -> dict[str, Row]:
    wanted = {code: {name: row[name] for name in SITE_COLUMNS} for code, row in stored.sites.items()}
    for site in plan.sites:
        wanted[site.site_code] = {
            "site_code": site.site_code, "name": site.name, "base_url": site.base_url, "cms_adapter": site.cms_adapter,
            "assigned_group": stored.sites.get(site.site_code, {}).get("assigned_group"), "options": dict(site.options),
            "group_key": None, "group_rule": None,
        }
    for code, group in assigned.items():
        wanted[code]["assigned_group"] = group
    return wanted


def _standing(row: Row) -> Standing:
    return Standing(
        row["site_code"], row["base_url"], row["cms_adapter"], row["assigned_group"], row["group_key"], row["group_rule"]
    )


def _wanted_targets(
    stored: Stored, plan: CataloguePlan, sites: Mapping[str, Row], prune: bool, found: Difference
) -> dict[str, Row]:
    wanted = {code: {name: row[name] for name in TARGET_COLUMNS} for code, row in stored.targets.items()}
    planned = {target.target_code for target in plan.targets}
    for code, row in wanted.items():
        if prune and code not in planned:
            row["enabled"] = False
    for target in plan.targets:
        wanted[target.target_code] = _target_row(target, wanted.get(target.target_code), found)
    for row in wanted.values():
        site = sites.get(row["site_code"])
        if site is not None:
            row["options_hash"] = options_hash(site["cms_adapter"], site["base_url"], row["options"])
    return wanted


def _target_row(target: TargetPlan, before: Row | None, found: Difference) -> Row:
    enabled = target.enabled
    if enabled is None:
        enabled = before is None or bool(before["enabled"])
        if not enabled:
            found.notes.append(
                f"target {target.target_code} stays disabled; `ratelane targets --enable {target.target_code}` or "
                "`enabled: true` in the file changes that"
            )
    return {
        "target_code": target.target_code, "site_code": target.site_code, "name": target.name,
        "interval_sec": float(target.interval_sec), "track_checkpoint": target.track_checkpoint, "enabled": enabled,
        "options": dict(target.options), "options_hash": "",
    }


def _compare_site(found: Difference, before: Row | None, row: Row) -> None:
    code = row["site_code"]
    if before is None:
        found.new_sites.append(row)
        found.changed.append(f"site {code}: added, group {row['group_key']} ({row['group_rule']})")
    elif words := _words(before, row, SITE_COLUMNS):
        found.changed_sites.append(row)
        found.changed.extend(f"site {code}: {word}" for word in words)
        if before["group_key"] != row["group_key"]:
            found.moves.append((code, before["group_key"], row["group_key"]))


def _compare_target(found: Difference, before: Row | None, row: Row) -> None:
    code = row["target_code"]
    if before is None:
        found.new_targets.append(row)
        found.changed.append(f"target {code}: added")
        return
    words = _words(before, row, TARGET_COLUMNS)
    if not words and before["options_hash"] == row["options_hash"]:
        return
    found.changed_targets.append(row)
    found.changed.extend(f"target {code}: {word}" for word in words)
    if before["site_code"] != row["site_code"]:
        found.rehomed.append((code, before["site_code"], row["site_code"]))
    if before["enabled"] and not row["enabled"]:
        found.disabled.append(code)


_SHOWN = {"cms_adapter": "adapter", "group_key": "group", "group_rule": "rule", "assigned_group": "assigned"}


def _words(before: Row, after: Row, columns: Sequence[str]) -> list[str]:
    words = []
    for name in columns:
        old, new = before[name], after[name]
        if old == new or name == "options_hash":
            continue
        if name == "enabled":
            words.append("enabled" if new else "disabled")
        elif name == "options":
            words.append("options changed")
        else:
            words.append(f"{_SHOWN.get(name, name)} {_shown(old)} → {_shown(new)}")
    return words


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
