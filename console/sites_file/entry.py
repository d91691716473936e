"""One mapping of the file, read key by key; every answer is either right or has become a problem."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from console.sites_file.document import Problems, kind_of, line_of, pairs, plain

_CODE = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_TEXT_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float"))


class Entry:
    """A mapping at `where` (a path such as ``sites[0]``) with the keys that it may hold."""

    def __init__(self, node: yaml.Node, where: str, known: Sequence[str], problems: Problems) -> None:
        self.node, self.where, self.problems = node, where, problems
        self._values: dict[str, yaml.Node] = {}
        self._lines: dict[str, int] = {}
        if isinstance(node, yaml.MappingNode):
            for name, (line, value) in pairs(node, where, problems).items():
                self._lines[name], self._values[name] = line, value
            self._refuse_unknown(node, known)
        else:
            problems.add(node, where, f"must be a mapping (is {kind_of(node)})")

    def line(self, key: str) -> int:
        """Return the line of a key, or of the mapping if the key is missing."""
        return self._lines.get(key, line_of(self.node))

    def key(self, name: str) -> str:
        """Return the path of a key, as errors name it."""
        return f"{self.where}.{name}" if self.where else name

    def problem(self, name: str, text: str) -> None:
        """Say that the value of `name` is wrong."""
        self.problems.add(self.line(name), self.key(name), text)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text (a number counts as it is written); without a `default` the key is required."""
        node = self._values.get(name)
        if node is None:
            if default is None and isinstance(self.node, yaml.MappingNode):
                self.problem(name, "is required")
            return default or ""
        if not is_text(node):
            self.problem(name, f"must be text (is {kind_of(node)})")
            return default or ""
        return str(node.value)

    def code(self, name: str) -> str:
        """Return a required code: letters, digits and . _ : - only, at most 200."""
        text = self.text(name)
        if name in self._values and not _CODE.fullmatch(text):
            shown = f"{text[:40]}…" if len(text) > 40 else text
            self.problem(name, f"must be 1 to 200 of A-Z a-z 0-9 . _ : - (is {shown!r})")
        return text

    def seconds(self, name: str, default: float) -> float:
        """Return a number of seconds, fractions allowed, not below 0."""
        node = self._values.get(name)
        if node is None:
            return default
        value = plain(node, self.key(name), self.problems) if isinstance(node, yaml.ScalarNode) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.problem(name, f"must be a number of seconds (is {kind_of(node)})")
            return default
        if value < 0:
            self.problem(name, f"must not be below 0 (is {node.value})")
        return float(value)

    def whole(self, name: str, least: int, most: int) -> int | None:
        """Return a whole number between two bounds; None if the key is missing."""
        node = self._values.get(name)
        if node is None:
            return None
        value = plain(node, self.key(name), self.problems) if isinstance(node, yaml.ScalarNode) else None
        if isinstance(value, bool) or not isinstance(value, int):
            self.problem(name, f"must be a whole number (is {kind_of(node)})")
        elif not least <= value <= most:
            self.problem(name, f"must be {least} to {most} (is {value})")
        else:
            return value
        return None

    def flag(self, name: str, default: bool | None) -> bool | None:
        """Return true or false."""
        node = self._values.get(name)
        if node is None:
            return default
        value = plain(node, self.key(name), self.problems) if isinstance(node, yaml.ScalarNode) else None
        if not isinstance(value, bool):
            self.problem(name, f"must be true or false (is {kind_of(node)})")
            return default
        return value

    def data(self, name: str) -> dict[str, Any]:
        """Return a mapping as plain data; nothing if the key is missing or empty."""
        node = self.child(name)
        if node is None:
            return {}
        if not isinstance(node, yaml.MappingNode):
            self.problem(name, f"must be a mapping (is {kind_of(node)})")
            return {}
        found: dict[str, Any] = plain(node, self.key(name), self.problems)
        return found

    def texts(self, name: str) -> list[tuple[str, int]]:
        """Return a list of texts with their lines."""
        found = []
        for at, node in self.items(name):
            if is_text(node):
                found.append((str(node.value), line_of(node)))
            else:
                self.problems.add(node, f"{self.key(name)}[{at}]", f"must be text (is {kind_of(node)})")
        return found

    def items(self, name: str) -> Iterator[tuple[int, yaml.Node]]:
        """Yield the entries of a list with their positions; none if the key is missing or empty."""
        node = self.child(name)
        if isinstance(node, yaml.SequenceNode):
            yield from enumerate(node.value)
        elif node is not None:
            self.problem(name, f"must be a list (is {kind_of(node)})")

    def child(self, name: str) -> yaml.Node | None:
        """Return the node of a key; None if it is missing or empty."""
        node = self._values.get(name)
        return None if node is None or kind_of(node) == "empty" else node

    def has(self, name: str) -> bool:
        """Say whether the key is there, be it empty."""
        return name in self._values

    def _refuse_unknown(self, node: yaml.MappingNode, known: Sequence[str]) -> None:
        for name, _value in node.value:
            if isinstance(name, yaml.ScalarNode) and name.value in self._values and name.value not in known:
                self.problems.add(name, self.key(name.value), f"is no known key; {nearest(name.value, known)}")


def is_text(node: yaml.Node) -> bool:
    """Say whether a node is text; a number counts as it is written."""
    return isinstance(node, yaml.ScalarNode) and node.tag in _TEXT_TAGS


def nearest(name: str, known: Sequence[str]) -> str:
    """Return the nearest of the known names as a question, or all of them if none is near."""
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"


class Seen:
    """Codes that must be unique in a file; a second one is a problem that names both lines."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}

    def first(self, entry: Entry, name: str, code: str) -> bool:
        """Say whether `code` stands here for the first time."""
        if not code:
            return False
        line = entry.line(name)
        if code in self._lines:
            entry.problem(name, f"{code} stands twice, on lines {self._lines[code]} and {line}")
            return False
        self._lines[code] = line
        return True
