"""Write docs/settings.md from the settings themselves: ``python -m scripts.settings_doc`` (or `make docs`)."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from config.settings import Settings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

#: in words, the defaults that are made from something else
MADE = {
    "broker_url": "a Valkey server of its own",
    "database_url": "a SQLite file in the home",
    "soft_stop_sec": "`RATELANE_REQUEST_TIMEOUT_SEC` + 10",
    "user_agent": "`Ratelane/<version>` and a placeholder for the contact: name your own",
}

HEAD = """# Settings

This page is written from `config/settings.py` by `make docs`; a test compares them.

A value comes from the first of these that has one:

1. `--home DIR`, for the home alone;
2. the environment, as `RATELANE_<NAME>`;
3. a file `.env` in the current folder, with the same names;
4. `ratelane.toml` in the home folder, with the names in lower case and without `RATELANE_`: `lease_sec = 60`.

A name that is not in this list is an error that names the nearest one. So is a value that cannot be. An empty
variable counts as not set. Names end in their unit: `_sec` seconds (fractions are allowed), `_days` days,
`_bytes` bytes.

Values that must fit together: a lease is longer than two heartbeats, and a request's limit is shorter than a lease.
All processes of one database should run with the same values.
"""


def render() -> str:
    """Return the text of the page."""
    parts = [HEAD]
    for heading, names in groups():
        parts.append(f"\n## {heading}\n\n| name | default | is |\n| --- | --- | --- |\n")
        parts += [_row(name, Settings.model_fields[name]) for name in names]
    return "".join(parts)


def groups() -> Iterator[tuple[str, list[str]]]:
    """Yield the headings that stand as comments in the class, each with the names of the fields below it."""
    heading, names = "", list[str]()
    for line in inspect.getsource(Settings).splitlines():
        comment = re.match(r"    # (\w.*)", line)
        field = re.match(r"    (\w+): ", line)
        if comment:
            if names:
                yield heading, names
            heading, names = comment[1][0].upper() + comment[1][1:], []
        elif field and field[1] in Settings.model_fields:
            names.append(field[1])
    yield heading, names


def _row(name: str, field: FieldInfo) -> str:
    said = field.description or ""
    choices = _choices(field.annotation)
    if choices:
        said += f" ({', '.join(f'`{choice}`' for choice in choices)})"
    return f"| `RATELANE_{name.upper()}` | {_default(name, field)} | {said} |\n"


def _default(name: str, field: FieldInfo) -> str:
    if field.default_factory is not None:
        return MADE[name]
    value: Any = field.default
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value}`"


def _choices(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    if get_origin(annotation) in (Union, types.UnionType):
        return [choice for part in get_args(annotation) for choice in _choices(part)]
    return []


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
