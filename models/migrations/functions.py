"""The stored functions of PostgreSQL, kept as one SQL file beside the statements that they replace."""

from __future__ import annotations

from importlib.resources import files

from sqlalchemy import Connection


def install(conn: Connection) -> None:
    """Create or replace the stored functions, inside the migration's own transaction; nothing to do on SQLite.

    The file is what this release calls, also when an old migration runs it on the way to the head: bodies are not
    checked against the tables of the moment.
    """
    if conn.dialect.name != "postgresql":
        return
    script = files("models").joinpath("statements", "functions.sql").read_text(encoding="utf-8")
    conn.exec_driver_sql("SET LOCAL check_function_bodies = off")
    # directly through the driver: several statements in one text, with % and : that are no parameters
    cursor = conn.connection.cursor()
    try:
        cursor.execute(script)
    finally:
        cursor.close()
