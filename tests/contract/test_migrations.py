"""The migrations give exactly the tables that the models describe, once, on both databases (rule D3)."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, inspect, text

from config.errors import BadInput
from models.db import Database
from models.migrate import check, current, migrate
from models.schema import HEAD, metadata
from tests.support.servers import PostgresServer


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    running = PostgresServer().start()
    yield running
    running.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def make_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Gives URLs of empty databases of one kind."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path}/{uuid4().hex}.sqlite3"
    running: PostgresServer = request.getfixturevalue("server")
    return running.create_database


@pytest.fixture
def url(make_url: Callable[[], str]) -> str:
    return make_url()


@pytest.fixture
def another_url(make_url: Callable[[], str]) -> str:
    return make_url()


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    database = Database(url)
    yield database
    database.dispose()


def set_version(db: Database, version: str) -> None:
    with db.write() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})


def _described_by_sqlite(conn: Connection) -> dict[str, Any]:
    rows = conn.execute(text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name != 'alembic_version'"))
    texts = {row.name: re.sub(r"\s+", " ", row.sql).strip() for row in rows}
    return {name: sorted(re.sub(r" ?\)$", "", sql).split(", ")) for name, sql in texts.items()}


def _described_by_postgresql(conn: Connection) -> dict[str, Any]:
    columns = conn.execute(text(
        "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default "
        "FROM information_schema.columns WHERE table_schema = 'public' AND table_name != 'alembic_version'"))
    constraints = conn.execute(text(
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text != 'alembic_version'"))
    indexes = conn.execute(text(
        "SELECT tablename, indexname, indexdef FROM pg_indexes "
        "WHERE schemaname = 'public' AND tablename != 'alembic_version'"))
    return {f"{row[0]}.{row[1]}": tuple(row)[2:] for rows in (columns, constraints, indexes) for row in rows}


DESCRIBED = {"sqlite": _described_by_sqlite, "postgresql": _described_by_postgresql}


def described(db: Database) -> dict[str, Any]:
    """Return all that the database itself says about its tables, version table left out."""
    with db.read() as conn:
        return DESCRIBED[db.dialect](conn)


def test_an_empty_database_is_brought_to_the_head_once(db: Database) -> None:
    assert current(db) is None
    assert migrate(db) == (None, HEAD)
    assert current(db) == HEAD
    assert migrate(db) == (HEAD, HEAD)
    check(db)


def test_the_migrated_schema_differs_in_nothing_from_the_models(db: Database) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    migrate(db)
    with db.engine.connect() as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_both_databases_describe_migrated_tables_as_they_describe_created_ones(
    db: Database, another_url: str
) -> None:
    migrate(db)
    created = Database(another_url)
    with created.write() as conn:
        metadata.create_all(conn)
    assert described(db) == described(created)
    created.dispose()


def test_the_database_itself_refuses_a_second_running_job_of_a_group(db: Database) -> None:
    migrate(db)
    with db.read() as conn:
        indexes = {index["name"]: index for index in inspect(conn).get_indexes("jobs")}
    for name in ("uq_jobs_running_group", "uq_jobs_running_site", "uq_jobs_active_dedupe"):
        assert indexes[name]["unique"]


def test_two_migrations_at_once_do_not_break_each_other(url: str) -> None:
    results: list[Any] = []
    ready = threading.Barrier(4)

    def run(database: Database) -> None:
        ready.wait(10)
        try:
            results.append(migrate(database))
        except Exception as error:
            results.append(error)
        database.dispose()

    databases = [Database(url) for _ in range(4)]
    assert [current(database) for database in databases] == 4 * [None]
    threads = [threading.Thread(target=run, args=[database]) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results, key=str) == sorted([(None, HEAD), (HEAD, HEAD), (HEAD, HEAD), (HEAD, HEAD)], key=str)


def test_a_migration_that_fails_leaves_nothing_behind(db: Database) -> None:
    with db.write() as conn:
        conn.execute(text("CREATE TABLE workers (x integer)"))
    with pytest.raises(Exception, match="workers"):
        migrate(db)
    with db.read() as conn:
        assert set(inspect(conn).get_table_names()) == {"workers"}


def test_a_database_without_schema_is_refused_with_what_to_do(db: Database) -> None:
    with pytest.raises(BadInput, match="run `ratelane migrate`"):
        check(db)


@pytest.mark.parametrize("act", [check, migrate])
def test_a_newer_database_is_refused_with_both_versions(db: Database, act: Any) -> None:
    migrate(db)
    set_version(db, "9999")
    with pytest.raises(BadInput, match=f"the database is at 9999, newer than this program's head {HEAD}"):
        act(db)
    assert current(db) == "9999"


def test_an_older_database_is_refused_except_one_version_for_workers(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(db)
    monkeypatch.setattr("models.migrate.HEAD", "next")
    monkeypatch.setattr("models.migrate._previous", lambda: HEAD)
    with pytest.raises(BadInput, match=f"the database is at {HEAD}, older than this program's head next: run `ratelane migrate`"):
        check(db)
    check(db, previous=True)
    monkeypatch.setattr("models.migrate._previous", lambda: "0001b")
    with pytest.raises(BadInput, match="older"):
        check(db, previous=True)


def test_the_functions_are_there_on_postgresql(server: PostgresServer) -> None:
    db = Database(server.create_database())
    migrate(db)
    with db.read() as conn:
        names = set(conn.scalars(text("SELECT proname FROM pg_proc WHERE proname LIKE 'rl\\_%'")))
    db.dispose()
    assert {"rl_refresh_v3", "rl_claim_v3", "rl_settle_v4"} <= names


def test_the_newest_file_is_the_head_that_the_models_name() -> None:
    from alembic.script import ScriptDirectory

    from models.migrate import _config

    assert ScriptDirectory.from_config(_config()).get_heads() == [HEAD]


def test_a_database_at_the_head_is_recognised_without_importing_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ratelane.sqlite3"
    db = Database(url)
    migrate(db)
    db.dispose()
    script = (
        "import sys; from models.db import Database; from models.migrate import check, migrate; "
        f"db = Database({url!r}); check(db); migrate(db); print('alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
