"""What has to be done now and then and may wait: a thread of low priority, so that renewals wait for none of it.

Every worker has one. What all of them do is an index look when nothing is due; what one of them is enough for is taken
in turns (`Ledger.take_turn`). Each step is a short transaction, and a chore that failed is simply due again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from config.clock import Stopwatch
from config.logs import get_logger, log_event
from models.db import is_transient, storage_trouble
from routing.lanes.desk import Desk
from routing.lanes.inflight import is_stopping
from routing.lanes.webhook import Teller

log = get_logger("ratelane.chores")
EXPIRE_EVERY_SEC, SWEEP_EVERY_SEC, LOOK_AT_HISTORY_EVERY_SEC = 1.0, 30.0, 300.0
#: one worker prunes in this time; so many portions at once leave the others room
PRUNE_EVERY_SEC, PORTIONS_AT_ONCE = 3_600.0, 5


@dataclass
class Chore:
    """A piece of work and how often it comes; it asks to be called again soon by answering True."""

    name: str
    every_sec: float
    work: Callable[[], bool]
    done: Stopwatch = field(default_factory=Stopwatch)
    again: bool = False

    def is_due(self) -> bool:
        """Tell whether its time has come."""
        return self.again or self.done.elapsed() >= self.every_sec


class Chores(threading.Thread):
    """Expires, sweeps and prunes until the desk closes; starts the thread that tells the webhook, if one is set."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(name="ratelane-chores", daemon=True)
        self.desk = desk
        self._prunes = False
        self._chores = [
            Chore("expire", min(EXPIRE_EVERY_SEC, desk.settings.heartbeat_sec), self._expire),
            Chore("sweep", SWEEP_EVERY_SEC, self._sweep),
            Chore("prune", LOOK_AT_HISTORY_EVERY_SEC, self._prune, again=True),
        ]

    def run(self) -> None:
        """Do what is due until the desk closes."""
        if self.desk.settings.webhook_url is not None:
            Teller(self.desk).start()
        tick = min(chore.every_sec for chore in self._chores)
        while not self.desk.over.wait(tick):
            for chore in self._chores:
                if chore.is_due() and not is_stopping():
                    self._do(chore)

    def _do(self, chore: Chore) -> None:
        chore.done, chore.again = Stopwatch(), False
        try:
            chore.again = chore.work()
        except SQLAlchemyError as error:
            log_event(log, "chore.database_away" if is_transient(error) else "chore.failed", level=logging.WARNING,
                      chore=chore.name, error=str(error).splitlines()[0], reason=storage_trouble(error))
        except Exception:
            log_event(log, "chore.failed", level=logging.ERROR, chore=chore.name, exc_info=True)

    def _expire(self) -> bool:
        for _ in range(PORTIONS_AT_ONCE):
            if not self.desk.ledger.expire():
                break
        return False

    def _sweep(self) -> bool:
        self.desk.reaper.sweep()
        return False

    def _prune(self) -> bool:
        if not self._prunes and self.desk.ledger.take_turn("prune", PRUNE_EVERY_SEC) is None:
            return False
        self._prunes = True  # also after a failure: the turn is this worker's
        found = self.desk.ledger.prune(PORTIONS_AT_ONCE)
        self._prunes = not found.finished
        gone = {name: number for name, number in found.rows.items() if number}
        if gone:
            log_event(log, "history.pruned", **gone)
        return self._prunes
