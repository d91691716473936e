"""How rows of sites and targets are written: whole rows by their code, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, bindparam, insert, update

from models.sites import sites, targets

Row = dict[str, Any]


def add_sites(conn: Connection, rows: Sequence[Row], now: datetime) -> None:
    """Insert new sites, in code order."""
    _add(conn, sites, rows, now)


def change_sites(conn: Connection, rows: Sequence[Row], now: datetime) -> None:
    """Overwrite the given columns of sites that exist, in code order."""
    _change(conn, sites, "site_code", rows, now)


def add_targets(conn: Connection, rows: Sequence[Row], now: datetime) -> None:
    """Insert new targets, in code order."""
    _add(conn, targets, rows, now)


def change_targets(conn: Connection, rows: Sequence[Row], now: datetime) -> None:
    """Overwrite the given columns of targets that exist, in code order; never what was learned about them."""
    _change(conn, targets, "target_code", rows, now)


def _add(conn: Connection, table: Table, rows: Sequence[Row], now: datetime) -> None:
    if rows:
        conn.execute(insert(table), [{**row, "created_at": now, "updated_at": now} for row in rows])


def _change(conn: Connection, table: Table, code: str, rows: Sequence[Row], now: datetime) -> None:
    if rows:
        statement = update(table).where(table.c[code] == bindparam("the_code"))
        changes = [{**{k: v for k, v in row.items() if k != code}, "updated_at": now, "the_code": row[code]} for row in rows]
        conn.execute(statement, changes)
