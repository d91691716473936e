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

    for name in ("test", "acceptance"):
        assert f"make --no-print-directory {name}" in ci
        assert f"scripts/{name}.sh" in ci
    assert re.search(r"^export CI=true", ci, re.MULTILINE)
    assert int(re.search(r"limit_sec=(\d+)", ci)[1]) < 80 * 60  # type: ignore[index]


LINT = "All checks passed!"
FIRST = "=== 812 passed, 2 skipped in 201.00s (0:03:21) ==="
SECOND = "=== 1 failed, 71 passed, 3 skipped, 800 deselected, 1 error in 99.10s ==="


AGAIN = ["=== 2 passed, 870 deselected in 9.00s ==="]
STILL = ["=== 1 failed, 1 passed, 870 deselected in 9.00s ===", "exit 1"]


@pytest.mark.parametrize(("test", "acceptance", "again", "code", "last"), [
    ([LINT, FIRST, "=== 88 passed in 9.00s ==="], ["=== 60 passed, 4 skipped in 1.00s ==="], [], 0,
     "960 passed, 0 failed, 6 skipped"),
    ([FIRST, "exit 1", SECOND], ["=== 60 passed in 1.00s ==="], AGAIN, 0, "945 passed, 0 failed, 5 skipped"),
    ([FIRST, "exit 1", SECOND], ["=== 60 passed in 1.00s ==="], STILL, 1, "944 passed, 1 failed, 5 skipped"),
    ([FIRST, "exit 1", SECOND], ["=== 60 passed in 1.00s ==="], ["exit 4"], 1, "943 passed, 2 failed, 5 skipped"),
    (["Found 3 errors", "exit 1"], ["=== 60 passed in 1.00s ==="], AGAIN, 1, "60 passed, 1 failed, 0 skipped"),
    ([FIRST], ["exit 2"], AGAIN, 1, "812 passed, 1 failed, 2 skipped"),
])
def test_the_last_line_of_ci_sums_both_runs(
    test: list[str], acceptance: list[str], again: list[str], code: int, last: str, tmp_path: Path
) -> None:
    """With `make` replaced by one that prints what it is told: a failure of either is one of both, unless it passes alone."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text((ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    (tmp_path / "bin").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name, lines in (("test", test), ("acceptance", acceptance), ("again", again)):
        said = "\n".join(line for line in lines if not line.startswith("exit"))
        status = next((line.removeprefix("exit ") for line in lines if line.startswith("exit")), "0")
        (tmp_path / name).write_text(said + "\n")
        (tmp_path / f"{name}.status").write_text(status)
    make = tmp_path / "bin" / "make"
    make.write_text('#!/bin/sh\ncat "$2"\nexit "$(cat "$2.status")"\n')
    make.chmod(0o755)
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\ncat again\nexit "$(cat again.status)"\n')
    python.chmod(0o755)

    done = subprocess.run(
        ["bash", tmp_path / ".ci" / "run"], capture_output=True, text=True, timeout=30, check=False,
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})

    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, last)


@pytest.mark.parametrize("line", [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values()
                                                              for line in extra)])
def test_the_lock_has_a_version_that_the_project_allows_of(line: str) -> None:
    wanted = Requirement(line)

    assert pins()[canonicalize_name(wanted.name)] in wanted.specifier


def test_the_lock_names_no_path_of_a_machine() -> None:
    assert "/" not in LOCK.split("\n", 1)[1]


def test_no_index_is_hard_coded() -> None:
    for path in [*SCRIPTS, ROOT / "Makefile", ROOT / ".ci" / "run", ROOT / "Dockerfile"]:
        assert not re.search(r"--(extra-)?index-url|--find-links|PIP_INDEX", path.read_text(encoding="utf-8")), path
