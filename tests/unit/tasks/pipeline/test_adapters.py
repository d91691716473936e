from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from tasks.pipeline import adapters
from tasks.pipeline.adapters.list import ADAPTER


def test_built_in_adapters_are_found_by_name() -> None:
    assert adapters.find("list") is ADAPTER
    assert "list" in adapters.names()
    assert adapters.find("list").name == "list"


def test_an_unknown_name_is_told_with_those_that_exist() -> None:
    with pytest.raises(LookupError, match=r"'lists'; there are: .*list"):
        adapters.find("lists")


def test_installed_adapters_are_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("mine", "tasks.pipeline.adapters.list:ListAdapter", adapters.GROUP)
    monkeypatch.setattr(adapters, "_installed", lambda: (entry,))
    assert adapters.names() == sorted({"mine", *adapters._BUILT_IN})
    assert adapters.find("mine").name == "list"
