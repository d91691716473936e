"""What a site sent when it objected, for people to judge (rule C1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_INDENT = "    "


def evidence_lines(attempt: int, evidence: Mapping[str, Any]) -> list[str]:
    """Return the evidence of an attempt as lines: what it was taken for, the way there, headers, the body's beginning.

    What a site sends is made harmless for a terminal.
    """
    lines = [f"attempt {attempt} met {harmless(evidence.get('line') or evidence.get('kind') or 'a block')}"]
    if signs := evidence.get("signs"):
        lines.append(f"  signs: {', '.join(signs)}")
    if hops := evidence.get("hops"):
        lines.append(f"  way: {harmless(' → '.join(hops))}")
    if headers := evidence.get("headers"):
        lines += ["  headers:", *(f"{_INDENT}{harmless(f'{name}: {value}')}" for name, value in headers.items())]
    if body := evidence.get("body"):
        lines += ["  body:", *_body(body)]
    return lines


def _body(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip():
            yield f"{_INDENT}{harmless(line.rstrip())}"


def harmless(text: str) -> str:
    """Return `text` without what moves a cursor, sets a title or turns the direction of writing."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text.replace("\t", " "))
