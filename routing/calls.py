"""What a Celery caller asks of a lane task, as a submit: the same from `apply_async` and from a message (rule J2).

Options of Celery that would hold a lane up or kill a body under its lease mean nothing here; they are named in the log
once and ignored.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from celery import Celery
from celery.utils.time import maybe_iso8601, maybe_make_aware
from sqlalchemy import Connection

from config import clock
from config.errors import BadInput
from config.logs import get_logger, log_event
from config.settings import Settings
from models.db import Database
from models.ledger import Submitted
from routing.callbacks import signatures
from routing.dispatch import submit
from routing.kinds import kind_of

log = get_logger("ratelane.calls")
#: of a submit's options, those that a call may give as keywords beside its target
MORE = ("force", "resume_from_page", "dedupe_key", "max_attempts", "deadline_sec")
#: options of Celery that have no effect on a lane job
WITHOUT_EFFECT = frozenset({
    "time_limit", "soft_time_limit", "rate_limit", "retries", "max_retries", "queue", "exchange", "routing_key",
    "delivery_mode", "expiration", "ignore_result"})
_named: set[str] = set()


@dataclass(frozen=True)
class Call:
    """One call of a lane task, checked as far as that needs no database."""

    kind: str
    target_code: str
    job_id: str | None = None
    priority: int = 100
    run_after_sec: float | None = None
    run_after: datetime | None = None
    expires_sec: float | None = None
    callbacks: dict[str, Any] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def submit(self, db: Database, settings: Settings, conn: Connection | None = None) -> Submitted:
        """Store the job and return its answer; raises BadInput as `routing.dispatch.submit` does."""
        return submit(
            db, settings, self.target_code, kind=self.kind, priority=self.priority, run_after_sec=self.run_after_sec,
            run_after=self.run_after, expires_sec=self.expires_sec, job_id=self.job_id, callbacks=self.callbacks,
            conn=conn, **self.more)


def call_of(
    app: Celery, task: str, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, *, task_id: str | None = None,
    link: Any = None, link_error: Any = None, chain: Any = None, chord: Any = None, **options: Any,
) -> Call:
    """Return what a call of the lane task named `task` asks for.

    `options` are those of Celery's `apply_async`; `priority` is the job's (smaller first). Raises BadInput, with a
    sentence, for what no lane job can do.
    """
    kind = kind_of(task)
    if kind is None:
        raise BadInput(f"{task} is not registered as a kind of job")
    if chord is not None:
        raise BadInput("a chord of lane jobs is refused: its polling task would wait in a lane")
    target, more = _arguments(task, args or (), kwargs or {})
    callbacks = signatures(app, link=link, link_error=link_error, chain=chain)
    if callbacks and more.get("dedupe_key"):
        raise BadInput("callbacks need a job of their own: leave out dedupe_key, or look the job's end up by its id")
    warn_of_no_effect(task, options)
    countdown = options.get("countdown")
    priority = options.get("priority")
    return Call(
        kind=kind, target_code=target, job_id=task_id,
        priority=100 if priority is None else int(_number("priority", priority)),
        run_after_sec=None if countdown is None else max(0.0, _number("countdown", countdown)),
        run_after=None if countdown is not None else _moment(app, "eta", options.get("eta")),
        expires_sec=_expires_sec(app, options.get("expires")), callbacks=callbacks, more=more)


def warn_of_no_effect(task: str, options: Mapping[str, Any]) -> None:
    """Name in the log, once a process, each given option that has no effect on a lane job."""
    for name in sorted(WITHOUT_EFFECT & options.keys()):
        if options[name] and name not in _named:
            _named.add(name)
            log_event(log, "call.option_ignored", level=logging.WARNING, task=task, option=name,
                      reason="it has no effect on a lane job")


def _arguments(task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    given = dict(kwargs)
    target = args[0] if args else given.pop("target_code", None)
    unknown = sorted(given.keys() - set(MORE))
    if not isinstance(target, str) or len(args) > 1 or unknown:
        hint = f", not {', '.join(unknown)}" if unknown else ""
        raise BadInput(f"{task} takes one argument, the code of a target, and {', '.join(MORE)} by name{hint}")
    checked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, value in checked.items():
        if name == "dedupe_key":
            checked[name] = str(value)
        elif name == "force":
            checked[name] = bool(value)
        else:
            number = _number(name, value)
            checked[name] = number if name == "deadline_sec" else int(number)
    return target, checked


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{name} must be a number, not {value!r}") from None
    if not math.isfinite(number):
        raise BadInput(f"{name} must be a number, not {value!r}")
    return number


def _moment(app: Celery, name: str, value: Any) -> datetime | None:
    """Return a moment as Celery reads it: text is ISO 8601, one without a zone is in the application's."""
    if value is None or value == "":
        return None
    try:
        found = maybe_iso8601(value)
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, datetime):
        raise BadInput(f"{name} must be a moment, not {value!r}")
    aware: datetime = maybe_make_aware(found, app.timezone)
    return aware


def _expires_sec(app: Celery, value: Any) -> float | None:
    if value is None or value == "":
        return None
    if isinstance(value, int | float):
        return _number("expires", value)
    moment = _moment(app, "expires", value)
    return None if moment is None else (moment - clock.now()).total_seconds()


__all__ = ["MORE", "Call", "call_of", "warn_of_no_effect"]
