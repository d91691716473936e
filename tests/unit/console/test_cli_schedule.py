"""S9: the commands of the schedule as processes: documents, exit codes, refusals in words, and who did what."""

from __future__ import annotations

import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import insert

from config import clock
from models.db import Database
from models.snapshots import snapshot_items, snapshots
from tests.support.command_line import CommandLine

BERLIN = ZoneInfo("Europe/Berlin")
NOW = clock.now()
ENTRY = {"name", "status", "due_at", "next_runs", "stat_date", "progress", "last_run_at", "last_outcome", "last_success_at",
         "quiet_window", "paused"}
RUN = {"run_id", "entry", "occurrence", "try_no", "stat_date", "source", "force", "started_at", "ended_at", "elapsed_sec",
       "outcome", "ok", "skipped", "reason", "until", "by_run", "progress"}
BUILT_IN = ["candidate_cleanup", "discovery", "snapshot", "snapshot_recent", "snapshot_seed", "vitals"]


def hour(shift: int) -> str:
    """Return a time of the day in Berlin, so many hours from now."""
    return f"{(NOW + timedelta(hours=shift)).astimezone(BERLIN):%H:%M}"


SITES = f"""
sites:
  - site_code: a
    base_url: http://a.one.test
    cms_adapter: list
    user_agent: "x (a@b.test)"
    targets:
      - {{target_code: a_news, interval_sec: 2, options: {{list_url: "/{{page}}.html", item: li, link: "a@href"}}}}
schedule:
  timezone: Europe/Berlin
  entries:
    mine: {{crawl: a_*, at: "{hour(6)}"}}
    resting: {{crawl: a_*, at: "{hour(6)}", quiet: ["{hour(-2)}", "{hour(2)}"]}}
    off: {{crawl: a_*, at: "{hour(6)}", enabled: false}}
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loaded")
    (folder / "sites.yaml").write_text(SITES)
    assert CommandLine(folder / "home").run("load", str(folder / "sites.yaml")).returncode == 0
    return folder / "home"


@pytest.fixture
def cli(tmp_path: Path, loaded: Path) -> CommandLine:
    """A command line whose home has a site and entries of its own; no beat and no worker runs."""
    made = CommandLine(tmp_path / "home")
    shutil.copytree(loaded, made.home)
    return made


def operations(cli: CommandLine) -> list[tuple[Any, ...]]:
    """Return who did what to which entry, and why."""
    with sqlite3.connect(cli.home / "ratelane.sqlite3") as conn:
        return conn.execute("SELECT who, action, entry, reason FROM operations ORDER BY id").fetchall()


def test_every_entry_is_listed_with_its_document_in_the_zone_of_the_schedule(cli: CommandLine) -> None:
    found = cli.json("schedule")
    assert [one["name"] for one in found] == sorted([*BUILT_IN, "mine", "off", "resting"])
    assert all(set(one) == ENTRY for one in found)
    one = {each["name"]: each for each in found}
    assert datetime.fromisoformat(one["mine"]["due_at"]).utcoffset() == NOW.astimezone(BERLIN).utcoffset()
    assert one["mine"]["due_at"][11:16] == hour(6)
    assert (one["mine"]["status"], one["mine"]["last_outcome"], one["mine"]["paused"]) == ("pending", None, False)
    assert one["resting"]["quiet_window"] == [hour(-2), hour(2)]
    assert (one["off"]["due_at"], one["off"]["next_runs"]) == (None, [])


def test_a_run_by_hand_answers_its_document_and_the_table_shows_it(cli: CommandLine) -> None:
    found = cli.json("schedule", "run", "mine", "--reason", "news came", RATELANE_OPERATOR="ann")
    assert set(found) == RUN
    assert (found["entry"], found["source"], found["outcome"], found["progress"]) == (
        "mine", "manual", None, {"done": 0, "failed": 0, "total": 1})
    assert found["stat_date"] == f"{clock.now().astimezone(BERLIN):%Y-%m-%d}"
    assert [(one["target_code"], one["source"], one["run_id"]) for one in cli.json("jobs", "--run", str(found["run_id"]))] == [
        ("a_news", "schedule", found["run_id"])]
    assert operations(cli) == [("ann", "schedule_run", "mine", "news came")]
    assert f"mine runs already: run {found['run_id']} for" in cli.refuses(1, "schedule", "run", "mine")
    assert cli.json("schedule", "runs", "mine") == [found]
    assert "0 of 1" in cli.run("schedule", "runs").stdout


def test_s6_a_run_inside_the_quiet_window_is_refused_without_force(cli: CommandLine) -> None:
    sentence = cli.refuses(1, "schedule", "run", "resting")
    assert "resting has its quiet window until" in sentence
    assert hour(2) in sentence
    assert "--force" in sentence
    assert cli.json("jobs") == []
    assert cli.json("schedule", "run", "resting", "--force")["force"] is True


def test_a_pause_and_its_end_are_kept_with_who_and_why(cli: CommandLine) -> None:
    paused = cli.json("schedule", "pause", "vitals", "--reason", "moving", RATELANE_OPERATOR="ann")
    assert (paused["name"], paused["paused"]) == ("vitals", True)
    assert cli.run("schedule", "resume", "vitals", RATELANE_OPERATOR="bob").stdout.startswith("vitals goes on, next at ")
    assert operations(cli) == [("ann", "schedule_pause", "vitals", "moving"), ("bob", "schedule_resume", "vitals", "")]


def test_a_preview_names_the_moments_that_the_list_names(cli: CommandLine) -> None:
    lines = cli.json("schedule", "preview", "--from", "0s", "--to", "20h")
    assert {name for one in lines for name in one} == {"name", "due_at", "action", "until", "reason", "stat_date"}
    first = {one["name"]: one["due_at"] for one in reversed(lines)}
    listed = {one["name"]: one["due_at"] for one in cli.json("schedule")}
    assert {name: listed[name] for name in first} == first
    assert {"mine", "vitals", "snapshot_recent"} <= first.keys()
    assert "off" not in first


def test_tables_show_times_with_their_offset(cli: CommandLine) -> None:
    offset = f"{NOW.astimezone(BERLIN):%z}"
    assert f":00{offset[:3]}:{offset[3:]}" in cli.run("schedule").stdout


def test_what_cannot_be_is_refused_in_words(cli: CommandLine) -> None:
    assert "no entry is called 'snapshto'; the nearest one is snapshot" in cli.refuses(2, "schedule", "run", "snapshto")
    assert "'tomorrow' is no date" in cli.refuses(2, "schedule", "run", "mine", "--date", "tomorrow")
    assert "ends behind its start" in cli.refuses(2, "schedule", "preview", "--from", "2h", "--to", "1h")


def test_s7_the_seed_runs_to_its_end_without_beat_and_worker(cli: CommandLine) -> None:
    today = clock.now().astimezone(BERLIN).date()
    refused = cli.json("snapshot-seed", code=1)
    assert (refused["outcome"], refused["skipped"], refused["reason"]) == ("skipped", True, "no_source")
    database = Database(f"sqlite:///{cli.home}/ratelane.sqlite3")
    with database.write() as conn:
        before, then = today - timedelta(days=1), datetime.now(UTC) - timedelta(days=1)
        conn.execute(insert(snapshots).values(stat_date=before, completed_at=then, completed_run_started_at=then,
                                              updated_at=then))
        conn.execute(insert(snapshot_items).values(stat_date=before, target_code="a_news", url="http://a.one.test/1",
                                                   src="list", ok=True, seen_at=then))
    found = cli.json("snapshot-seed", "--date", today.isoformat(), RATELANE_OPERATOR="ann")
    assert set(found) == RUN
    assert (found["outcome"], found["ok"], found["stat_date"]) == ("success", True, today.isoformat())
    with database.read() as conn:
        rows = conn.execute(snapshot_items.select().where(snapshot_items.c.stat_date == today)).all()
    database.dispose()
    assert [(row.url, row.src) for row in rows] == [("http://a.one.test/1", "seed")]
    (job,) = cli.json("jobs", "--run", str(found["run_id"]))
    assert (job["kind"], job["status"]) == ("snapshot_seed", "done")
    again = cli.json("snapshot-seed", "--date", (today - timedelta(days=1)).isoformat())
    assert (again["outcome"], again["reason"]) == ("success", "already_completed")
    entry = next(one for one in cli.json("schedule") if one["name"] == "snapshot_seed")
    assert (entry["status"], entry["last_outcome"]["reason"]) == ("done", "already_completed")


def test_a_dry_run_tells_what_would_change_of_the_schedule(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "sites.yaml").write_text(SITES.replace("Europe/Berlin", "Asia/Shanghai").replace("mine:", "yours:"))
    changed = cli.json("load", str(tmp_path / "sites.yaml"), "--dry-run")["changed"]
    assert changed == ["schedule: timezone Europe/Berlin → Asia/Shanghai", "entry mine: removed", "entry yours: added"]
    assert "mine" in {one["name"] for one in cli.json("schedule")}
