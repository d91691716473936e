"""Telling callbacks that a job is final."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from config.clock import Stopwatch
from models.ledger.turns import Turns
from models.statements import callbacks

#: a sender that dies keeps the others waiting for so long; a round of sending takes half of it at most
TURN_SEC = 10.0
_TELLING = "callbacks"


@dataclass(frozen=True)
class Ended:
    """A final job whose callbacks are to be sent: what they need to know."""

    job_id: str
    attempt: int
    status: str
    result: Any
    callbacks: dict[str, Any]


class Telling(Turns):
    """The verbs of a job's callbacks."""

    def has_callbacks_to_send(self) -> bool:
        """Look without a lock whether any final job's callbacks were not sent yet."""
        with self.db.read() as conn:
            return conn.execute(callbacks.ANY).first() is not None

    def tell(self, limit: int, send: Callable[[Ended], None]) -> int:
        """Give `send` up to `limit` ended jobs, and note of each that its callbacks were sent; returns how many.

        At least once (rule J2): what dies between the sending and the note is sent again. What `send` raises ends the
        round and passes through. One sender at a time has its turn; it holds no lock and no connection while it sends,
        because a broker that does not answer must keep nobody else waiting.
        """
        mine = self.take_turn(_TELLING, TURN_SEC)
        if mine is None:
            return 0
        spent, sent = Stopwatch(), 0
        try:
            with self.db.read() as conn:
                found = [Ended(*row) for row in conn.execute(callbacks.unsent(limit))]
            for ended in found:
                if spent.elapsed() > TURN_SEC / 2:
                    break
                send(ended)
                with self.db.read() as conn:
                    conn.execute(callbacks.SENT, {"b_job": ended.job_id, "b_attempt": ended.attempt, **self.at()})
                sent += 1
        finally:
            self.give_back(_TELLING, mine)
        return sent
