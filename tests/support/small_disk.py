"""Databases that can store nothing more: a worker whose SQLite file may not grow, a disk that is full, a read-only one.

As a Celery application (``celery -A tests.support.small_disk worker``) it is the ordinary one, except that no connection
may let the file grow while the file named by ``SMALL_DISK`` exists.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from config.celery import app

__all__ = ["app", "ballast", "may_not_grow", "read_only", "small_disk"]
UNLIMITED = 1_073_741_823


def may_not_grow(flag: Path) -> None:
    """Make every SQLite file that this process writes keep its size while `flag` exists."""

    @event.listens_for(Pool, "checkout")
    def _limit(connection: Any, *_: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            # a limit below the present size means the present size
            connection.execute(f"PRAGMA max_page_count={1 if flag.exists() else UNLIMITED}")


if os.environ.get("SMALL_DISK"):
    may_not_grow(Path(os.environ["SMALL_DISK"]))


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Give `folder` as a disk of its own; skips the test where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs"]
    try:
        subprocess.run(["mount", *options, folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no disk can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def ballast(folder: Path) -> Iterator[None]:
    """Fill the disk of `folder` to its last byte until the block ends."""
    weight = folder / "ballast"
    with weight.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    try:
        yield
    finally:
        weight.unlink()


@contextmanager
def read_only(url: str) -> Iterator[None]:
    """Make a PostgreSQL database refuse writes, to those who are connected too, until the block ends."""
    name = url.partition("@/")[2].partition("?")[0]
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True, options="-c default_transaction_read_only=off") as line:
        _set(line, name, "on")
        try:
            yield
        finally:
            _set(line, name, "off")


def _set(line: psycopg.Connection[Any], name: str, word: str) -> None:
    line.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {word}".encode())
    line.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                 "AND pid <> pg_backend_pid() AND application_name = 'ratelane'")
