"""Whether a worker that lives also consumes, and if not, why: facts in, a verdict out (rule D2, public reports W33, W76).

All durations are seconds in which this process itself was running: what stood still because the whole process did, or
the machine, is nobody's fault and no reason to end.
"""

from __future__ import annotations

from dataclasses import dataclass

BROKER_DOWN, HUB_STUCK, SCOUT_STUCK = "broker_down", "hub_stuck", "scout_stuck"
STOPPING, DATABASE_DOWN, THREAD_DEAD = "stopping", "database_down", "thread_dead"

#: what `health` says of a worker that does not consume
SENTENCES = {
    BROKER_DOWN: "its connection to the broker is down",
    HUB_STUCK: "its event loop does not answer, so nothing can be handed over",
    SCOUT_STUCK: "its thread that looks for work does not come to an end with it",
    STOPPING: "it is stopping",
    DATABASE_DOWN: "the database does not answer it",
    THREAD_DEAD: "one of its threads has died",
}
#: a connection that is made again at the first try was never down
RECONNECT_SEC = 3.0


@dataclass(frozen=True)
class Limits:
    """`patience_sec` until something is called stuck, `watchdog_sec` until the worker ends for it (0: never)."""

    patience_sec: float
    watchdog_sec: float


@dataclass(frozen=True)
class Facts:
    """What a watcher inside the worker sees; the seconds count since something last moved."""

    #: Celery has begun to stop this worker
    stopping: bool = False
    #: what was said last
    trouble: str = ""
    #: since one of its other threads died; 0 while all live
    dead_sec: float = 0.0
    #: since the heartbeat last wrote to the database
    beat_silent_sec: float = 0.0
    #: since the scout last looked for work or waited for some with success; a dead thread never does
    scout_silent_sec: float = 0.0
    #: whether its last look failed because of the database
    scout_lacks_database: bool = False
    #: since the consumer lost its broker connection; 0 while it has one
    closed_sec: float = 0.0
    #: for how long the broker has answered others, without a break, since the consumer or the event loop stands still
    broker_answers_sec: float = 0.0
    #: whether it did not answer when it was last tried
    broker_away: bool = False
    #: since the event loop last did what it was asked, or had a reason not to: a solo pool runs bodies on its thread
    hub_silent_sec: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """`trouble` is why the worker does not consume, empty if it does; with `leave` it has to end for its supervisor."""

    trouble: str = ""
    leave: bool = False


def judge(facts: Facts, limits: Limits) -> Verdict:
    """Decide whether a worker consumes, and whether a new process would be better than this one.

    A database that is away heals by itself, and so does a broker that is away: Celery connects again. A worker that
    stands still while the broker answers everybody else does not.
    """

    def stuck(silent_sec: float) -> bool:
        return silent_sec > limits.patience_sec

    def beyond(*silent_sec: float) -> bool:
        return 0 < limits.watchdog_sec <= min(silent_sec)

    if facts.stopping:
        return Verdict(STOPPING)
    if facts.dead_sec:
        return Verdict(THREAD_DEAD, leave=beyond(facts.dead_sec))
    if stuck(facts.beat_silent_sec) or (stuck(facts.scout_silent_sec) and facts.scout_lacks_database):
        return Verdict(DATABASE_DOWN)
    if stuck(facts.scout_silent_sec):
        return Verdict(SCOUT_STUCK, leave=beyond(facts.scout_silent_sec))
    if facts.closed_sec:
        leave = beyond(facts.closed_sec, facts.broker_answers_sec)
        short = not facts.trouble and facts.closed_sec <= RECONNECT_SEC
        return Verdict("" if short else BROKER_DOWN, leave)
    if stuck(facts.hub_silent_sec):
        # on a connection that is dead but open the event loop waits for the socket's own time limit
        leave = beyond(facts.hub_silent_sec, facts.broker_answers_sec)
        return Verdict(BROKER_DOWN if facts.broker_away else HUB_STUCK, leave)
    return Verdict()
