"""The life of a job as one table: which event leads from which state to which. Pure.

Every statement that moves a job is guarded by the state on the left (and, for a running job, by the attempt), and
writes the attempt's history row in the same transaction.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """What a job is; `failed` is the dead letter, kept with its cause."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Event(StrEnum):
    """What can happen to a job."""

    CLAIM = "claim"  # a scout takes it for its worker
    HAND_BACK = "hand_back"  # the claim never started: nothing is spent
    FINISH = "finish"  # the body returned
    FAIL = "fail"  # for good: permanent, or its failures, recoveries or cooldowns are used up
    AGAIN = "again"  # an ordinary failure, a partial crawl, a deadline
    COOL = "cool"  # a firewall objected
    PARK = "park"  # paused, parked, soft stop, quiet window
    RECOVER = "recover"  # its worker was lost
    CANCEL = "cancel"  # somebody stopped it
    EXPIRE = "expire"  # queued past its `expires_at`
    REQUEUE = "requeue"  # an operator gave it new life


FINAL = frozenset({State.DONE, State.FAILED, State.CANCELLED})
ACTIVE = frozenset({State.QUEUED, State.RUNNING})

TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.QUEUED, Event.CLAIM): State.RUNNING,
    (State.QUEUED, Event.CANCEL): State.CANCELLED,
    (State.QUEUED, Event.EXPIRE): State.CANCELLED,
    (State.RUNNING, Event.HAND_BACK): State.QUEUED,
    (State.RUNNING, Event.FINISH): State.DONE,
    (State.RUNNING, Event.FAIL): State.FAILED,
    (State.RUNNING, Event.AGAIN): State.QUEUED,
    (State.RUNNING, Event.COOL): State.QUEUED,
    (State.RUNNING, Event.PARK): State.QUEUED,
    (State.RUNNING, Event.RECOVER): State.QUEUED,
    (State.RUNNING, Event.CANCEL): State.CANCELLED,
    (State.FAILED, Event.REQUEUE): State.QUEUED,
    (State.CANCELLED, Event.REQUEUE): State.QUEUED,
}

#: what Celery calls a job in each state; a queued job that has run before is a retry
CELERY_STATES = {
    State.QUEUED: "PENDING",
    State.RUNNING: "STARTED",
    State.DONE: "SUCCESS",
    State.FAILED: "FAILURE",
    State.CANCELLED: "REVOKED",
}


def next_state(state: State, event: Event) -> State:
    """Return the state that `event` leads to from `state`; raises LookupError if there is no such transition."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise LookupError(f"a job that is {state} has no transition for {event}") from None


def diagram() -> str:
    """Return the table as the text of a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", "    [*] --> queued: submit"]
    lines += [f"    {state} --> {TRANSITIONS[state, event]}: {event}" for state, event in TRANSITIONS]
    lines += [f"    {state} --> [*]" for state in sorted(FINAL)]
    return "\n".join(lines)
