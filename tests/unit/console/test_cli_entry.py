"""Before any command: the path, the settings, help, usage errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from config import clock
from tests.support.command_line import ROOT, CommandLine, clean_environment
from tests.support.figures import figure


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


@pytest.mark.parametrize("kind", ["package", "module", "namespace"])
def test_a_foreign_config_on_the_path_is_named(tmp_path: Path, kind: str) -> None:
    foreign = tmp_path / "theirs"
    (foreign / "config").mkdir(parents=True)
    if kind == "package":
        (foreign / "config" / "__init__.py").write_text("raise SystemExit('their code ran')")
    if kind == "module":
        (foreign / "config").rmdir()
        (foreign / "config.py").write_text("raise SystemExit('their code ran')")
    if kind == "namespace":  # a mere folder hides nothing: Python prefers real packages further on
        (foreign / "config" / "data.txt").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "console.entry", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=clean_environment(PYTHONPATH=f"{foreign}:{ROOT}"))
    if kind == "namespace":
        assert done.returncode == 0
    else:
        assert done.returncode == 2
        assert f"the package 'config' in {foreign} is not Ratelane's" in done.stderr
        assert "their code ran" not in done.stderr


@pytest.mark.exclusive
def test_help_answers_before_anybody_wonders(cli: CommandLine) -> None:
    """Half a second on an ordinary machine, where Python itself takes a twentieth to start; slower ones are slower in both."""
    cli.run("--help")  # compiles
    bare, took = [], []
    for _ in range(4):
        age = clock.Stopwatch()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(age.elapsed())
        age = clock.Stopwatch()
        assert "crawl" in cli.run("--help").stdout
        took.append(age.elapsed())
    figure(f"--help took {min(took):.2f} s, Python alone {min(bare):.3f} s")
    assert min(took) < max(0.5, 15 * min(bare))


def test_help_imports_neither_settings_nor_database_nor_celery() -> None:
    check = "import sys; import console.cli.app; print([m for m in ('config', 'sqlalchemy', 'celery', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_mistyped_command_is_told_the_nearest_one(cli: CommandLine) -> None:
    assert "Did you mean 'crawl'" in cli.refuses(2, "crwal")


def test_no_command_at_all_is_bad_usage_and_shows_help(cli: CommandLine) -> None:
    done = cli.run()
    assert done.returncode == 2
    assert "Commands" in done.stdout + done.stderr


def test_the_version_is_one_word(cli: CommandLine) -> None:
    done = cli.run("--version")
    assert (done.returncode, len(done.stdout.split())) == (0, 1)


def test_an_unknown_setting_is_named_with_the_nearest_one(cli: CommandLine) -> None:
    sentence = cli.refuses(2, "counts", RATELANE_LEASE_SECS="5")
    assert "RATELANE_LEASE_SECS" in sentence
    assert "RATELANE_LEASE_SEC" in sentence
    assert not cli.home.exists()


def test_a_bad_value_is_named_with_its_place(cli: CommandLine) -> None:
    cli.home.mkdir()
    (cli.home / "ratelane.toml").write_text("lease_sec = 'soon'\n")
    sentence = cli.refuses(2, "counts")
    assert "lease_sec" in sentence
    assert "ratelane.toml" in sentence


def test_verbose_adds_the_traceback_to_the_sentence(cli: CommandLine) -> None:
    done = cli.run("-v", "job", "nobody")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.rstrip().splitlines()[-1].startswith("ratelane: no job has the id 'nobody'")


def test_a_database_that_is_away_exits_3_and_says_what_to_start_without_the_password(cli: CommandLine) -> None:
    sentence = cli.refuses(3, "counts", RATELANE_DATABASE_URL="postgresql://me:hush@127.0.0.1:1/nothing")
    assert "start PostgreSQL" in sentence
    assert "hush" not in sentence


def test_completion_is_offered(cli: CommandLine) -> None:
    done = cli.run(_RATELANE_COMPLETE="complete_bash", COMP_WORDS="ratelane cra", COMP_CWORD="1")
    assert "crawl" in done.stdout


def test_celery_is_not_started_where_a_foreign_config_hides_ours(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "console.entry", "worker"], cwd=tmp_path, capture_output=True, text=True,
        check=False, env=clean_environment())
    assert done.returncode == 2
    assert "hides Ratelane's" in done.stderr
