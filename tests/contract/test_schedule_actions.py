"""What operators do with entries, and what entries of one's own start, on both databases (rules S6, S9)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from config import clock
from config.errors import BadInput
from config.settings import Settings
from console.actions import schedule as actions
from console.sites_file import read_sites_file
from models import queries
from models.catalogue import Catalogue
from models.db import Database
from models.operations import Operator
from routing import resolver

ANN = Operator("ann@desk", "cli", "try it")
SITES = """
sites:
  - site_code: lake
    base_url: http://lake.test
    cms_adapter: list
    user_agent: "x (a@b.test)"
    targets:
      - {target_code: lake_news, options: {list_url: /, item: li, link: a@href}}
      - {target_code: lake_law, options: {list_url: /, item: li, link: a@href}}
schedule:
  entries:
    tidy: {task: tests.support.scheduled_tasks.tidy, args: [30], every: 1h, priority: 7}
    nothing: {task: tests.support.scheduled_tasks.nothing_new, every: 1h}
    broken: {task: tests.support.scheduled_tasks.broken, every: 1h}
    exported: {task: ratelane.export, args: [lake_news], every: 1h}
    gone: {task: ratelane.export, args: [sea_news], every: 1h}
    off: {crawl: lake_*, every: 1h, enabled: false}
    lake: {crawl: {targets: "*_news", sites: [lake]}, every: 1h}
"""


class Desk:
    """An operator at one database."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.db = database
        self.settings = Settings(home=folder, database_url=database.url, max_attempts=1)
        (folder / "sites.yaml").write_text(SITES)
        Catalogue(database).load(resolver.plan(read_sites_file(folder / "sites.yaml")))

    def run(self, name: str) -> dict[str, Any]:
        return actions.run_entry(self.db, self.settings, name, ANN)

    def finished(self, name: str) -> dict[str, Any]:
        run_id = self.run(name)["run_id"]
        actions.work_off(self.db, self.settings, run_id)
        return actions.run(self.db, run_id)

    def jobs(self, run_id: int) -> list[dict[str, Any]]:
        with self.db.look() as conn:
            return queries.jobs(conn, queries.JobFilter(run=run_id))


@pytest.fixture
def desk(database: Database, tmp_path: Path) -> Desk:
    return Desk(database, tmp_path)


def test_a_task_is_called_by_a_job_of_an_internal_lane(desk: Desk) -> None:
    found = desk.finished("tidy")
    assert (found["outcome"], found["ok"], found["source"]) == ("success", True, "manual")
    (job,) = desk.jobs(found["run_id"])
    assert (job["kind"], job["group"], job["status"], job["priority"]) == ("call", "_tasks", "done", 7)
    assert job["result"] == {"kept_days": 30, "outcome": "success"}
    entry = actions.entry(desk.db, desk.settings, "tidy")
    assert (entry["status"], entry["last_outcome"]["outcome"]) == ("done", "success")
    assert entry["last_success_at"] is not None


def test_the_word_of_a_task_is_that_of_its_occurrence(desk: Desk) -> None:
    found = desk.finished("nothing")
    assert (found["outcome"], found["skipped"], found["reason"]) == ("skipped", True, "nothing_new")
    assert actions.entry(desk.db, desk.settings, "nothing")["last_success_at"] is None


def test_a_task_that_fails_makes_the_run_fail_with_its_error(desk: Desk) -> None:
    found = desk.finished("broken")
    assert (found["outcome"], found["ok"], found["reason"]) == ("failed", False, "ValueError: the disk is gone")
    assert actions.entry(desk.db, desk.settings, "broken")["status"] == "failed"


def test_a_lane_task_becomes_the_job_that_it_always_is(desk: Desk) -> None:
    (job,) = desk.jobs(desk.run("exported")["run_id"])
    assert (job["kind"], job["group"], job["target_code"], job["dedupe_key"]) == (
        "export", "_export", "lake_news", "export:lake_news")
    assert desk.finished("gone")["reason"] == "no_target"


def test_an_entry_that_crawls_starts_only_what_its_globs_name(desk: Desk) -> None:
    found = desk.run("lake")
    assert found["progress"] == {"done": 0, "failed": 0, "total": 1}
    assert [(job["kind"], job["target_code"], job["source"]) for job in desk.jobs(found["run_id"])] == [
        ("crawl", "lake_news", "schedule")]


@pytest.mark.parametrize(("act", "sentence"), [
    (lambda db, settings: actions.run_entry(db, settings, "vital", ANN), "no entry is called 'vital'; the nearest one is vitals"),
    (lambda db, settings: actions.pause_entry(db, settings, "tidi", ANN), "the nearest one is tidy"),
    (lambda db, settings: actions.resume_entry(db, settings, "tidi", ANN), "the nearest one is tidy"),
    (lambda db, settings: actions.runs(db, settings, "lak"), "the nearest one is lake"),
    (lambda db, settings: actions.run_entry(db, settings, "off", ANN), "the entry off is disabled"),
    (lambda db, settings: actions.run_entry(db, settings, "lake", ANN, stat_date=date(2999, 1, 1)), "2999-01-01 has not come in Asia"),
    (lambda db, settings: actions.preview(db, settings, clock.now(), clock.now() + timedelta(days=90)), "more than 62 days"),
])
def test_what_cannot_be_is_refused_in_words(desk: Desk, act: Callable[[Database, Settings], Any], sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        act(desk.db, desk.settings)
    assert sentence in str(refused.value)
    assert actions.runs(desk.db, desk.settings) == []
