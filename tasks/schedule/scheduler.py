"""Celery beat's scheduler: it keeps nothing, and ticks (rules S1, S2).

``celery -A config beat`` makes one, because `config.celery` names it as `beat_scheduler`. Its moments are the
schedule's clock. A database that is away, or a mistake of ours, is logged and looked at again soon: an exception would
end beat.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from celery.beat import Scheduler
from sqlalchemy.exc import SQLAlchemyError

from config import clock
from config.errors import RatelaneError
from config.logs import get_logger, log_event
from config.settings import get_settings
from models.db import Database, is_transient
from models.migrate import check
from models.outcome import message_of
from tasks.schedule.ticking import Entries, tick

log = get_logger("ratelane.schedule")
#: the longest sleep between two looks, and the one while something is due that others have in hand
LONGEST_SEC, IN_HAND_SEC = 5.0, 0.25


class RowScheduler(Scheduler):
    """The schedule as beat knows it: a loop around `tick`. Celery's own `beat_schedule` has no part in it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._entries, self._fits = Entries(), False
        self._db: Database | None = None
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        """Refuse a schema that this release cannot work with (rule D3); a database that is away is waited for."""
        settings = get_settings()
        try:
            self._check()
        except RatelaneError as error:
            # Celery would print a traceback, and end well
            print(f"ratelane: {error}", file=sys.stderr)
            raise SystemExit(error.exit_code) from error
        except SQLAlchemyError as error:
            log_event(log, "schedule.away", level=logging.WARNING, error=message_of(error))
        log_event(log, "schedule.start", zone=settings.timezone, offset_sec=settings.clock_offset_sec or None)

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Do what is due; returns in how many seconds beat is to look again."""
        longest = min(LONGEST_SEC, self.max_interval or LONGEST_SEC)
        watch = clock.Stopwatch()
        try:
            self._check()
            found = tick(self._database(), get_settings(), clock.now(), self._entries)
        except Exception as error:
            away = is_transient(error)
            log_event(log, "schedule.away" if away else "schedule.tick_failed", level=logging.WARNING,
                      error=message_of(error), exc_info=None if away else error)
            return 1.0
        if found.look_again:
            return 0.0
        if found.next_due_sec is None:
            return longest
        if found.next_due_sec <= 0:
            return min(longest, IN_HAND_SEC)
        # what the look took is part of the wait: else each moment would be late by that much
        return min(longest, max(0.0, found.next_due_sec - watch.elapsed()))

    def _check(self) -> None:
        if not self._fits:
            check(self._database(), previous=True)
            self._fits = True

    def _database(self) -> Database:
        if self._db is None:
            self._db = Database(get_settings().database_url, beat=True)
        return self._db

    def should_sync(self) -> bool:
        """Return false: everything is stored already."""
        return False

    def sync(self) -> None:
        """Do nothing: everything is stored already."""

    def close(self) -> None:
        """Close the connections."""
        if self._db is not None:
            self._db.dispose()

    @property
    def info(self) -> str:
        """What beat's banner says."""
        return "    . schedule -> rows of the database"
