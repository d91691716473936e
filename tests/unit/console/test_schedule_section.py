"""The section `schedule` of sites.yaml: what is accepted, and how mistakes are told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from config.errors import BadInput
from console.sites_file import ScheduleOverrides, SitesFile, read_sites_file

SITES = """\
sites:
  - site_code: lake
    base_url: http://lake.test
    cms_adapter: list
    targets: [{target_code: lake_news, options: {list_url: /, item: li, link: a@href}}]
"""


def read(folder: Path, entries: str, *, timezone: str = "Asia/Shanghai") -> SitesFile:
    """Read a file with these entries; the first of them stands on line 9."""
    lines = "".join(f"    {line}\n" for line in entries.splitlines())
    (folder / "sites.yaml").write_text(f"{SITES}schedule:\n  timezone: {timezone}\n  entries:\n{lines}")
    return read_sites_file(folder / "sites.yaml")


def refused(folder: Path, entries: str, **how: str) -> list[str]:
    """Return the problems of a file, each without the folder."""
    with pytest.raises(BadInput) as caught:
        read(folder, entries, **how)
    return [line.removeprefix(f"{folder}/sites.yaml:") for line in str(caught.value).splitlines()]


@pytest.mark.parametrize(("written", "kept"), [
    ('at: "23:15"', {"at": ["23:15"]}),
    ("at: 23:15", {"at": ["23:15"]}),
    ("at: 7:05:30", {"at": ["07:05:30"]}),
    ("at: [18:30, 6:30]", {"at": ["06:30", "18:30"]}),
    ("every: 1h", {"every": 3600}),
    ("every: 90", {"every": 90}),
    ("quiet: [23:00, 01:00]", {"quiet": ["23:00", "01:00"]}),
    ("quiet: none", {"quiet": None}),
    ("overlap: next", {"overlap": "next"}),
    ("catch_up: 2h", {"catch_up": 7200.0}),
    ("catch_up: 0", {"catch_up": 0.0}),
    ("catch_up: 12:00", {"catch_up": "12:00"}),
    ("retry_after: 30s", {"retry_after": 30.0}),
    ("enabled: false", {"enabled": False}),
    ("priority: -3", {"priority": -3}),
])
def test_an_override_keeps_what_the_file_says(tmp_path: Path, written: str, kept: dict[str, Any]) -> None:
    assert read(tmp_path, f"snapshot: {{{written}}}").schedule.entries == {"snapshot": kept}


@pytest.mark.parametrize(("written", "kept"), [
    ("crawl: lake_*", {"task": "crawl", "targets": ["lake_*"]}),
    ("crawl: [lake_news, lake_*]", {"task": "crawl", "targets": ["lake_news", "lake_*"]}),
    ("crawl: {sites: [la*]}", {"task": "crawl", "sites": ["la*"]}),
    ("crawl: {targets: '*_news', sites: [lake]}", {"task": "crawl", "targets": ["*_news"], "sites": ["lake"]}),
    ("task: ratelane.export, args: [lake_news]", {"task": "call", "call": "ratelane.export", "args": ["lake_news"]}),
    ("task: celery.backend_cleanup", {"task": "call", "call": "celery.backend_cleanup", "args": []}),
])
def test_an_entry_of_ones_own_names_its_work(tmp_path: Path, written: str, kept: dict[str, Any]) -> None:
    found = read(tmp_path, f"mine: {{{written}, at: 06:30}}")
    assert found.schedule.entries == {"mine": {**kept, "at": ["06:30"]}}
    assert found.warnings == ()


def test_a_task_of_an_installed_package_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tidying.py").write_text("from celery import shared_task\n\n@shared_task\ndef tidy(): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        found = read(tmp_path, "mine: {task: tidying.tidy, every: 1h}")
        assert found.schedule.entries["mine"]["call"] == "tidying.tidy"
    finally:
        sys.modules.pop("tidying", None)


@pytest.mark.parametrize(("entries", "problem"), [
    ("snapshots: {at: 23:15}", "9: schedule.entries.snapshots: is no built-in entry; did you mean snapshot"),
    ("mine: {at: 23:15}", "9: schedule.entries.mine: is no built-in entry; there are: snapshot, "),
    ("vitals:\n  evry: 5m", "10: schedule.entries.vitals.evry: is no known key; did you mean every?"),
    ("vitals: {crawl: lake_*}", "9: schedule.entries.vitals.crawl: is no known key; there are: at, every, "),
    ("mine: {crawl: lake_*, tsk: x, every: 1h}", "9: schedule.entries.mine.tsk: is no known key; did you mean task?"),
    ("'a b': {crawl: lake_*, every: 1h}", "9: schedule.entries.a b: must be 1 to 100 of A-Z a-z 0-9 . _ -"),
    ("vitals: 5m", "9: schedule.entries.vitals: must be a mapping, such as {at: \"23:15\"} (is the text '5m')"),
    ("vitals:", "9: schedule.entries.vitals: must be a mapping"),
    ("vitals: {every: 5m}\nvitals: {every: 6m}", "10: schedule.entries.vitals: stands twice, first on line 9"),
    ("vitals:\n  at: 23:15\n  every: 5m", "11: schedule.entries.vitals.every: stands beside `at`; an entry has times or an"),
    ("mine: {crawl: lake_*}", "9: schedule.entries.mine: needs `at` or `every`"),
    ("snapshot: {at: 2315}", "9: schedule.entries.snapshot.at: must be a time of the day, such as \"23:15\" (is the number 2315)"),
    ("snapshot: {at: 24:00}", "9: schedule.entries.snapshot.at: must be a time of the day, such as \"23:15\" (is the text '24:00')"),
    ("snapshot: {at: 23:60}", "9: schedule.entries.snapshot.at: must be a time of the day"),
    ("snapshot: {at: noon}", "9: schedule.entries.snapshot.at: must be a time of the day"),
    ("snapshot: {at: []}", "9: schedule.entries.snapshot.at: must be a time of the day"),
    ("snapshot: {at: }", "9: schedule.entries.snapshot.at: must be a time of the day"),
    ("snapshot:\n  at:\n    - 23:15\n    - 25:00", "12: schedule.entries.snapshot.at: must be a time of the day"),
    ("snapshot: {at: [7:00, 07:00]}", "9: schedule.entries.snapshot.at: names 07:00 twice"),
    ("vitals: {every: often}", "9: schedule.entries.vitals.every: must be a duration, such as 30m, 6h or 90s (is the text 'often')"),
    ("vitals: {every: 0}", "9: schedule.entries.vitals.every: must be whole seconds, from 1 s to a day (is 0)"),
    ("vitals: {every: 25h}", "9: schedule.entries.vitals.every: must be whole seconds, from 1 s to a day (is 25h)"),
    ("vitals: {every: 1.5}", "9: schedule.entries.vitals.every: must be whole seconds, from 1 s to a day (is 1.5)"),
    ("vitals: {every: true}", "9: schedule.entries.vitals.every: must be a duration"),
    ("vitals: {quiet: no}", "9: schedule.entries.vitals.quiet: must be two times of the day, such as [\"23:00\", \"01:00\"], or none"),
    ("vitals: {quiet: }", "9: schedule.entries.vitals.quiet: must be two times"),
    ("vitals: {quiet: [23:00]}", "9: schedule.entries.vitals.quiet: must be two times"),
    ("vitals: {quiet: [23:00, late]}", "9: schedule.entries.vitals.quiet: must be two times"),
    ("vitals: {quiet: [1:00, 01:00]}", "9: schedule.entries.vitals.quiet: ends where it starts, at 01:00"),
    ("vitals: {overlap: joins}", "9: schedule.entries.vitals.overlap: is no way to meet a run that is under way; did you mean join?"),
    ("vitals: {overlap: [join]}", "9: schedule.entries.vitals.overlap: must be text (is a list)"),
    ("vitals: {catch_up: -1}", "9: schedule.entries.vitals.catch_up: must be between 0 and 366 days (is -1)"),
    ("vitals: {catch_up: 12:0x}", "9: schedule.entries.vitals.catch_up: must be a duration, such as 2h, or a time of the day"),
    ("vitals: {retry_after: 12:00}", "9: schedule.entries.vitals.retry_after: must be a duration, such as 5m or 30s"),
    ("vitals: {enabled: yes}", "9: schedule.entries.vitals.enabled: must be true or false (is the text 'yes')"),
    ("vitals: {priority: high}", "9: schedule.entries.vitals.priority: must be a whole number (is the text 'high')"),
    ("vitals: {priority: 1.5}", "9: schedule.entries.vitals.priority: must be a whole number (is the number 1.5)"),
    ("vitals: {priority: 2000000}", "9: schedule.entries.vitals.priority: must be -1000000 to 1000000 (is 2000000)"),
    ("mine: {crawl: [], every: 1h}", "9: schedule.entries.mine.crawl: names no targets and no sites"),
    ("mine: {crawl: , every: 1h}", "9: schedule.entries.mine.crawl: names no targets and no sites"),
    ("mine: {crawl: {site: x}, every: 1h}", "9: schedule.entries.mine.crawl.site: is no known key; did you mean sites?"),
    ("mine: {crawl: x, task: y, every: 1h}", "9: schedule.entries.mine.task: stands beside `crawl`; an entry does one of them"),
    ("mine: {crawl: lake_*, args: [1], every: 1h}", "9: schedule.entries.mine.args: belongs to a `task`"),
    ("mine: {task: ratelane.exprt, every: 1h}", "9: schedule.entries.mine.task: no task is called 'ratelane.exprt'; did you mean ratelane.export?"),
    ("mine: {task: no_such_package.tidy, every: 1h}", "9: schedule.entries.mine.task: no task is called 'no_such_package.tidy'; "),
    ("mine: {task: ratelane.export, args: x, every: 1h}", "9: schedule.entries.mine.args: must be a list (is the text 'x')"),
])
def test_a_mistake_is_told_with_line_and_key(tmp_path: Path, entries: str, problem: str) -> None:
    assert any(line.startswith(problem) for line in refused(tmp_path, entries)), refused(tmp_path, entries)


def test_all_mistakes_of_the_section_are_told_at_once(tmp_path: Path) -> None:
    found = refused(tmp_path, "vitals: {every: often, overlap: both}\nsnapshot: {at: 25:00}", timezone="Asia/Shanghia")
    assert [line.partition(": ")[2].partition(":")[0] for line in found] == [
        "schedule.timezone", "schedule.entries.vitals.every", "schedule.entries.vitals.overlap", "schedule.entries.snapshot.at"]


def test_globs_that_match_nothing_and_steps_that_do_not_divide_a_day_are_warned_about(tmp_path: Path) -> None:
    found = read(tmp_path, "mine: {crawl: {targets: [lake_*, sea_*]}, every: 7h}").warnings
    assert [warning.removeprefix(f"{tmp_path}/") for warning in found] == [
        "sites.yaml:9: schedule.entries.mine.crawl.targets: 'sea_*' matches none of the targets of this file",
        "sites.yaml:9: schedule.entries.mine.every: does not divide the day: it starts anew at 00:00",
    ]


def test_a_file_without_the_section_says_nothing_of_the_schedule(tmp_path: Path) -> None:
    (tmp_path / "sites.yaml").write_text(SITES)
    assert read_sites_file(tmp_path / "sites.yaml").schedule == ScheduleOverrides()
    assert ScheduleOverrides().documents() == {}


def test_the_zone_is_kept_for_all_entries(tmp_path: Path) -> None:
    assert read(tmp_path, "vitals: {every: 5m}").schedule.documents() == {
        "": {"timezone": "Asia/Shanghai"}, "vitals": {"every": 300}}
