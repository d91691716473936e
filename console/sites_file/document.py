"""YAML as a tree that still knows its lines, and the list of everything that is wrong with it.

Plain words mean what they look like (YAML 1.2's core): `no` and `12:30` are text, only `true` and `false` are flags.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from config.errors import BadInput

#: how many problems one report names
MOST = 20
_DEEPEST = 40
_TAG = "tag:yaml.org,2002:"
#: the line of a key, and its value
Pair = tuple[int, yaml.Node]
#: the parser in C reads thousands of sites in a second; it is missing where PyYAML was built without it
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


def _core() -> None:
    digits, point = "-+0123456789", "."
    for name, pattern, first in (
        ("bool", r"(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
        ("int", r"[-+]?[0-9]+$", list(digits)),
        ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", list(digits + point)),
        ("float", r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", list("-+" + point)),
        ("null", r"(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
        ("merge", r"<<$", ["<"]),
    ):
        _Loader.add_implicit_resolver(_TAG + name, re.compile(pattern), first)


_core()


class Problems:
    """Everything that is wrong with one file, by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: list[tuple[int, str]] = []

    def add(self, where: yaml.Node | int, key: str, text: str) -> None:
        """Remember that `key`, at the line of a node (or a line number), has a problem, told in `text`."""
        line = where if isinstance(where, int) else line_of(where)
        self._found.append((line, f"{key}: {text}" if key else text))

    def raise_if_any(self) -> None:
        """Raise BadInput with one line for each problem, at most `MOST`, in the order of the file."""
        if not self._found:
            return
        lines = [f"{self.path}:{line}: {text}" for line, text in sorted(set(self._found))]
        more = [f"{self.path}: … and {len(lines) - MOST} more problems"] if len(lines) > MOST else []
        raise BadInput("\n".join(lines[:MOST] + more))


def line_of(node: yaml.Node) -> int:
    """Return the line of a node, counted from 1."""
    return int(node.start_mark.line) + 1


def compose(path: Path) -> yaml.Node:
    """Return the root node of a YAML file; raises BadInput if it cannot be read, is no YAML, or says nothing."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise BadInput(_not_yaml(path, text, error)) from None
    except RecursionError:
        raise BadInput(f"{path}: is nested too deeply") from None
    if root is None:
        raise BadInput(f"{path}: is empty; it must hold `sites:`")
    return root


def _not_yaml(path: Path, text: str, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return f"{path}: is not YAML ({error})"
    line = mark.line + 1
    lines = text.splitlines()
    here = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())]:
        return f"{path}:{line}: is indented with a tab; YAML allows spaces only"
    said = ", ".join(str(part) for part in (getattr(error, "context", ""), getattr(error, "problem", "")) if part)
    return f"{path}:{line}: is not YAML ({said}, column {mark.column + 1})"


def kind_of(node: yaml.Node) -> str:
    """Return what a node is, in words."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    tag = node.tag.removeprefix(_TAG)
    if tag == "null":
        return "empty"
    words = {"bool": "the flag", "int": "the number", "float": "the number", "str": "the text"}
    shown = repr(node.value) if tag == "str" else str(node.value)
    return f"{words.get(tag, tag)} {shown}"


def plain(node: yaml.Node, key: str, problems: Problems, depth: int = 0) -> Any:
    """Return a node as ordinary JSON-able data; what cannot be (odd tags, keys that are no text) is a problem."""
    if depth > _DEEPEST:
        problems.add(node, key, "is nested too deeply")
        return None
    if isinstance(node, yaml.MappingNode):
        return {name: plain(value, f"{key}.{name}", problems, depth + 1)
                for name, (_line, value) in pairs(node, key, problems).items()}
    if isinstance(node, yaml.SequenceNode):
        return [plain(value, f"{key}[{at}]", problems, depth + 1) for at, value in enumerate(node.value)]
    return _scalar(node, key, problems)


def pairs(node: yaml.MappingNode, key: str, problems: Problems) -> dict[str, Pair]:
    """Return line and value of each key of a mapping, `<<` merged in; a key that stands twice is a problem."""
    found: dict[str, Pair] = {}
    merged: dict[str, Pair] = {}
    for name, value in node.value:
        if name.tag == _TAG + "merge":
            merged = _merged(value, key, problems) | merged
        elif not isinstance(name, yaml.ScalarNode):
            problems.add(name, key, "has a key that is no text")
        elif name.value in found:
            problems.add(name, f"{key}.{name.value}".lstrip("."), f"stands twice, first on line {found[name.value][0]}")
        else:
            found[name.value] = line_of(name), value
    return merged | found


def _merged(node: yaml.Node, key: str, problems: Problems) -> dict[str, Pair]:
    if isinstance(node, yaml.MappingNode):
        return pairs(node, key, problems)
    if isinstance(node, yaml.SequenceNode) and all(isinstance(each, yaml.MappingNode) for each in node.value):
        found: dict[str, Pair] = {}
        for each in node.value:
            found = pairs(each, key, problems) | found
        return found
    problems.add(node, f"{key}.<<".lstrip("."), f"must be a mapping (is {kind_of(node)})")
    return {}


def _scalar(node: yaml.Node, key: str, problems: Problems) -> Any:
    tag, text = node.tag.removeprefix(_TAG), str(node.value)
    try:
        match tag:
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return {"true": True, "false": False}[text.lower()]
            case "int":
                return int(text)
            case "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except (ValueError, KeyError):
        pass
    problems.add(node, key, f"has a value that is neither text, number nor flag ({node.tag} {text!r})")
    return None
