"""Rows that are handed to a statement as one JSON parameter: a page, a portion or a fleet is one statement then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, bindparam, column, func
from sqlalchemy.types import JSON


def given(
    conn: Connection, rows: Sequence[Mapping[str, Any]], shape: Mapping[str, Any]
) -> tuple[FromClause, Callable[[str], ColumnElement[Any]]]:
    """Return rows as something to select from, and a function that gives a column; `shape` has a type for each name."""
    parameter = bindparam(None, list(rows), type_=JSON(), unique=True)
    if conn.dialect.name == "postgresql":
        columns = [column(name, type_) for name, type_ in shape.items()]
        table: Any = func.json_to_recordset(parameter).table_valued(*columns, name="given").render_derived(with_types=True)
        return table, lambda name: table.c[name]
    each: Any = func.json_each(parameter).table_valued("value", name="given")
    return each, lambda name: func.json_extract(each.c.value, f"$.{name}", type_=shape[name])
