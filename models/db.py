"""Connections: one engine a process, opened after the fork, with limits that no frozen process can outlive.

A process that is stopped in the middle of a transaction must not hold a lane, so PostgreSQL ends idle transactions
after 10 s, waits at most 5 s for a lock and 15 s for a statement (design, section 3). On SQLite every transaction that
writes takes the write lock at its beginning: a read that becomes a write would be refused half way.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from config import clock
from config.errors import BadInput, ServiceAway
from config.logs import get_logger, log_event
from config.settings import Settings, get_settings, redact_url
from models.busy_file import BUSY_SEC, begun, use_wal
from models.direct import Direct, direct_write
from models.forks import GATE
from models.server_clock import ServerClock
from models.together import Together

T = TypeVar("T")
log = get_logger("ratelane.db")

#: how a session on PostgreSQL protects the others from itself; `statement_timeout` is lifted for reports and migrations
IDLE_IN_TRANSACTION_MS, LOCK_MS, STATEMENT_MS, TCP_USER_MS = 10_000, 5_000, 15_000, 15_000
#: with a wait for a lock before that, or another one's look behind it, a frozen beat holds up nobody for longer than 15 s
BEAT_IDLE_MS, BEAT = 8_000, "ratelane-beat"
#: SQLSTATEs after which the same transaction may simply be tried again
_AGAIN = frozenset({
    "40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03", "25P03", "25P04", "53300", "25006", "53100"})
#: why a database that answers can store nothing (rule D5): by SQLSTATE, and by SQLite's words
_STORES_NOTHING = {"25006": "database_read_only", "53100": "database_full"}
#: what SQLite reports like a file that is busy, though the statement itself is wrong
_WRONG_SQLITE = ("no such ", "syntax error", "has no column", "ambiguous column", "misuse of aggregate")
_STORES_NOTHING_SQLITE = {"disk is full": "database_full", "readonly database": "database_read_only"}


class Database:
    """One database as one process sees it.

    `url` is SQLAlchemy's (``sqlite:///…`` or ``postgresql+psycopg://…``). With `reports` statements may take as long as
    they need: for migrations and long reads. Those of a `beat` plan with the indexes, however small a table is now, because
    plans are kept while it grows, and on PostgreSQL are ended sooner if they stand in a transaction. With `plan_each` no plan
    is kept: for filters that let through one row or a million.
    """

    def __init__(self, url: str, *, reports: bool = False, connections: int = 10, beat: bool = False,
                 plan_each: bool = False) -> None:
        self.url = url
        self._single: Engine
        self.dialect = make_url(url).get_backend_name()
        options: dict[str, Any] = {"max_overflow": 0, "pool_timeout": 30, "pool_use_lifo": True}
        if self.dialect == "postgresql":
            options["connect_args"] = postgresql_arguments(reports, beat, plan_each)
        elif self.dialect == "sqlite":
            options["connect_args"] = {"timeout": BUSY_SEC, "check_same_thread": False}
        else:
            raise ServiceAway(f"database {redact_url(url)}: only postgresql+psycopg:// and sqlite:/// are supported")
        if self.dialect == "sqlite":
            self.engine = create_engine(url, pool_size=connections, **options)
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
            GATE.watch(self)
            self._single = self.engine.execution_options(isolation_level="AUTOCOMMIT")
            self._together = Together(self._write_direct)
        else:
            # most statements stand alone: theirs are connections that never have to change how they commit
            together = max(2, connections // 3)
            self.engine = create_engine(url, pool_size=together, **options)
            # nothing to roll back when they are given back
            self._single = create_engine(url, isolation_level="AUTOCOMMIT", pool_size=connections - together,
                                         pool_reset_on_return=None, **options)
            self.server_clock = ServerClock(self._server_time)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection on which each statement stands alone: for reads, and for single guarded statements."""
        with self._guard(), self._single.connect() as conn:
            yield conn

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection inside one transaction, committed at the end and rolled back on an exception."""
        with self._guard(), self.engine.connect() as conn, conn.begin():
            yield conn

    def once(self) -> AbstractContextManager[Any]:
        """Give a connection for one hot statement: the driver's own on PostgreSQL, a transaction on SQLite."""
        return Direct(self._single) if self.dialect == "postgresql" else self.write()

    def _server_time(self) -> datetime:
        with self.once() as conn:
            found: datetime = conn.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        return found

    def together(self, work: Callable[[Direct], T]) -> T:
        """Do a short `work` of the driver's own statements and return what it returns, once that is committed.

        On PostgreSQL each statement is a transaction of its own. On SQLite the works of several threads are committed
        as one (see `models.together`): `work` may be done twice.
        """
        if self.dialect == "postgresql":
            with Direct(self._single) as conn:
                return work(conn)
        return self._together.do(work)

    @contextmanager
    def _write_direct(self) -> Iterator[Direct]:
        with self._guard(), direct_write(self.engine) as conn:
            yield conn

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """Give a connection inside one read-only snapshot, for documents made from several statements."""
        level = "REPEATABLE READ" if self.dialect == "postgresql" else None
        options: dict[str, Any] = {"rl_reads": True} | ({"isolation_level": level} if level else {})
        with self._guard(), self.engine.connect().execution_options(**options) as conn:
            yield conn
            conn.rollback()

    def _guard(self) -> AbstractContextManager[None]:
        """A SQLite file must not be open in this process while it forks."""
        return GATE.using() if self.dialect == "sqlite" else nullcontext()

    def dispose(self) -> None:
        """Close every connection that nobody uses."""
        self.engine.dispose()
        self._single.dispose()


def postgresql_arguments(reports: bool, beat: bool = False, plan_each: bool = False) -> dict[str, Any]:
    """Return what every session on PostgreSQL is opened with, pooled or not: of reports, of a beat, or of anybody."""
    limits: dict[str, int | str] = {
        "idle_in_transaction_session_timeout": BEAT_IDLE_MS if beat else IDLE_IN_TRANSACTION_MS,
        "lock_timeout": 0 if reports else LOCK_MS,
        "statement_timeout": 0 if reports else STATEMENT_MS,
    }
    if beat:
        limits["enable_seqscan"] = "off"
    # one plan for all values: planning the hot statements anew each time costs more than running them
    limits["plan_cache_mode"] = "force_custom_plan" if plan_each else "force_generic_plan"
    return {
        "options": "-c default_transaction_isolation=read\\ committed -c timezone=UTC "
        + " ".join(f"-c {name}={value}" for name, value in limits.items()),
        "connect_timeout": 5,
        "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 2,
        "tcp_user_timeout": TCP_USER_MS,
        "application_name": BEAT if beat else "ratelane",
    }


def _prepare_sqlite(connection: Any, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver must not begin or commit on its own
    connection.create_function("rl_now", 0, clock.now_micros)
    connection.create_function("rl_match", 2, lambda pattern, key: re.search(pattern, key) is not None)
    for pragma in (f"busy_timeout={int(1000 * BUSY_SEC)}", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
    use_wal(connection)


def _begin_sqlite(conn: Connection) -> None:
    options = conn.get_execution_options()
    if options.get("isolation_level") == "AUTOCOMMIT":
        return
    if options.get("rl_reads"):
        conn.exec_driver_sql("BEGIN")
    elif not begun(conn.connection.dbapi_connection):
        conn.exec_driver_sql("BEGIN IMMEDIATE")


def is_transient(error: BaseException) -> bool:
    """Tell whether `error` says that the database was away, busy or asked to try again (never that the data is wrong)."""
    if not isinstance(error, DBAPIError):
        return isinstance(error, SQLAlchemyError) and "QueuePool limit" in str(error)
    if isinstance(error.orig, sqlite3.Error) and any(text in str(error.orig) for text in _WRONG_SQLITE):
        return False
    if error.connection_invalidated or isinstance(error, OperationalError | InterfaceError):
        return True
    return getattr(error.orig, "sqlstate", None) in _AGAIN


def storage_trouble(error: BaseException | None) -> str | None:
    """Return ``database_full`` or ``database_read_only`` if `error` says that the database answers but stores nothing."""
    if not isinstance(error, DBAPIError):
        return None
    found = _STORES_NOTHING.get(getattr(error.orig, "sqlstate", None) or "")
    if found is None and isinstance(error.orig, sqlite3.Error):
        return next((word for text, word in _STORES_NOTHING_SQLITE.items() if text in str(error.orig)), None)
    return found


def patiently(
    work: Callable[[], T], *, give_up: Callable[[], bool] = lambda: False, meanwhile: Callable[[], object] | None = None
) -> T:
    """Do `work` until the database has answered; what it raised last passes through once `give_up` says so (rule J18).

    Only errors that say that the database was away, busy, full or read-only are waited for. `meanwhile` is done before
    each further try; what it raises of the same sort changes nothing.
    """
    tries = 0
    while True:
        try:
            return work()
        except SQLAlchemyError as error:
            if not is_transient(error) or give_up():
                raise
            tries += 1
            log_event(log, "database.away", level=logging.WARNING, tries=tries, error=type(error).__name__,
                      reason=storage_trouble(error))
            clock.pause(min(2.0, 0.1 * 2 ** min(tries, 5)))
            if meanwhile is not None:
                with suppress_transient():
                    meanwhile()


@contextmanager
def suppress_transient() -> Iterator[None]:
    """Go on behind the block if the database was away in it."""
    try:
        yield
    except SQLAlchemyError as error:
        if not is_transient(error):
            raise


def open_database(settings: Settings, *, reports: bool = False) -> Database:
    """Return the database of `settings`, having asked it for an answer.

    Raises ServiceAway, saying what to start or to install, if it does not answer; BadInput if the home cannot be made.
    """
    if settings.database_url.startswith("sqlite"):
        try:
            settings.home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(unusable(settings.home, error)) from error
    database = Database(settings.database_url, reports=reports)
    try:
        with database.read() as conn:
            conn.exec_driver_sql("SELECT 1")
    except DBAPIError as error:
        where = redact_url(settings.database_url)
        hint = (
            "is its folder there and writable?" if database.dialect == "sqlite"
            else "start PostgreSQL there, or unset RATELANE_DATABASE_URL to use the embedded SQLite"
        )
        reason = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
        raise ServiceAway(f"the database {where} does not answer: {hint} ({reason})") from error
    return database


def unusable(place: object, error: OSError) -> str:
    """Return what to do about a folder or file of the home that cannot be used."""
    return (f"{place} cannot be written ({error.strerror or error}): name another home with --home or RATELANE_HOME, or make "
            "it a folder of your own")


_opened: dict[int, Database] = {}
_opening = threading.Lock()


def get_database() -> Database:
    """Return the process's own database: made after the fork, one for all threads."""
    pid = os.getpid()
    found = _opened.get(pid)
    if found is None:
        with _opening:
            found = _opened.get(pid)
            if found is None:
                _opened.clear()  # what a parent opened is the parent's; psycopg closes only sockets of its own process
                found = _opened[pid] = Database(get_settings().database_url)
    return found


def after_fork() -> None:
    """Make a pool child forget its parent's lock and engine (a fork may have happened while the lock was held)."""
    global _opening
    _opening = threading.Lock()
    _opened.clear()
