"""Every guarantee names what it costs, what breaks it, and tests that exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.command_line import ROOT

TEXT = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
IDS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)


@pytest.mark.parametrize(("path", "name"), IDS, ids=[f"{path}::{name}" for path, name in IDS])
def test_the_named_test_exists_and_asserts_something(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    assert found, f"{path} has no {name}"
    assert any(isinstance(node, ast.Assert | ast.Call) for node in ast.walk(found[0]))


@pytest.mark.parametrize("title", SECTIONS)
def test_a_guarantee_says_its_price_what_breaks_it_and_who_proves_it(title: str) -> None:
    body = SECTIONS[title]
    assert re.search(r"^\*\*.+?\*\*", body.strip(), re.DOTALL), "it begins with the promise"
    for part in ("*Costs:*", "*Breaks it:*", "*Proved by:*"):
        assert part in body
    assert re.search(r"`tests/[\w/]+\.py::\w+`", body.partition("*Proved by:*")[2])


def test_there_are_guarantees_at_all() -> None:
    assert len(SECTIONS) >= 10 and len(IDS) >= 20
