"""Commands on the embedded SQLite, as processes: documents, exit codes, and what bad input leaves behind (nothing)."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import insert

from config import clock
from models.articles import articles
from models.db import Database
from tests.support.command_line import CommandLine

SITES = """
rate_groups:
  - {key: shared, host: "*.one.test"}
sites:
  - site_code: a
    base_url: http://a.one.test
    cms_adapter: list
    targets: &targets
      - &target
        target_code: a_news
        interval_sec: 2
        options: {list_url: "/{page}.html", item: li, link: "a@href"}
  - site_code: b
    base_url: http://b.two.test
    cms_adapter: list
    targets:
      - {target_code: b_docs, enabled: false, options: {list_url: "/{page}.html", item: li, link: "a@href"}}
"""


@pytest.fixture
def empty(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "sites.yaml"
    found.write_text(SITES)
    return found


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loaded")
    (folder / "sites.yaml").write_text(SITES)
    assert CommandLine(folder / "home").run("load", str(folder / "sites.yaml")).returncode == 0
    return folder / "home"


@pytest.fixture
def cli(empty: CommandLine, loaded: Path) -> CommandLine:
    """A command line whose home has two sites."""
    shutil.copytree(loaded, empty.home)
    return empty


def test_migrate_says_where_it_came_from(empty: CommandLine) -> None:
    first = empty.json("migrate")
    assert first["from"] is None
    assert empty.json("migrate") == {"from": first["to"], "to": first["to"]}


def test_load_counts_and_names_changes_and_is_idempotent(empty: CommandLine, file: Path) -> None:
    assert empty.json("load", str(file), "--dry-run")["sites"] == 2
    assert empty.json("targets") == []  # a dry run stores nothing
    first = empty.json("load", str(file))
    assert (first["sites"], first["targets"], first["groups"]) == (2, 2, 2)
    assert set(first) == {"sites", "targets", "groups", "changed"}
    assert first["changed"]
    assert empty.json("load", str(file))["changed"] == []


def test_targets_are_listed_enabled_and_disabled(cli: CommandLine) -> None:
    assert {one["target_code"]: one["enabled"] for one in cli.json("targets")} == {"a_news": True, "b_docs": False}
    assert [one["enabled"] for one in cli.json("targets", "--site", "b", "--enable", "b_docs")] == [True]
    assert [one["enabled"] for one in cli.json("targets", "--site", "a", "--disable", "a_news")] == [False]
    assert "the nearest one is a_news" in cli.refuses(2, "targets", "--enable", "a_nws")


def test_groups_name_the_rule_and_can_be_assigned(cli: CommandLine) -> None:
    found = {one["site_code"]: one for one in cli.json("groups")}
    assert found["a"]["group"] == "shared"
    assert set(found["a"]) == {"site_code", "group", "rule"}
    assert cli.json("groups", "assign", "a", "mine")[0]["group"] == "mine"
    assert cli.json("groups", "a")[0]["group"] == "mine"
    cli.refuses(2, "groups", "assign", "nobody", "mine")
    cli.refuses(2, "groups", "assign", "a", "Not A Key")
    cli.refuses(2, "groups", "a", "b")


def test_submit_has_one_active_job_per_key(cli: CommandLine) -> None:
    first = cli.json("submit", "a_news")
    assert set(first) == {"job_id", "created", "group"}
    assert (first["created"], first["group"]) == (True, "shared")
    assert cli.json("submit", "a_news") == first | {"created": False}
    assert cli.json("submit", "a_news", "--force")["created"]
    assert cli.json("submit", "a_news", "--again")["created"]
    keys = {one["dedupe_key"] for one in cli.json("jobs")}
    assert keys == {"crawl:a_news", "crawl:a_news:force", None}


def test_the_options_of_submit_are_stored(cli: CommandLine) -> None:
    assert "out of range" in cli.refuses(2, "submit", "a_news", "--resume-from-page", "99999999999999999999")
    made = cli.json("submit", "a_news", "--resume-from-page", "4", "--priority", "7", "--dedupe-key", "k", "--run-after",
                    "10m", "--max-attempts", "5", "--deadline", "60")
    found = cli.json("job", made["job_id"])
    assert (found["resume_from_page"], found["priority"], found["dedupe_key"], found["max_attempts"]) == (4, 7, "k", 5)
    assert found["run_after"].endswith("+08:00")
    cli.json("submit", "a_news", "--again", "--run-after", "2026-12-01T08:00")
    assert "is no time" in cli.refuses(2, "submit", "a_news", "--again", "--run-after", "soon")


def test_a_manual_submit_of_a_disabled_target_warns(cli: CommandLine) -> None:
    done = cli.run("submit", "b_docs")
    assert done.returncode == 0
    assert "disabled" in done.stderr


def test_an_unknown_target_is_told_the_nearest_one_and_stores_nothing(cli: CommandLine, file: Path) -> None:
    assert "the nearest one is a_news" in cli.refuses(2, "submit", "a_newz")
    assert "the nearest one is a_news" in cli.refuses(2, "interval", "a_newz")
    assert "the nearest one is a_news" in cli.refuses(2, "articles", "--target", "a_newz")
    assert "the nearest one is a_news" in cli.refuses(2, "crawl", str(file), "a_newz")
    assert cli.json("jobs") == []


def test_jobs_filter_and_limit(cli: CommandLine) -> None:
    first = cli.json("submit", "a_news")["job_id"]
    second = cli.json("submit", "b_docs", "--priority", "1")["job_id"]
    assert [one["job_id"] for one in cli.json("jobs")] == [second, first]
    assert [one["job_id"] for one in cli.json("jobs", "--site", "a")] == [first]
    assert [one["job_id"] for one in cli.json("jobs", "--limit", "1")] == [second]
    assert cli.json("jobs", "--status", "done") == []
    assert "no status is called 'dnoe'" in cli.refuses(2, "jobs", "--status", "dnoe")
    assert first in cli.run("jobs").stdout


def test_cancel_says_how_many_and_refuses_with_a_reason(cli: CommandLine) -> None:
    job_id = cli.json("submit", "a_news")["job_id"]
    assert cli.json("cancel", job_id) == {"cancelled": 1, "flagged": 0, "refused": []}
    again = cli.json("cancel", job_id, "nobody", code=1)
    assert again["refused"] == [{"job_id": job_id, "reason": "cannot cancel status=cancelled"},
                                {"job_id": "nobody", "reason": "not_found"}]


def test_cancel_acts_on_a_filter_but_never_on_everything(cli: CommandLine) -> None:
    for target in ("a_news", "b_docs"):
        cli.json("submit", target)
    cli.refuses(2, "cancel")
    cli.refuses(2, "cancel", "x", "--site", "a")
    assert cli.json("cancel", "--status", "queued", "--site", "a")["cancelled"] == 1
    assert cli.json("counts") == {"queued": 1, "running": 0, "done": 0, "failed": 0, "cancelled": 1}


def test_watching_a_final_job_prints_one_document_and_ends(cli: CommandLine) -> None:
    job_id = cli.json("submit", "a_news")["job_id"]
    cli.run("cancel", job_id)
    assert cli.json("job", job_id, "--watch")["status"] == "cancelled"
    assert "cancelled" in cli.run("job", job_id).stdout


def test_lanes_show_queued_work(cli: CommandLine) -> None:
    cli.json("submit", "a_news")
    lane = cli.json("lanes")[0]
    assert (lane["group"], lane["queued_count"], lane["next_queued_target"]) == ("shared", 1, "a_news")
    assert "shared" in cli.run("lanes").stdout


def test_interval_shows_what_is_in_force(cli: CommandLine) -> None:
    assert cli.json("interval", "a_news") == {
        "target_code": "a_news", "interval_sec": 2.0, "baseline_sec": 2.0, "history": []}


def test_articles_come_as_lines_or_csv_and_a_file_appears_whole(cli: CommandLine, tmp_path: Path) -> None:
    store = Database(f"sqlite:///{cli.home}/ratelane.sqlite3")
    with store.write() as conn:
        conn.execute(insert(articles).values(
            target_code="a_news", site_code="a", url="http://a/1", title="公告, 一", text="line\nline", generation=1,
            fetched_at=clock.now()))
    store.dispose()
    line = json.loads(cli.run("articles").stdout)
    assert list(line) == ["target_code", "url", "title", "published_at", "text", "sha256", "source_page", "fetched_at"]
    assert "公告" in cli.run("articles").stdout  # readable, not escaped
    rows = list(csv.DictReader(io.StringIO(cli.run("articles", "--format", "csv").stdout)))
    assert (rows[0]["title"], rows[0]["text"]) == ("公告, 一", "line\nline")
    out = tmp_path / "out.jsonl"
    assert cli.run("articles", "--out", str(out)).stdout == ""
    assert json.loads(out.read_text()) == line
    assert cli.run("articles", "--since", "2999-01-01").stdout == ""
    assert "cannot be written" in cli.refuses(2, "articles", "--out", str(tmp_path / "no" / "folder"))
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".new")] == []


def test_an_empty_log_is_a_clean_audit(cli: CommandLine) -> None:
    found = cli.json("audit")
    assert {name: found[name] for name in ("requests", "overlaps", "gaps_too_short", "during_pause", "groups")} == {
        "requests": 0, "overlaps": 0, "gaps_too_short": 0, "during_pause": 0, "groups": {}}


def test_health_says_which_part_is_away(cli: CommandLine) -> None:
    found = cli.json("health", code=3)  # nobody runs the embedded broker
    assert (found["ok"], found["database_ok"], found["broker_ok"], found["workers_consuming"]) == (
        False, True, False, 0)


def test_workers_are_an_empty_list_when_nobody_lives(cli: CommandLine) -> None:
    assert cli.json("workers") == []


BAD_FILES = {
    "unknown adapter": ("cms_adapter: list", "cms_adapter: lisst", "lisst"),
    "missing selector": ("item: li, ", "", "item"),
    "duplicate codes": ("b_docs", "a_news", "a_news"),
    "negative interval": ("interval_sec: 2", "interval_sec: -2", "interval_sec"),
    "unknown key": ("interval_sec: 2", "intervall_sec: 2", "intervall_sec"),
    "no YAML": ("sites:", "sites: [", "YAML"),
}


@pytest.mark.parametrize("what", BAD_FILES)
@pytest.mark.parametrize("command", ["load", "crawl"])
def test_a_bad_file_is_named_with_line_and_key_and_stores_nothing(
    empty: CommandLine, file: Path, what: str, command: str
) -> None:
    old, new, named = BAD_FILES[what]
    file.write_text(SITES.replace(old, new, 1))
    sentence = empty.refuses(2, command, str(file))
    assert f"{file}:" in sentence
    assert named in sentence
    assert not (empty.home / "ratelane.sqlite3").exists() or empty.json("targets") == []


def test_a_file_that_cannot_be_read_is_bad_input(empty: CommandLine, tmp_path: Path) -> None:
    assert "cannot be read" in empty.refuses(2, "load", str(tmp_path / "nothing.yaml"))
    assert "cannot be read" in empty.refuses(2, "crawl", str(tmp_path))


def test_a_database_newer_than_the_program_is_refused(cli: CommandLine) -> None:
    with sqlite3.connect(cli.home / "ratelane.sqlite3") as line:
        line.execute("UPDATE alembic_version SET version_num = '9999'")
    for command in (("counts",), ("migrate",), ("submit", "a_news")):
        assert "newer than this program" in cli.refuses(2, *command)


def test_a_broker_that_is_away_ends_a_crawl_with_exit_3_before_anything_is_stored(
    empty: CommandLine, file: Path
) -> None:
    sentence = empty.refuses(3, "crawl", str(file), RATELANE_BROKER_URL="redis://:hush@127.0.0.1:1/0")
    assert "the broker redis://:***@127.0.0.1:1/0 does not answer: start it" in sentence
    assert "hush" not in sentence
    assert empty.json("jobs") == []


def test_json_leaves_nothing_but_the_document_on_standard_output(cli: CommandLine) -> None:
    done = cli.run("-v", "submit", "b_docs", "--json")
    assert list(json.loads(done.stdout)) == ["job_id", "created", "group"]
    assert "b_docs" in done.stderr


def test_why_answers_for_a_job_that_waits_and_refuses_an_unknown_id(cli: CommandLine) -> None:
    first = cli.json("submit", "a_news", "--run-after", "1h")["job_id"]
    document = cli.json("why", first)
    assert set(document) == {"job_id", "status", "reasons", "position", "expected_start"}
    assert [one["code"] for one in document["reasons"]] == ["no_worker", "not_due"]
    assert (document["job_id"], document["status"], document["position"]) == (first, "queued", 1)
    assert document["reasons"][1]["until"] == cli.json("job", first)["run_after"]
    assert "no worker lives" in cli.run("why", first).stdout
    assert "no worker lives" in cli.run("job", first).stdout
    assert "no worker" in cli.run("jobs").stdout
    assert "no worker" in cli.run("lanes").stdout
    assert "no job has the id 'nobody'" in cli.refuses(2, "why", "nobody")
