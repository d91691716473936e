"""Where the rules meet the store: the groups of all sites, whether a file describes them or the database knows them.

The group is stored on the site's row when sites are loaded or assigned, so nothing is resolved at submit or claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from config.errors import BadInput
from models.catalogue import Catalogue, CataloguePlan, Choice, Choose, LoadReport, SitePlan, Standing, TargetPlan
from models.operations import Operator
from routing.guests import refusals
from routing.keys import key_problem, site_key
from routing.rules import Rule, SiteFacts, resolve_all


class Described(Protocol):
    """What a file of sites says, as far as the catalogue is concerned."""

    @property
    def sites(self) -> Sequence[SitePlan]:
        """Its sites."""

    @property
    def targets(self) -> Sequence[TargetPlan]:
        """The targets of all its sites."""

    @property
    def rules(self) -> Sequence[Rule]:
        """Its group rules, in order."""

    @property
    def schedule(self) -> ScheduleSection:
        """What it says about the entries of the schedule."""


class ScheduleSection(Protocol):
    """The section `schedule` of a file."""

    def documents(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is to be stored, by the names of entries."""


def plan(described: Described) -> CataloguePlan:
    """Return what `Catalogue.load` is to carry out, with the groups found by the rules of the file (rule R1)."""
    return CataloguePlan(described.sites, described.targets, chooser(described.rules),
                         partial(refusals, rules=tuple(described.rules)), described.schedule.documents())


def chooser(rules: Sequence[Rule] = ()) -> Choose:
    """Return the function that finds the groups of all sites together under `rules`."""

    def choose(standings: Sequence[Standing]) -> Mapping[str, Choice]:
        facts = [SiteFacts(site.site_code, site.base_url, site.cms_adapter) for site in standings]
        assigned = {site.site_code: site.assigned for site in standings if site.assigned}
        kept = {site.site_code: (site.group, site.rule) for site in standings if site.group and site.rule}
        found = resolve_all(facts, rules, assigned, kept)
        return {code: Choice(each.group, each.rule_text, each.note) for code, each in found.items()}

    return choose


def assign(catalogue: Catalogue, site_code: str, group: str | None, by: Operator | None = None) -> LoadReport:
    """Assign a site to a group by hand (None: no longer); raises BadInput for an unknown site or an unusable key."""
    problem = key_problem(group) if group is not None else None
    if problem is not None:
        raise BadInput(f"group key {problem}")
    return catalogue.assign(site_code, group, chooser(), by, refusals)


def groups(catalogue: Catalogue, site_code: str | None = None) -> list[dict[str, Any]]:
    """Return site, group and the rule that decided, of all sites or of one; an unknown site has a lane of its own."""
    found = catalogue.groups(site_code)
    if site_code is not None and not found:
        return [{"site_code": site_code, "group": site_key(site_code), "rule": "site: unknown"}]
    return found
