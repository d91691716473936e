"""The commands of operators as processes: documents, exit codes, and words for what a newcomer mistypes."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from console.cli import app
from tests.support.command_line import CommandLine

SITES = """
sites:
  - site_code: a
    base_url: http://a.one.test
    cms_adapter: list
    targets:
      - {target_code: a_news, interval_sec: 2, options: {list_url: "/{page}.html", item: li, link: "a@href"}}
  - site_code: b
    base_url: http://b.two.test
    cms_adapter: list
    targets:
      - {target_code: b_docs, options: {list_url: "/{page}.html", item: li, link: "a@href"}}
"""
LANE = {
    "group", "site_codes", "site_code", "running_job_id", "running_target", "running_site", "running_for_sec",
    "queued_count", "next_queued_target", "next_queued_site", "paused_until", "pause_kind", "pause_reason",
    "cooldown_level", "interval_sec", "worker", "lease_until"}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loaded")
    (folder / "sites.yaml").write_text(SITES)
    assert CommandLine(folder / "home").run("load", str(folder / "sites.yaml")).returncode == 0
    return folder / "home"


@pytest.fixture
def cli(tmp_path: Path, loaded: Path) -> CommandLine:
    """A command line whose home has two sites."""
    made = CommandLine(tmp_path / "home")
    shutil.copytree(loaded, made.home)
    return made


def test_r9_a_lane_is_paused_and_resumed_with_its_document(cli: CommandLine) -> None:
    paused = cli.json("pause", "a.one.test", "--for", "10m", "--reason", "they asked")
    assert set(paused) == LANE
    assert (paused["group"], paused["pause_kind"], paused["pause_reason"]) == ("a.one.test", "operator", "they asked")
    assert paused["paused_until"].endswith("+08:00")
    endless = cli.run("pause", "a.one.test", "--reason", "they asked again")
    assert endless.stdout == "lane a.one.test is paused until somebody resumes it: they asked again\n"
    resumed = cli.json("resume", "a.one.test", "--cooldown")
    assert (resumed["paused_until"], resumed["pause_kind"], resumed["pause_reason"]) == (None, None, None)


def test_r9_the_pause_of_all_is_told_above_the_lanes_and_by_a_resume_that_it_outlasts(cli: CommandLine) -> None:
    cli.json("submit", "a_news")
    lanes = cli.json("pause", "--all", "--reason", "holiday", RATELANE_OPERATOR="ann")
    assert [(one["group"], one["pause_reason"]) for one in lanes] == [("a.one.test", "holiday")]
    first = cli.run("lanes").stdout.splitlines()[0]
    assert first == "all lanes are paused until somebody resumes them by ann because: holiday"
    still = cli.run("resume", "a.one.test").stdout
    assert "stays paused until somebody resumes it: holiday" in still
    assert "ratelane resume --all" in still
    assert cli.json("resume", "--all")[0]["pause_kind"] is None


def test_bad_pauses_are_refused_in_words(cli: CommandLine) -> None:
    assert "the nearest one is a.one.test" in cli.refuses(2, "pause", "a.one.tset", "--reason", "x")
    assert "--reason" in cli.refuses(2, "pause", "a.one.test")
    assert "name one rate group, or --all" in cli.refuses(2, "pause", "--reason", "x")
    assert "not both" in cli.refuses(2, "pause", "a.one.test", "--all", "--reason", "x")
    assert "longer than 0" in cli.refuses(2, "pause", "a.one.test", "--for", "0s", "--reason", "x")
    assert "is past" in cli.refuses(2, "pause", "--all", "--until", "2001-01-01", "--reason", "x")
    assert cli.json("lanes") == []


def test_j14_requeue_answers_how_many_and_who_did_it_stands_at_the_job(cli: CommandLine) -> None:
    job_id = cli.json("submit", "a_news")["job_id"]
    cli.json("cancel", job_id)
    assert cli.json("requeue", job_id, "--reason", "try again", RATELANE_OPERATOR="ann") == {"requeued": 1, "refused": []}
    found = cli.json("requeue", job_id, "nobody", code=1)
    assert found == {"requeued": 0, "refused": [{"job_id": job_id, "reason": "cannot requeue status=queued"},
                                                {"job_id": "nobody", "reason": "not_found"}]}
    shown = cli.run("job", job_id).stdout
    assert "requeue" in shown
    assert "ann" in shown
    assert "try again" in shown
    assert "operations" not in cli.json("job", job_id)


def test_j14_a_filter_brings_back_what_it_names_and_one_that_names_nothing_is_refused(cli: CommandLine) -> None:
    for target in ("a_news", "b_docs"):
        cli.json("submit", target)
    cli.json("cancel", "--status", "queued")
    assert cli.json("requeue", "--site", "a", "--restart")["requeued"] == 1
    assert cli.json("counts")["queued"] == 1
    for command in ("requeue", "cancel"):
        cli.refuses(2, command)
        cli.refuses(2, command, "--search", "")
    assert "not done ones" in cli.refuses(2, "requeue", "--status", "done")
    assert "not done ones" in cli.refuses(2, "cancel", "--status", "done")


def test_c5_an_interval_without_growth_is_reset_to_what_it_is(cli: CommandLine) -> None:
    assert cli.json("interval", "a_news", "--reset", "--reason", "clean") == {
        "target_code": "a_news", "interval_sec": 2.0, "baseline_sec": 2.0, "history": []}


def test_mistyped_names_are_answered_with_the_nearest_one(cli: CommandLine) -> None:
    assert "no site is called 'zzz'; the nearest one is" in cli.refuses(2, "groups", "zzz")
    assert "no site is called 'zzz'; the nearest one is" in cli.refuses(2, "targets", "--site", "zzz")
    assert "the nearest one is b.two.test" in cli.refuses(2, "audit", "--group", "b.two.tes")
    assert "the nearest one is" in cli.refuses(2, "groups", "assign", "zzz", "mine")


def test_a_dry_run_leaves_no_home_behind(tmp_path: Path) -> None:
    (tmp_path / "sites.yaml").write_text(SITES)
    empty = CommandLine(tmp_path / "home")
    found = empty.json("load", str(tmp_path / "sites.yaml"), "--dry-run")
    assert (found["sites"], found["targets"], found["groups"]) == (2, 2, 2)
    assert found["changed"]
    assert not empty.home.exists()


def test_a_home_that_cannot_be_made_is_answered_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    sentence = CommandLine(tmp_path / "file").refuses(2, "counts")
    assert "name another home with --home" in sentence


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_home_of_somebody_else_is_answered_with_advice(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert app._explain(PermissionError(number, "Permission denied", "/srv/home/workers")) == 2
    assert capsys.readouterr().err == (
        "ratelane: /srv/home/workers cannot be written (Permission denied): name another home with --home or "
        "RATELANE_HOME, or make it a folder of your own\n")
