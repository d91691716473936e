"""The schema's version: bring it to the head, and refuse to work on one that does not fit (rule D3).

Alembic is imported only when there is something to migrate or to explain: it is slow to import and every command asks.
Migrations run in one transaction; a lock makes a second program wait and then find nothing left to do.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect

from config.errors import BadInput
from models.db import Database
from models.schema import HEAD

if TYPE_CHECKING:
    from alembic.config import Config

#: the advisory lock of migrations on PostgreSQL, any number that nothing else of ours uses
LOCK = 0x7261_7465_6C01
_VERSION = "SELECT version_num FROM alembic_version"


def current(db: Database) -> str | None:
    """Return the version of the database's schema; None if it has none yet."""
    with db.read() as conn:
        return _current(conn)


def check(db: Database, *, previous: bool = False) -> None:
    """Make sure that this program can work on the database.

    With `previous`, the version before the head is fine too: for workers while a new release is rolled out.
    Raises BadInput: the database is newer (both versions are named), or older, or empty (`ratelane migrate`).
    """
    at = current(db)
    if at == HEAD:
        return
    if at is None:
        raise BadInput("the database has no schema yet: run `ratelane migrate`")
    if _is_known(at):
        if previous and at == _previous():
            return
        raise BadInput(f"the database is at {at}, older than this program's head {HEAD}: run `ratelane migrate`")
    raise BadInput(_newer(at))


def migrate(db: Database) -> tuple[str | None, str]:
    """Bring the schema to the head, all or nothing, and return the versions before and after.

    Raises BadInput if the database is newer than the program.
    """
    if current(db) == HEAD:
        return HEAD, HEAD
    with db.write() as conn:
        _be_alone(conn)
        before = _current(conn)
        if before != HEAD:
            _upgrade(conn, before)
    return before, HEAD


def _current(conn: Connection) -> str | None:
    if not inspect(conn).has_table("alembic_version"):
        return None
    return conn.exec_driver_sql(_VERSION).scalar()


def _be_alone(conn: Connection) -> None:
    """Wait for another migration to end; SQLite's write lock, taken when the transaction began, does the same."""
    if conn.dialect.name != "postgresql":
        return
    for limit in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
        conn.exec_driver_sql(f"SET LOCAL {limit} = 0")
    conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")


def _upgrade(conn: Connection, before: str | None) -> None:
    from alembic import command

    if before is not None and not _is_known(before):
        raise BadInput(_newer(before))
    config = _config()
    config.attributes["connection"] = conn
    command.upgrade(config, HEAD)


def _newer(at: str) -> str:
    return (
        f"the database is at {at}, newer than this program's head {HEAD}: "
        "install the release that migrated it, or a later one"
    )


def _is_known(version: str) -> bool:
    from alembic.script import ScriptDirectory

    return version in {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def _previous() -> str | None:
    from alembic.script import ScriptDirectory

    before = ScriptDirectory.from_config(_config()).get_revision(HEAD).down_revision
    return before if isinstance(before, str) else None


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    folder = str(files("models").joinpath("migrations"))
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
