"""Whether the services answer, each with what to do if not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from config.broker import broker_line, is_redis, may_forget
from config.errors import RatelaneError, ServiceAway
from config.settings import Settings, redact_url

if TYPE_CHECKING:
    from models.db import Database

_ANSWER_WITHIN_SEC = 3.0
NO_BUNDLED_BROKER = ("the bundled broker of this home does not run: it lives as long as `ratelane crawl` or `ratelane up`; "
                     "start one of them, or set RATELANE_BROKER_URL")


def require_broker(settings: Settings) -> str | None:
    """Raise ServiceAway, saying what to start or to install, if the configured broker does not answer.

    Returns a warning if it answers and may lose messages.
    """
    problem, warning = look_at_broker(settings)
    if problem is not None and settings.embedded_broker:
        raise ServiceAway(NO_BUNDLED_BROKER)
    if problem is not None:
        where = redact_url(settings.broker_url)
        raise ServiceAway(f"the broker {where} does not answer: start it, or unset RATELANE_BROKER_URL to use the "
                          f"bundled one ({problem})")
    return warning


def broker_problem(settings: Settings) -> str | None:
    """Return why the broker does not answer, or None if it does."""
    return look_at_broker(settings)[0]


def look_at_broker(settings: Settings) -> tuple[str | None, str | None]:
    """Return why the broker does not answer (None if it does), and a warning if it may lose messages."""
    from kombu.connection import Connection

    connect: Any = Connection
    known = broker_line(settings.broker_url)
    redis = is_redis(settings.broker_url)
    options = known.options | (
        {"socket_connect_timeout": _ANSWER_WITHIN_SEC, "socket_timeout": _ANSWER_WITHIN_SEC} if redis else {})
    line = connect(known.url, ssl=known.tls, connect_timeout=_ANSWER_WITHIN_SEC, transport_options=options)
    try:
        # a channel, because the connection of some transports answers before the server does
        line.ensure_connection(max_retries=1, interval_start=0, timeout=_ANSWER_WITHIN_SEC)
        with line.channel() as channel:
            if redis:
                channel.client.ping()
            return None, may_forget(settings.broker_url, channel)
    except Exception as error:
        return redact_url(f"{type(error).__name__}: {error}".splitlines()[0]), None
    finally:
        line.release()


def health_of(settings: Settings, open_database: Callable[[], Database]) -> dict[str, Any]:
    """Return the document of `health`: each service, and whether a worker consumes work (rule D2).

    ``{"ok", "database_ok", "database_error", "broker_ok", "broker_error", "broker_warning", "workers",
    "workers_consuming"}``; `ok` only if all of them are, and the database stores what it is given. A worker consumes if
    its lane consumer looked for work within three of its heartbeats.
    """
    from models import queries
    from models.migrate import check

    found: list[dict[str, Any]] = []
    database_error: str | None = None
    try:
        database = open_database()
        check(database, previous=True)
        with database.look() as conn:
            found = queries.workers(conn)
        database_error = _stores_nothing(database, settings)
    except RatelaneError as error:
        database_error = str(error)
    broker_error, broker_warning = look_at_broker(settings)
    if broker_error is not None and settings.embedded_broker:
        broker_error = NO_BUNDLED_BROKER
    consuming = sum(one["consuming"] for one in found)
    return {
        "ok": database_error is None and broker_error is None and consuming > 0,
        "database_ok": database_error is None,
        "database_error": database_error,
        "broker_ok": broker_error is None,
        "broker_error": broker_error,
        "broker_warning": broker_warning,
        "workers": sum(one["alive"] for one in found),
        "workers_consuming": consuming,
    }


def _stores_nothing(database: Database, settings: Settings) -> str | None:
    """Return why a database that answers stores nothing: then no work goes on (rule D5); None if it does."""
    from sqlalchemy.exc import SQLAlchemyError

    from models.db import is_transient, storage_trouble
    from models.ledger import Ledger

    try:
        Ledger(database, settings).count("health_looks")
    except SQLAlchemyError as error:
        reason = storage_trouble(error)
        if reason is None and not is_transient(error):
            raise
        return reason
    return None


def ops_of(settings: Settings, open_database: Callable[[], Database]) -> tuple[dict[str, Any], ServiceAway | None]:
    """Return the document of `ops` (rule J15), and why the database is away if it is: then its numbers are null."""
    from models import queries

    away: ServiceAway | None = None
    found: dict[str, Any] = dict.fromkeys(queries.OPS) | {"database_ok": False}
    try:
        with open_database().look() as conn:
            found = queries.ops(conn)
    except ServiceAway as error:
        away = error
    return found | {"broker_ok": broker_problem(settings) is None}, away
