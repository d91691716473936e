"""A copy of the store while it is in use (rule D3): one consistent file, there as a whole or not at all.

SQLite copies itself through a connection of its own, in one step: under write-ahead logging nobody waits for that.
PostgreSQL's own program does it, in its custom format, which `pg_restore` reads.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import URL, make_url

from config.errors import BadInput, RatelaneError
from config.settings import redact_url

NO_PG_DUMP = ("PostgreSQL is backed up by its own program pg_dump, which is not on the PATH: install the client programs of "
              "PostgreSQL, or run it where they are, for example: "
              "docker compose exec -T postgres pg_dump --username ratelane --format=custom ratelane > FILE")


def backup(database_url: str, file: Path, *, force: bool = False) -> dict[str, Any]:
    """Write a copy of the database to `file` and return ``{"file", "bytes"}``; workers may go on meanwhile.

    It is written under another name beside it first. Raises BadInput if the file exists (unless `force`), cannot be
    written, is the database itself, or if PostgreSQL's program is missing; RatelaneError if the copy fails.
    """
    url = make_url(database_url)
    file = file.expanduser().absolute()
    write = _sqlite(url) if url.get_backend_name() == "sqlite" else _postgresql(url)
    _refuse(url, file, force)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".part", dir=file.parent)
    except OSError as error:
        raise BadInput(f"{file.parent} cannot be written to: {error.strerror}") from error
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        _put(part, file, force)
    finally:
        part.unlink(missing_ok=True)
    return {"file": str(file), "bytes": file.stat().st_size}


def _refuse(url: URL, file: Path, force: bool) -> None:
    if file.is_dir():
        raise BadInput(f"{file} is a folder: name a file")
    if url.get_backend_name() == "sqlite" and url.database and file.resolve() == Path(url.database).resolve():
        raise BadInput(f"{file} is the database itself")
    if file.exists() and not force:
        raise BadInput(f"{file} exists: name another file, or replace it with --force")


def _put(part: Path, file: Path, force: bool) -> None:
    """Give the finished copy its name, durably; without `force` never the name of a file that came meanwhile."""
    with part.open("rb") as written:
        os.fsync(written.fileno())
    if force:
        os.replace(part, file)
    else:
        try:
            os.link(part, file)
        except FileExistsError:
            raise BadInput(f"{file} exists: name another file, or replace it with --force") from None
        except OSError:  # a file system without links
            os.replace(part, file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _sqlite(url: URL) -> Callable[[Path], None]:
    def write(part: Path) -> None:
        try:
            with closing(sqlite3.connect(url.database or "", timeout=10)) as source, \
                    closing(sqlite3.connect(part)) as copy:
                source.backup(copy)
                # one file, that needs no other beside it
                copy.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.Error as error:
            raise RatelaneError(f"the copy failed: {error}") from error

    return write


def _postgresql(url: URL) -> Callable[[Path], None]:
    program = shutil.which("pg_dump")
    if program is None:
        raise BadInput(NO_PG_DUMP)
    # the password goes by the environment: arguments can be seen by everybody on the machine
    secret = {} if url.password is None else {"PGPASSWORD": str(url.password)}
    address = url.set(drivername="postgresql")._replace(password=None).render_as_string(hide_password=False)

    def write(part: Path) -> None:
        done = subprocess.run(
            [program, "--format=custom", "--no-password", f"--file={part}", f"--dbname={address}"],
            env=os.environ | secret, capture_output=True, text=True, check=False)
        if done.returncode:
            words = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
            raise RatelaneError(f"pg_dump failed: {redact_url(words[-1])}")

    return write
