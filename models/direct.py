"""The driver itself, for the few statements that run several times for every job.

SQLAlchemy's execution costs more than these statements take in the database. Connections still come from its pool,
and errors still go out as its exceptions, so nobody above notices the difference.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from models.busy_file import begun


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
    """One connection of an engine's pool, for a block, or one that the caller has; if it autocommits, each call is one
    statement and one transaction."""

    __slots__ = ("_connection", "_engine", "dialect")

    def __init__(self, engine: Engine, connection: Any = None) -> None:
        self._engine, self._connection = engine, connection
        self.dialect = engine.dialect.name

    def __enter__(self) -> Direct:
        self._connection = _connected(self._engine)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def exec_driver_sql(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> Rows:
        """Run a statement in the driver's own notation; raises what SQLAlchemy would raise."""
        return Rows(self._run(sql, parameters, lambda cursor: cursor.fetchall()))

    def change(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Run a statement that returns no rows; returns how many it has changed."""
        changed: int = self._run(sql, parameters, lambda cursor: cursor.rowcount)
        return changed

    def _run(self, sql: str, parameters: Any, read: Callable[[Any], Any]) -> Any:
        driver = self._engine.dialect.dbapi
        assert driver is not None
        cursor = self._connection.cursor()
        try:
            cursor.execute(sql, parameters)
            return read(cursor)
        except driver.Error as error:
            gone = self._engine.dialect.is_disconnect(error, self._connection, cursor)
            if gone:
                self._connection.invalidate(error)
            raise _wrapped(self._engine, sql, error, gone) from error
        finally:
            if self._connection.is_valid:
                cursor.close()

    def execute(self, statement: Any, parameters: Mapping[str, Any]) -> Rows:
        """Run a prepared statement of ours that returns rows; compiled once, its parameters are plain values."""
        sql, fixed, row = _compiled(self._engine, statement)
        return Rows([row(*values) for values in self.exec_driver_sql(sql, {**fixed, **parameters}).all()])


def _connected(engine: Engine) -> Any:
    """Return a connection of the pool; raises what `engine.connect` would raise, where the pool lets the driver's own through."""
    driver = engine.dialect.dbapi
    assert driver is not None
    try:
        return engine.raw_connection()
    except driver.Error as error:
        raise _wrapped(engine, "", error, engine.dialect.is_disconnect(error, None, None)) from error


def _wrapped(engine: Engine, sql: str, error: Any, gone: bool) -> Any:
    """Return an error of the driver's as the exception that SQLAlchemy makes of it."""
    driver: Any = engine.dialect.dbapi
    return DBAPIError.instance(sql, None, error, driver.Error, connection_invalidated=gone, dialect=engine.dialect)


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


@contextmanager
def direct_write(engine: Engine) -> Iterator[Direct]:
    """Give a SQLite connection inside one transaction, committed at the end and rolled back on an exception."""
    connection = _connected(engine)
    try:
        conn = Direct(engine, connection)
        if not begun(connection.dbapi_connection):
            conn.change("BEGIN IMMEDIATE")
        try:
            yield conn
            conn.change("COMMIT")
        except BaseException:
            # a full disk may have ended the transaction already
            driver: Any = connection.dbapi_connection
            if connection.is_valid and driver.in_transaction:
                conn.change("ROLLBACK")
            raise
    finally:
        connection.close()
