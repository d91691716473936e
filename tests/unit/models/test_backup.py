"""D3: `backup` copies the store while it is in use; the copy opens, is whole, and is there entirely or not at all."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
from pathlib import Path

import pytest

from config.errors import BadInput, RatelaneError
from models import queries
from models.backup import NO_PG_DUMP, backup
from models.db import Database
from tests.support.ledger import SMALL, Bench, seed
from tests.support.servers import PostgresServer
from tests.support.store import Shelf


@pytest.fixture
def bench(shelf: Shelf, tmp_path: Path) -> Bench:
    db = shelf.sqlite(tmp_path / "home")
    seed(db, SMALL)
    return Bench(db)


def test_a_copy_made_while_others_write_is_whole_and_works(bench: Bench, tmp_path: Path) -> None:
    over, wrote = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not over.is_set():
            bench.submit(("t1", "t2", "t3")[number % 3], job_id=f"j{number}")
            number += 1
            if number >= 20:
                wrote.set()

    writer = threading.Thread(target=write)
    writer.start()
    wrote.wait(30)
    try:
        found = backup(bench.db.url, tmp_path / "copy.sqlite3")
    finally:
        over.set()
        writer.join(30)
    assert found == {"file": str(tmp_path / "copy.sqlite3"), "bytes": (tmp_path / "copy.sqlite3").stat().st_size}
    line = sqlite3.connect(tmp_path / "copy.sqlite3")
    assert line.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    line.close()
    copy = Bench(Database(f"sqlite:///{tmp_path}/copy.sqlite3"))
    with copy.db.look() as conn:
        jobs = queries.jobs(conn, queries.JobFilter(limit=None))
    assert len(jobs) >= 20
    assert sorted(int(job["job_id"][1:]) for job in jobs) == list(range(len(jobs)))  # one moment of it
    assert copy.start(copy.claim())
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.endswith(".part")) == []


def test_an_existing_file_is_not_overwritten_unless_asked_for(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "copy.sqlite3"
    file.write_text("precious")
    with pytest.raises(BadInput, match="exists: name another file, or replace it with --force"):
        backup(bench.db.url, file)
    assert file.read_text() == "precious"
    assert backup(bench.db.url, file, force=True)["bytes"] > 1000


def test_the_database_itself_is_never_replaced(bench: Bench, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "home" / "ratelane.sqlite3")
    for file in (tmp_path / "home" / "ratelane.sqlite3", link):
        with pytest.raises(BadInput, match="is the database itself"):
            backup(bench.db.url, file, force=True)


@pytest.mark.parametrize(("name", "words"), [("home", "is a folder"), ("nowhere/copy", "cannot be written to")])
def test_a_place_that_cannot_be_is_named(bench: Bench, tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        backup(bench.db.url, tmp_path / name)


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.sqlite3").write_bytes(b"this is no database, but long enough to look like one" * 100)
    with pytest.raises(RatelaneError, match="the copy failed"):
        backup(f"sqlite:///{tmp_path}/broken.sqlite3", tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.sqlite3"]


def test_postgresql_without_its_program_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput) as refused:
        backup("postgresql+psycopg://me:hush@localhost/db", tmp_path / "copy")
    assert str(refused.value) == NO_PG_DUMP


def test_postgresql_is_copied_by_its_own_program_and_restored(
    shelf: Shelf, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{postgres._bin}{os.pathsep}{os.environ['PATH']}")
    bench = Bench(shelf.postgresql(postgres))
    seed(bench.db, SMALL)
    job_id = bench.submit().job_id
    assert backup(bench.db.url, tmp_path / "copy.dump")["bytes"] > 1000
    other = postgres.create_database()
    subprocess.run(["pg_restore", "--clean", "--if-exists", "--dbname", other.replace("+psycopg", ""), tmp_path / "copy.dump"],
                   check=True, capture_output=True)
    copy = Bench(Database(other))
    assert copy.claim().job_id == job_id
    copy.db.dispose()
    bench.db.dispose()
    with pytest.raises(RatelaneError, match="pg_dump failed"):
        backup(bench.db.url.replace("test_", "no_such_"), tmp_path / "other.dump")
    assert not (tmp_path / "other.dump").exists()
