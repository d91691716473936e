"""What a file says about the schedule is stored with its sites, on both databases (design, section 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from config.errors import BadInput
from console.sites_file import read_sites_file
from models.catalogue import Catalogue, LoadReport
from models.db import Database
from models.schedules import schedule_config
from routing import resolver

SITES = "sites:\n  - {site_code: lake, base_url: http://lake.test, cms_adapter: list}\n"


class Loader:
    """Loads files with a section `schedule` into one database."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.file = database, folder / "sites.yaml"

    def load(self, schedule: str, **how: bool) -> LoadReport:
        self.file.write_text(SITES + schedule)
        return Catalogue(self.database).load(resolver.plan(read_sites_file(self.file)), **how)

    def stored(self) -> dict[str, Any]:
        with self.database.read() as conn:
            return {row.name: row.document for row in conn.execute(select(schedule_config))}


@pytest.fixture
def loader(database: Database, tmp_path: Path) -> Loader:
    return Loader(database, tmp_path)


def test_the_section_is_stored_and_told(loader: Loader) -> None:
    report = loader.load("schedule: {timezone: Europe/Berlin, entries: {snapshot: {at: 22:00, quiet: none}}}\n")
    assert loader.stored() == {"": {"timezone": "Europe/Berlin"}, "snapshot": {"at": ["22:00"], "quiet": None}}
    assert report.changed[1:] == ["schedule: timezone Europe/Berlin", "entry snapshot: at 22:00", "entry snapshot: quiet none"]


def test_a_second_load_of_the_same_file_changes_nothing(loader: Loader) -> None:
    section = "schedule: {entries: {vitals: {every: 15m, retry_after: 30s, catch_up: '12:00'}}}\n"
    loader.load(section)
    before = loader.stored()
    assert loader.load(section).changed == []
    assert loader.stored() == before


def test_what_the_file_no_longer_says_is_removed_and_told(loader: Loader) -> None:
    loader.load("schedule: {entries: {snapshot: {at: 22:00, priority: 5}, tidy: {crawl: [lake_*], every: 2h}}}\n")
    report = loader.load("schedule: {entries: {snapshot: {at: [22:30, 10:00]}}}\n")
    assert report.changed == ["entry snapshot: at 22:00 → 10:00, 22:30", "entry snapshot: priority no longer 5",
                              "entry tidy: removed"]
    assert loader.load("").changed == ["entry snapshot: at no longer 10:00, 22:30"]
    assert loader.stored() == {}


def test_an_entry_of_ones_own_is_added(loader: Loader) -> None:
    report = loader.load("schedule: {entries: {tidy: {crawl: [lake_*], every: 2h}}}\n")
    assert report.changed[-1] == "entry tidy: added"
    assert loader.stored() == {"tidy": {"task": "crawl", "targets": ["lake_*"], "every": 7200}}


def test_a_dry_run_tells_what_would_change_and_stores_nothing(loader: Loader) -> None:
    report = loader.load("schedule: {entries: {snapshot: {at: 22:00}}}\n", dry_run=True)
    assert report.changed[-1] == "entry snapshot: at 22:00"
    assert loader.stored() == {}


def test_a_load_that_is_refused_stores_nothing_of_the_section(loader: Loader) -> None:
    with pytest.raises(BadInput, match="did you mean snapshot"):
        loader.load("schedule: {entries: {vitals: {every: 5m}, snapshots: {at: 22:00}}}\n")
    assert loader.stored() == {}


def test_an_assignment_leaves_what_is_stored(loader: Loader) -> None:
    loader.load("schedule: {entries: {snapshot: {at: 22:00}}}\n")
    resolver.assign(Catalogue(loader.database), "lake", "mine")
    assert loader.stored() == {"snapshot": {"at": ["22:00"]}}
