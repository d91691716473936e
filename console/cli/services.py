"""Whether the services answer, each with what to do if not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from config.errors import RatelaneError, ServiceAway
from config.settings import Settings, redact_url

if TYPE_CHECKING:
    from models.db import Database

NO_BUNDLED_BROKER = ("the bundled broker of this home does not run: it lives as long as `ratelane crawl` or `ratelane up`; "
                     "start one of them, or set RATELANE_BROKER_URL")


def require_broker(settings: Settings) -> str | None:
    """Raise ServiceAway, saying what to start or to install, if the configured broker does not answer.

    Returns a warning if it answers and may lose messages.
    """
    from routing.broker import look_at_broker

    problem, warning = look_at_broker(settings)
    if problem is not None and settings.embedded_broker:
        raise ServiceAway(NO_BUNDLED_BROKER)
    if problem is not None:
        where = redact_url(settings.broker_url)
        raise ServiceAway(f"the broker {where} does not answer: start it, or unset RATELANE_BROKER_URL to use the "
                          f"bundled one ({problem})")
    return warning


def health_of(
    settings: Settings, open_database: Callable[[], Database], worker: str | None = None
) -> dict[str, Any]:
    """Return the document of `health`: each service, and whether work is consumed (rule D2).

    ``{"ok", "database_ok", "database_error", "broker_ok", "broker_error", "broker_warning", "workers",
    "workers_consuming", "not_consuming", "lanes_unserved"}``; `ok` only if both services answer, the database stores
    what it is given, and workers consume: each lane with due work is served by one that said so within three of its
    heartbeats, or, with `worker`, the worker of this name is one. `not_consuming` names the others that live, each with
    its ``trouble`` in one word and in a sentence; `lanes_unserved` some lanes with due work that nobody serves.
    """
    from models import queries
    from models.migrate import check
    from routing.broker import look_at_broker
    from routing.lanes.consumption import SENTENCES

    found: list[dict[str, Any]] = []
    unserved: list[str] = []
    database_error: str | None = None
    try:
        database = open_database()
        check(database, previous=True)
        with database.look() as conn:
            found = queries.workers(conn)
            unserved = queries.unserved(conn, [one["lanes"] for one in found if one["consuming"]])
        database_error = _stores_nothing(database, settings)
    except RatelaneError as error:
        database_error = str(error)
    broker_error, broker_warning = look_at_broker(settings)
    if broker_error is not None and settings.embedded_broker:
        broker_error = NO_BUNDLED_BROKER
    consuming = sum(one["consuming"] for one in found)
    consumed = consuming > 0 and not unserved if worker is None else any(
        one["consuming"] for one in found if one["name"] == worker)
    return {
        "ok": database_error is None and broker_error is None and consumed,
        "database_ok": database_error is None,
        "database_error": database_error,
        "broker_ok": broker_error is None,
        "broker_error": broker_error,
        "broker_warning": broker_warning,
        "workers": sum(one["alive"] for one in found),
        "workers_consuming": consuming,
        "not_consuming": [
            {"worker": one["name"], "trouble": one["trouble"],
             "text": SENTENCES.get(one["trouble"], "it has not said for a while that it looks for work")}
            for one in found if one["alive"] and not one["consuming"]
        ],
        "lanes_unserved": unserved,
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
    from routing.broker import broker_problem

    away: ServiceAway | None = None
    found: dict[str, Any] = dict.fromkeys(queries.OPS) | {"database_ok": False}
    try:
        with open_database().look() as conn:
            found = queries.ops(conn)
    except ServiceAway as error:
        away = error
    return found | {"broker_ok": broker_problem(settings) is None}, away
