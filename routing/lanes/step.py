"""The lane consumer as a Celery bootstep: it starts and stops with the consumer, its threads live with the worker.

What it owns: the desk (what this process holds), the threads (scout, listener, heartbeat, watchdog, chores, clerk,
courier, leaving), and one channel of its own per connection.

Invariants: no SQL and no exception of ours on the hub's thread; `stop` at a reconnect releases nothing; nothing is
claimed while the connection is down or the worker stops.

When it dies: claims that had not started are handed back by their leases, started ones are reaped.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from celery import bootsteps, signals
from celery.worker import state
from sqlalchemy.exc import SQLAlchemyError

from config.broker import may_forget
from config.celery import INBOX
from config.clock import Stopwatch
from config.devstack import LifeLock
from config.errors import BadInput, RatelaneError, ServiceAway
from config.logs import get_logger, log_event
from config.probes import probe
from config.settings import get_settings, redact_url
from models.migrate import check
from routing.keys import LANE_PREFIX, is_key
from routing.kinds import task_of
from routing.lanes import control
from routing.lanes.callbacks import Courier
from routing.lanes.channel import LaneChannel
from routing.lanes.chores import Chores
from routing.lanes.clerk import Clerk
from routing.lanes.desk import Desk, set_desk
from routing.lanes.handover import HandOver
from routing.lanes.heartbeat import Heartbeat
from routing.lanes.inflight import Held
from routing.lanes.leaving import Leaving
from routing.lanes.listener import Listener
from routing.lanes.scout import Scout
from routing.lanes.watchdog import Watchdog

log = get_logger("ratelane.lanes")
#: the name under which `tasks.signals` connects the receiver that settles retries (rule C2)
RETRY_RECEIVER = "ratelane.settle_retry"
POOLS = frozenset({"prefork", "thread", "solo"})
LOOK_FOR_DEAD_CHILDREN_EVERY_SEC = 0.5


class LaneConsumer(bootsteps.StartStopStep):
    """Serves lanes beside Celery's own task consumer."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    name = "Lanes"

    def __init__(self, c: Any, **options: Any) -> None:
        super().__init__(c, **options)
        try:
            refuse_what_cannot_work(c)
            lanes = _lane_patterns(c.controller)
        except BadInput as error:
            _leave(str(error), error.exit_code)
        settings = get_settings()
        self.desk = Desk(settings, name=c.hostname, pool=c.pool, lanes=lanes)
        self.lock = LifeLock.take(settings.home, self.desk.boot_id)
        self.hub = c.hub
        self._over: HandOver | None = None
        self._watch: Any = None
        self.desk.offer = self._offer
        self.scout = Scout(self.desk, self._offer)
        self.heartbeat = Heartbeat(self.desk)
        self.desk.clerk = self.clerk = Clerk(self.desk)
        self.courier = Courier(self.desk, c.app)
        control.register()
        self.chores = Chores(self.desk)
        self.listener = Listener(self.desk)
        self.leaving = Leaving(self.desk)
        self.watchdog = Watchdog(self.desk, self.scout, self._ask_hub, others=(
            self.heartbeat, self.listener, self.chores, self.clerk, self.courier, self.leaving))
        self._began = False
        set_desk(self.desk)
        signals.worker_shutdown.connect(self._close, weak=False)

    def start(self, c: Any) -> None:
        """Open at each (re)connect: a channel and a handler of the new connection."""
        self.hub = c.hub
        self.hub.on_close.add(self._pause)
        line = LaneChannel(c.connection, c.app.conf.accept_content)
        waiting = self._over.waiting if self._over is not None else None
        self._over = HandOver(self.desk, line, c.create_task_handler(), task_of)
        if waiting:
            self._over.waiting.extend(waiting)
        if not self._began:
            self._begin(line)
            self._began = True
        self._watch_children(c)
        self.desk.open.set()
        self.desk.wake.set()
        if self._over.waiting:
            self.hub.call_soon(self._drain)

    def _watch_children(self, c: Any) -> None:
        """Look for dead pool children often: recovery is at once where death is certain (rule J8).

        The pool is told when a child closes its pipe, which is a moment before the kernel has its exit status; if it
        asks in that moment it asks again only after five seconds.
        """
        if self._watch is not None:
            self._watch.cancel()
        self._come_round(c.pool)
        self._watch = self.hub.call_repeatedly(LOOK_FOR_DEAD_CHILDREN_EVERY_SEC, self._come_round, c.pool)

    def _come_round(self, pool: Any) -> None:
        self.desk.came_round = Stopwatch()
        pool.maintain_pool()

    def _begin(self, line: LaneChannel) -> None:
        # here and not earlier: the pool forks between construction and start, and no connection may be open then
        try:
            check(self.desk.db, previous=True)
        except RatelaneError as error:
            _leave(str(error), error.exit_code)
        except SQLAlchemyError as error:
            where = redact_url(self.desk.settings.database_url)
            _leave(f"the database {where} does not answer ({type(error).__name__})", ServiceAway.exit_code)
        self.desk.ledger.greet(self.desk.row())
        self.heartbeat.take_over_the_dead()
        self.heartbeat.start()
        self.scout.start()
        for thread in (self.listener, self.chores, self.clerk, self.courier, self.leaving, self.watchdog):
            thread.start()
        warning = may_forget(self.desk.settings.broker_url, line.channel)
        if warning is not None:
            log_event(log, "broker.may_evict", level=logging.WARNING, text=warning)
        log_event(log, "worker.lanes_open", worker=self.desk.name, boot=self.desk.boot_id, slots=self.desk.size(),
                  lanes=",".join(self.desk.lanes or ["all"]))

    def _pause(self, _hub: Any) -> None:
        """Leave what waits to the next connection: a hub that is reset runs what is left, on the dead one."""
        self.desk.open.clear()

    def stop(self, c: Any) -> None:
        """Close at a reconnect or at the end; the bodies go on and their leases are renewed."""
        self.desk.open.clear()
        probe("consumer_closed")

    def shutdown(self, c: Any) -> None:
        """Do nothing more than `stop`: bodies may still run until the pool has drained."""
        self.desk.open.clear()

    def _offer(self, held: list[Held]) -> None:
        """Take claims from the scout's thread to the hub's."""
        over = self._over
        if over is None:
            for one in held:
                self.desk.give_back(one)
            return
        over.waiting.extend(held)
        self.hub.call_soon(self._drain)

    def _ask_hub(self, answer: Callable[[], None]) -> None:
        """Have the hub's thread answer; what waits there is handed over by the way, should a call have got lost."""
        self.hub.call_soon(answer)
        if self._over is not None and self._over.waiting:
            self.hub.call_soon(self._drain)

    def _drain(self) -> None:
        if self._over is not None and self.desk.open.is_set() and state.should_stop is None:
            self._over.drain()

    def _close(self, **_: Any) -> None:
        """At the very end of the worker: give back what never started and say that this boot has stopped."""
        if self.desk.over.is_set():
            return
        self.desk.over.set()
        self.desk.wake.set()
        self.clerk.close()
        try:
            for held in self.desk.inflight.all():
                claim = held.claim
                begun = self.desk.inflight.withdraw(held)
                self.desk.ledger.hand_back(claim.job_id, claim.attempt, claim.group, begun=begun)
            self.desk.ledger.seen(self.desk.boot_id, stopped=True)
            if not self.desk.ledger.running_of(self.desk.boot_id):
                LifeLock.forget(self.desk.settings.home, self.desk.boot_id)
        except Exception as error:
            log_event(log, "worker.close_failed", level=logging.WARNING, error=repr(error))


def _leave(sentence: str, exit_code: int) -> NoReturn:
    """End the worker with a sentence for a person; Celery would print a traceback of its own start."""
    print(f"ratelane: {sentence}", file=sys.stderr)
    raise SystemExit(exit_code)


def refuse_what_cannot_work(c: Any) -> None:
    """Raise BadInput for a pool or a broker under which the guarantees do not hold (rule D4), or a missing receiver."""
    pool = type(c.pool).__module__.rpartition(".")[2]
    if pool not in POOLS:
        raise BadInput(f"the pool {pool} is not supported: it cannot keep leases; use threads, prefork or solo")
    if c.hub is None:
        raise BadInput("this broker has no event loop in Celery: use Redis, Valkey or RabbitMQ")
    if not any(key[0] == RETRY_RECEIVER for key, _ in signals.task_retry.receivers or ()):
        raise BadInput("the receiver that puts cooldowns into effect is not connected: import tasks.signals (rule C2)")


def _lane_patterns(controller: Any) -> list[str] | None:
    """Take `rg.…` out of the queues that Celery's own consumer would read; they are the scout's filter (rule R7)."""
    queues = controller.app.amqp.queues
    names = [name for name in list(queues.consume_from) if name.startswith(LANE_PREFIX)]
    for name in names:
        queues.deselect(name)
    if not names:
        return None
    if not queues.consume_from:
        queues.select([INBOX])
    return [_pattern(name.removeprefix(LANE_PREFIX)) for name in names]


def _pattern(text: str) -> str:
    """Return the regular expression, as both databases read it, of a group's key or of a glob of keys.

    Only `*` and `?` are special: the brackets of an IPv6 address are no choice of letters. Raises BadInput for what no
    key can look like.
    """
    if not is_key(text.replace("*", "x").replace("?", "x")):
        raise BadInput(f"-Q {LANE_PREFIX}{text}: no lane can be called so (a key, or a glob with * and ?)")
    return "^" + re.escape(text).replace(r"\*", ".*").replace(r"\?", ".") + "$"
