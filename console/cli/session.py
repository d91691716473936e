"""What every command starts from: the global options, the settings of its home, its database."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from config.settings import Settings
    from models.db import Database
    from models.operations import Operator

_current: Session | None = None


@dataclass
class Session:
    """One run of the command line; settings and database are opened when a command first asks for them."""

    home: Path | None = None
    quiet: bool = False
    verbose: bool = False
    _opened: list[Database] = field(default_factory=list)

    def __post_init__(self) -> None:
        global _current
        _current = self

    @cached_property
    def settings(self) -> Settings:
        """The settings of this command, which are from now on those of the whole process; logs go to standard error."""
        from config import logs
        from config.settings import load_settings, use_settings

        settings = use_settings(load_settings(self.home))
        logs.configure(settings, level=logging.INFO if self.verbose else logging.WARNING)
        return settings

    @cached_property
    def database(self) -> Database:
        """The database, at the schema that this program knows; the embedded one is brought there first (rule D3).

        Raises ServiceAway if it does not answer, BadInput if its schema is another one.
        """
        from models.migrate import check, migrate

        database = self.open_database()
        if self.settings.embedded_database:
            migrate(database)
        else:
            check(database)
        return database

    @property
    def stores_nothing_yet(self) -> bool:
        """Whether the embedded database has not been made; asking makes nothing."""
        return self.settings.embedded_database and not (self.settings.home / "ratelane.sqlite3").exists()

    def operator(self, reason: str | None = None) -> Operator:
        """Who acts by this command, for the log of operations."""
        from models.operations import acting

        return acting(self.settings, "cli", reason or "")

    def open_database(self, *, reports: bool = False) -> Database:
        """Return the database whatever its schema is; with `reports` reads may take as long as they need."""
        from models.db import open_database

        database = open_database(self.settings, reports=reports)
        self._opened.append(database)
        return database

    def close(self) -> None:
        """Close what the command opened."""
        for database in self._opened:
            database.dispose()

    def say(self, sentence: str) -> None:
        """Print a remark on standard error, unless quiet."""
        if not self.quiet:
            print(sentence, file=sys.stderr, flush=True)


def session_of(ctx: typer.Context) -> Session:
    """Return the session that the global options made."""
    session = ctx.find_object(Session)
    if session is None:
        raise RuntimeError("a command ran without the global callback")
    return session


def command_session() -> Session | None:
    """Return the session of this process, if its command got so far."""
    return _current
