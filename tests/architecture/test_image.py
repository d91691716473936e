"""The Dockerfile installs the whole project, as CI has it, for a user who is not root."""

from __future__ import annotations

import re
import tomllib

from tests.support.command_line import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_COPY = re.compile(r"^COPY (?!--from)(.+) \S+$", re.MULTILINE)


def copied() -> set[str]:
    """Return what the Dockerfile copies from the project."""
    return {source.rstrip("/") for line in _COPY.findall(DOCKERFILE) for source in line.split()}


def needed() -> set[str]:
    """Return what pip needs for an installation: the packages, and the files that pyproject.toml names."""
    include = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    project = PROJECT["project"]
    return {pattern.rstrip("*") for pattern in include} | {project["readme"], *project["license-files"], "pyproject.toml"}


def test_everything_that_is_installed_is_copied_and_nothing_else() -> None:
    assert copied() == needed() | {"requirements"}


def test_every_copied_thing_exists_and_reaches_the_builder() -> None:
    let_through = {line[1:].rstrip("/") for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
                   if line.startswith("!")}

    assert all((ROOT / name).exists() for name in copied())
    assert let_through == copied()


def test_the_image_has_the_versions_that_were_tested() -> None:
    assert "-c requirements/constraints.txt" in DOCKERFILE


def test_the_image_runs_as_a_user_who_is_not_root() -> None:
    users = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)

    assert users == ["ratelane"]
    assert DOCKERFILE.index("USER ratelane") < DOCKERFILE.index("CMD ")
    assert "--uid 10001" in DOCKERFILE


def test_the_python_of_the_image_is_one_that_the_project_allows() -> None:
    allowed = PROJECT["project"]["requires-python"].removeprefix(">=")

    assert set(re.findall(r"^FROM python:([\d.]+)", DOCKERFILE, re.MULTILINE)) == {allowed}


def test_files_that_are_no_python_are_installed_too() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    for room in sorted(needed() - {"pyproject.toml", "README.md", "LICENSE"}):
        installed = {path for pattern in patterns.get(room, []) for path in (ROOT / room).glob(pattern)}
        found = {path for path in (ROOT / room).rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
        assert found <= installed, room
