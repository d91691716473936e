"""How many slots `ratelane crawl` gives its workers (rule R6, ADR 30)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from console.cli.crawling import MOST_SLOTS, slots_of_each
from console.sites_file import SitesFile, read_sites_file


def described(sites: int, folder: Path) -> SitesFile:
    """Return a file of so many sites."""
    path = folder / "sites.yaml"
    path.write_text(yaml.safe_dump({"sites": [
        {"site_code": f"s{place}", "name": "S", "base_url": f"http://s{place}.example.org", "cms_adapter": "list", "targets": [
            {"target_code": f"t{place}", "name": "T", "options": {"list_url": "/", "item": "li", "link": "a@href"}}]}
        for place in range(sites)]}))
    return read_sites_file(path)


@pytest.mark.parametrize(("sites", "workers", "each"), [(1, 1, 1), (50, 1, 50), (50, 2, 25), (5, 2, 3), (1, 4, 1)])
def test_workers_together_have_a_slot_for_every_group_and_none_could_take_all(
    sites: int, workers: int, each: int, tmp_path: Path
) -> None:
    found = slots_of_each(described(sites, tmp_path), workers)

    assert found == each
    assert found * workers >= sites


def test_slots_are_threads_and_have_a_bound(tmp_path: Path) -> None:
    assert slots_of_each(described(2 * MOST_SLOTS + 2, tmp_path), 2) == MOST_SLOTS
