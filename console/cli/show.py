"""How commands print: one JSON document, or tables and lines for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from console.wording import span as span

if TYPE_CHECKING:
    from rich.console import Console


_WHOLE_COLUMNS = frozenset({"job", "id", "job_id", "status", "outcome", "target", "new", "known", "failed", "pages"})


def print_json(document: Any) -> None:
    """Print `document` on one line of standard output, Unicode readable (rule U6)."""
    print(json.dumps(document, ensure_ascii=False, default=str), flush=True)


def console(*, errors: bool = False) -> Console:
    """Return the console of standard output, or of standard error; colours obey NO_COLOR and the terminal."""
    from rich.console import Console

    stream = sys.stderr if errors else sys.stdout
    # without a terminal a table must not be cut to 80 columns: somebody reads the file later
    width = None if stream.isatty() else 240
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str, errors: bool = False) -> None:
    """Print rows under their headings, or the sentence `empty` if there are none."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        # an id is there to be copied, and a number to be read at one glance
        whole = name in _WHOLE_COLUMNS
        table.add_column(name, overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    console(errors=errors).print(table if table.row_count else empty)


def print_fields(document: Mapping[str, Any]) -> None:
    """Print a document as lines of name and value, leaving out what is empty."""
    width = max((len(name) for name in document), default=0)
    for name, value in document.items():
        if value not in (None, "", [], {}):
            print(f"{name:<{width}}  {cell(value)}")


def cell(value: Any) -> str:
    """Return `value` as people read it: nothing for None, yes or no, short numbers, JSON for parts of documents."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0") if abs(value) >= 1 else f"{value:.3g}"
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def brief(text: str, length: int = 100) -> str:
    """Return the first line of `text`, cut to `length` characters."""
    line = text.partition("\n")[0]
    return line if len(line) <= length else line[: length - 1] + "…"
