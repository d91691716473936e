"""The courier: a thread that sends the callbacks of final jobs, with a broker connection of its own (rule J2).

What it owns: that connection. The rows are the outbox: every way in which a job becomes final is seen, whoever ended it.
It also looks after messages of other producers that lie where nobody reads (see `routing.lanes.strays`).

When it dies between the sending and the note: the callback is sent again, with the same id.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from amqp import exceptions as amqp
from kombu.exceptions import OperationalError
from redis.exceptions import ResponseError
from sqlalchemy.exc import SQLAlchemyError

from config.errors import RatelaneError
from config.logs import get_logger, log_event
from config.probes import probe
from models.db import is_transient
from models.ledger.telling import Ended
from routing.callbacks import send
from routing.lanes.desk import Desk
from routing.lanes.strays import Strays

log = get_logger("ratelane.callbacks")
LOOK_EVERY_SEC = 1.0
LONGEST_WAIT_SEC = 30.0
AT_ONCE = 50
CONNECT_SEC = 5
#: what a signature does that can never be sent, although kombu counts KeyError among a Redis connection's errors
IMPOSSIBLE = (RatelaneError, ValueError, TypeError, LookupError, AttributeError)
#: how an AMQP server refuses one message; it closes the channel or the connection over it
REFUSED = (amqp.ChannelError, amqp.AMQPNotImplementedError, amqp.FrameError, amqp.FrameSyntaxError)


class Courier(threading.Thread):
    """Looks once a second, through a partial index, whether a final job has callbacks to send."""

    def __init__(self, desk: Desk, app: Any) -> None:
        super().__init__(name="ratelane-courier", daemon=True)
        self.desk, self._app = desk, app
        self._strays = Strays(desk.ledger, desk.settings)
        self._connection: Any = None
        self._producer: Any = None

    def run(self) -> None:
        """Look until the desk closes; what fails is tried again, later each time."""
        wait, tries = LOOK_EVERY_SEC, 0
        while not self.desk.over.wait(wait):
            try:
                self._round()
                wait, tries = LOOK_EVERY_SEC, 0
            except Exception as error:
                away = self._is_away(error)
                self._hang_up()
                tries += 1
                wait = min(LONGEST_WAIT_SEC, LOOK_EVERY_SEC * 2 ** min(tries, 8))
                log_event(log, "callbacks.wait" if away else "callbacks.failed", tries=tries,
                          level=logging.WARNING if away else logging.ERROR, error=repr(error).splitlines()[0])

    def _round(self) -> None:
        while self.desk.ledger.has_callbacks_to_send():
            self._connect()
            if not self.desk.ledger.tell(AT_ONCE, self._tell):
                break
        if self._strays.due():
            self._connect()
            self._strays.collect(self._producer)

    def _tell(self, ended: Ended) -> None:
        """Send the callbacks of one job. Celery calls none of a revoked task, and so none of a cancelled job."""
        name = {"done": "link", "failed": "link_error"}.get(ended.status)
        argument = ended.result if name == "link" else ended.job_id
        for number, document in enumerate(ended.callbacks.get(name) or () if name else ()):
            try:
                send(self._app, ended.job_id, number, str(name), document, argument, at_end=ended.attempt,
                     producer=self._producer)
            except Exception as error:
                if self._is_away(error):
                    raise
                # the others must not wait for it
                log_event(log, "callbacks.impossible", level=logging.ERROR, job=ended.job_id, callback=name,
                          number=number, error=repr(error).splitlines()[0])
                if isinstance(_reason_of(error), REFUSED):
                    self._producer = None
                    self._connect()
        probe("told", ended.job_id, ended.attempt)
        log_event(log, "callbacks.sent", job=ended.job_id, callback=name or "none", status=ended.status)

    def _connect(self) -> None:
        if self._connection is None:
            self._connection = self._app.connection_for_write(connect_timeout=CONNECT_SEC)
        if self._producer is None or not self._connection.connected:
            self._connection.ensure_connection(max_retries=1, timeout=CONNECT_SEC)
            self._producer = self._app.amqp.Producer(self._connection.channel(), auto_declare=False)

    def _hang_up(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            try:
                connection.collect()
            except Exception as error:
                log_event(log, "callbacks.hung_up", error=repr(error))

    def _is_away(self, error: Exception) -> bool:
        """Tell whether a server did not answer or takes nothing just now, so that the same may be tried again."""
        reason = _reason_of(error)
        if isinstance(reason, SQLAlchemyError):
            return is_transient(reason)
        if isinstance(reason, ResponseError):
            # a full or read-only server; a key of another type is the message's own fault
            return not str(reason).startswith("WRONGTYPE")
        if isinstance(reason, OSError | OperationalError | amqp.MessageNacked):
            return True
        known = () if self._connection is None else self._connection.connection_errors
        return isinstance(reason, known) and not isinstance(reason, (*IMPOSSIBLE, *REFUSED))


def _reason_of(error: BaseException) -> BaseException:
    """Return what kombu has wrapped: it calls nearly everything that happens while it publishes operational."""
    return error.__cause__ if isinstance(error, OperationalError) and error.__cause__ is not None else error
