"""The `options` of a target, judged by the adapter that will read them (rule P1)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from console.sites_file.document import Pair, Problems, line_of, pairs
from console.sites_file.entry import Entry, nearest
from tasks.pipeline import adapters


def find_options(name: str) -> type[BaseModel] | str:
    """Return the options model of an adapter, or what is wrong with its name."""
    try:
        return adapters.find(name).Options
    except LookupError:
        return f"no adapter is called {name!r}; there are: {', '.join(adapters.names())}"


def check_options(target: Entry, model: type[BaseModel]) -> Mapping[str, Any]:
    """Return the options of a target as they stand; each one that the adapter refuses becomes a problem at its line."""
    data = target.data("options")
    node = target.child("options")
    if node is not None and not isinstance(node, yaml.MappingNode):
        return data
    try:
        model.model_validate(data)
    except ValidationError as refused:
        for error in refused.errors(include_url=False):
            line, key = place_of(node, target.key("options"), error["loc"], target.line("options"))
            target.problems.add(line, key, words_of(error, list(model.model_fields)))
    return data


def place_of(
    node: yaml.Node | None, key: str, path: tuple[int | str, ...], line: int | None = None
) -> tuple[int, str]:
    """Return line and key of the value at `path` below a node; for a missing one the line of what should hold it."""
    found, line = node, line_of(node) if line is None and node is not None else line or 0
    for step in path:
        key += f"[{step}]" if isinstance(step, int) else f".{step}"
        line, found = _child(found, step) or (line, None)
    return line, key


def _child(node: yaml.Node | None, step: int | str) -> Pair | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return line_of(node.value[step]), node.value[step]
    if isinstance(node, yaml.MappingNode):
        return pairs(node, "", Problems(Path())).get(str(step))
    return None


def words_of(error: ErrorDetails, known: list[str]) -> str:
    """Return what a model refuses, in the words of the file's errors."""
    match error["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            return f"is no known key; {nearest(str(error['loc'][-1]), known)}"
    text = error["msg"].removeprefix("Value error, ")
    text = text[:1].lower() + text[1:]
    value = error["input"]
    shown = "" if isinstance(value, dict | list) or repr(value) in text else f" (is {value!r})"
    return text + shown
