"""The driver itself, for the few statements that run several times for every job.

SQLAlchemy's execution costs more than these statements take in the database. Connections still come from its pool,
and errors still go out as its exceptions, so nobody above notices the difference.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError


class Rows:
    """Rows that have been fetched already."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def all(self) -> list[Any]:
        """Return every row."""
        return self._rows

    def first(self) -> Any:
        """Return the first row, None without one."""
        return self._rows[0] if self._rows else None

    def one(self) -> Any:
        """Return the only row."""
        (row,) = self._rows
        return row

    def scalar_one(self) -> Any:
        """Return the only row's only value."""
        return self.one()[0]


class Direct:
    """One connection of an autocommitting engine's pool, for a block: each call is one statement and one transaction."""

    __slots__ = ("_connection", "_engine")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Any = None

    def __enter__(self) -> Direct:
        self._connection = self._engine.raw_connection()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def exec_driver_sql(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> Rows:
        """Run a statement in the driver's own notation; raises what SQLAlchemy would raise."""
        driver = self._engine.dialect.dbapi
        assert driver is not None
        cursor = self._connection.cursor()
        try:
            cursor.execute(sql, parameters)
            return Rows(cursor.fetchall())
        except driver.Error as error:
            gone = self._engine.dialect.is_disconnect(error, self._connection, cursor)
            if gone:
                self._connection.invalidate(error)
            raise DBAPIError.instance(
                sql, None, error, driver.Error, connection_invalidated=gone, dialect=self._engine.dialect) from error
        finally:
            if self._connection.is_valid:
                cursor.close()

    def execute(self, statement: Any, parameters: Mapping[str, Any]) -> Rows:
        """Run a prepared statement of ours that returns rows; compiled once, its parameters are plain values."""
        sql, fixed, row = _compiled(self._engine, statement)
        return Rows([row(*values) for values in self.exec_driver_sql(sql, {**fixed, **parameters}).all()])


_statements: dict[int, tuple[Any, str, dict[str, Any], Any]] = {}


def _compiled(engine: Engine, statement: Any) -> tuple[str, dict[str, Any], Any]:
    found = _statements.get(id(statement))
    if found is None:
        compiled = statement.compile(dialect=engine.dialect)
        columns = getattr(statement, "exported_columns", None) or statement.selected_columns
        row = namedtuple("Row", [column.key for column in columns])  # type: ignore[misc]
        # the statement is kept with its text, so that its id stays its own
        found = _statements[id(statement)] = (statement, compiled.string, dict(compiled.params), row)
    return found[1:]
