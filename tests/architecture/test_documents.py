"""The documents say what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from config.settings import Settings
from console.cli.app import app
from console.sites_file.reader import read_sites_file
from scripts.settings_doc import MADE, PAGE, groups, render
from tests.support.command_line import ROOT

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted((ROOT / "docs").rglob("*.md"))
_LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#]+)(?:#[^)]*)?\)")
_COMMAND = re.compile(r"(?:^|[`\s(/])ratelane (?:--home \S+ )?([a-z][a-z-]+)(?![.\w])")
_SETTING = re.compile(r"\bRATELANE_[A-Z_]+[A-Z]\b")
_MACHINE = re.compile(r"/(?:work|root|home/\w+)/|/tmp/\w")


def pytest_id(page: Path) -> str:
    """Return how a page is called in a test's name."""
    return page.relative_to(ROOT).as_posix()


def code_of(text: str) -> str:
    """Return what a page prints as code: only there is `ratelane word` a command."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


def test_the_page_of_settings_is_what_the_settings_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: make docs"


def test_every_setting_is_on_the_page_once_and_described() -> None:
    named = [name for _, names in groups() for name in names]

    assert sorted(named) == sorted(Settings.model_fields)
    assert set(MADE) == {name for name, field in Settings.model_fields.items() if field.default_factory is not None}
    assert all(field.description for field in Settings.model_fields.values())


@pytest.mark.parametrize("page", PAGES, ids=pytest_id)
def test_links_lead_somewhere_from(page: Path) -> None:
    gone = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]

    assert gone == []


@pytest.mark.parametrize("page", PAGES, ids=pytest_id)
def test_commands_and_settings_exist_that_are_named_in(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    known = set(getattr(get_command(app), "commands"))  # noqa: B009

    assert set(_COMMAND.findall(code_of(text))) <= known
    assert {name.removeprefix("RATELANE_").lower() for name in _SETTING.findall(text)} <= set(Settings.model_fields)


@pytest.mark.parametrize("page", PAGES, ids=pytest_id)
def test_no_path_of_a_machine_is_in(page: Path) -> None:
    assert _MACHINE.findall(page.read_text(encoding="utf-8")) == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 130


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} - {"README.md"}

    assert {link for link in _LINK.findall(index) if not link.startswith("..")} == pages


def test_decisions_are_numbered_without_a_gap_and_have_the_same_parts() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("*.md"))

    assert [path.name[:4] for path in records] == [f"{number:04}" for number in range(1, len(records) + 1)]
    for path in records:
        headings = re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences"], path.name


def test_the_file_to_copy_is_a_good_one_that_asks_for_a_contact() -> None:
    found = read_sites_file(ROOT / "sites.example.yaml")

    assert len(found.sites) == 2
    assert {target.site_code for target in found.targets} == {site.site_code for site in found.sites}
    assert len(found.warnings) == 2
    assert all("names no contact" in warning for warning in found.warnings)
