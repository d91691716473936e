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


def require_broker(settings: Settings) -> None:
    """Raise ServiceAway, saying what to start or to install, if the configured broker does not answer."""
    from routing.broker import broker_problem

    problem = broker_problem(settings)
    if problem is not None and settings.embedded_broker:
        raise ServiceAway(NO_BUNDLED_BROKER)
    if problem is not None:
        where = redact_url(settings.broker_url)
        raise ServiceAway(f"the broker {where} does not answer: start it, or unset RATELANE_BROKER_URL to use the "
                          f"bundled one ({problem})")


def health_of(settings: Settings, open_database: Callable[[], Database]) -> dict[str, Any]:
    """Return the document of `health`: each service, and whether a worker consumes work (rule D2).

    ``{"ok", "database_ok", "database_error", "broker_ok", "broker_error", "workers", "workers_consuming",
    "not_consuming"}``; `ok` only if both services answer and a worker consumes: it said so within three of its
    heartbeats. `not_consuming` names the others that live, each with its ``trouble`` in one word and in a sentence.
    """
    from models import queries
    from models.migrate import check
    from routing.broker import broker_problem
    from routing.lanes.consumption import SENTENCES

    found: list[dict[str, Any]] = []
    database_error: str | None = None
    try:
        database = open_database()
        check(database, previous=True)
        with database.look() as conn:
            found = queries.workers(conn)
    except RatelaneError as error:
        database_error = str(error)
    broker_error = broker_problem(settings)
    if broker_error is not None and settings.embedded_broker:
        broker_error = NO_BUNDLED_BROKER
    consuming = sum(one["consuming"] for one in found)
    return {
        "ok": database_error is None and broker_error is None and consuming > 0,
        "database_ok": database_error is None,
        "database_error": database_error,
        "broker_ok": broker_error is None,
        "broker_error": broker_error,
        "workers": sum(one["alive"] for one in found),
        "workers_consuming": consuming,
        "not_consuming": [
            {"worker": one["name"], "trouble": one["trouble"],
             "text": SENTENCES.get(one["trouble"], "it has not said for a while that it looks for work")}
            for one in found if one["alive"] and not one["consuming"]
        ],
    }
