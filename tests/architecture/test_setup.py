"""What a newcomer types works, and what CI runs is the same."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.command_line import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
LOCK = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCRIPTS = sorted((ROOT / "scripts").glob("*.sh"))


def targets() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))


def pins() -> dict[str, Version]:
    """Return the version of each package in the lock."""
    lines = [line for line in LOCK.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+!]+", line) for line in lines), "something else than exact versions"
    return {canonicalize_name(name): Version(version) for name, _, version in (line.partition("==") for line in lines)}


def test_the_commands_of_the_readme_are_targets() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^make ([a-z]+)", text, re.MULTILINE)) | set(re.findall(r"`make ([a-z]+)", text))

    assert named >= {"demo", "test"}
    assert named <= targets()


def test_every_target_says_what_it_does() -> None:
    assert targets() == set(re.findall(r"^([a-z]+):.*## \w", MAKEFILE, re.MULTILINE))


def test_the_makefile_calls_scripts_that_exist_and_may_be_run() -> None:
    for name in {*re.findall(r"scripts/\w+\.sh", MAKEFILE), ".ci/run"}:
        assert os.access(ROOT / name, os.X_OK), name


@pytest.mark.parametrize("script", [*SCRIPTS, ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_a_script_is_understood_by_its_shell(script: Path) -> None:
    shell = "bash" if script.name == "run" else "sh"

    done = subprocess.run([shell, "-n", script], capture_output=True, text=True, timeout=10, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert "make --no-print-directory test" in ci
    assert "scripts/test.sh" in ci
    assert re.search(r"^export CI=true", ci, re.MULTILINE)
    assert int(re.search(r"limit_sec=(\d+)", ci)[1]) < 55 * 60  # type: ignore[index]


@pytest.mark.parametrize("line", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]])
def test_the_lock_has_a_version_that_the_project_allows_of(line: str) -> None:
    wanted = Requirement(line)

    assert pins()[canonicalize_name(wanted.name)] in wanted.specifier


def test_the_lock_names_no_path_of_a_machine() -> None:
    assert "/" not in LOCK.split("\n", 1)[1]


def test_no_index_is_hard_coded() -> None:
    for path in [*SCRIPTS, ROOT / "Makefile", ROOT / ".ci" / "run", ROOT / "Dockerfile"]:
        assert not re.search(r"--(extra-)?index-url|--find-links|PIP_INDEX", path.read_text(encoding="utf-8")), path
