"""Allowed hosts of targets against everything that is stored: nothing is half accepted (rules P3, R1)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from sqlalchemy import select

from config.errors import BadInput
from console.sites_file import ScheduleOverrides
from models.catalogue import Catalogue, SitePlan, TargetPlan
from models.db import Database
from models.queries.crawling import allowed_hosts
from models.sites import sites
from routing import resolver
from routing.rules import Rule


@dataclass
class File:
    """What a file could say."""

    sites: tuple[SitePlan, ...]
    targets: tuple[TargetPlan, ...]
    rules: tuple[Rule, ...] = ()
    schedule: ScheduleOverrides = field(default_factory=ScheduleOverrides)


def file(code: str, *hosts: str) -> File:
    """Describe one site at http://<code>.test, whose target may fetch from `hosts` too."""
    return File((SitePlan(code, f"http://{code}.test", "list"),), (TargetPlan(f"{code}_news", code, options={"allowed_hosts": list(hosts)}),))


def load(database: Database, described: File) -> None:
    Catalogue(database).load(resolver.plan(described))


def test_a_load_that_allows_a_host_of_another_group_changes_nothing(database: Database) -> None:
    load(database, file("lake"))
    with pytest.raises(BadInput, match=r"target town_news \(group town.test\) may not name lake.test in allowed_hosts"):
        load(database, file("town", "cdn.test", "lake.test"))
    with database.read() as conn:
        assert "town" not in set(conn.scalars(select(sites.c.site_code)))


def test_a_site_that_comes_later_cannot_take_a_host_that_a_target_of_another_group_fetches_from(database: Database) -> None:
    load(database, file("town", "lake.test"))
    with pytest.raises(BadInput, match=r"lake\.test is the host of site lake in group lake\.test"):
        load(database, file("lake"))


def test_an_assignment_that_would_part_a_target_from_its_hosts_is_refused(database: Database) -> None:
    both = file("town", "lake.test"), file("lake")
    load(database, File((*both[0].sites, *both[1].sites), (*both[0].targets, *both[1].targets), (Rule("waf", host="*.test"),)))
    with pytest.raises(BadInput, match=r"may not name lake\.test"):
        resolver.assign(Catalogue(database), "lake", "elsewhere")
    with database.read() as conn:
        assert set(conn.scalars(select(sites.c.group_key).where(sites.c.site_code == "lake"))) == {"waf"}
        assert allowed_hosts(conn, "waf") == {"lake.test"}
        assert allowed_hosts(conn, "g1") == set()
