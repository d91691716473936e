"""Running one queued job in the process of the command that asked for it, under a claim like a worker's."""

from __future__ import annotations

import re
import secrets
import threading
import traceback
from collections.abc import Callable
from typing import Any

from config import clock
from config.errors import Cancelled, StaleClaim
from config.logs import get_logger, log_event
from config.settings import Settings
from models.attempt import Attempt, enter
from models.claim import Claim
from models.db import Database
from models.ledger import Ledger
from models.outcome import Ended
from routing.lanes.guard import Guard

log = get_logger("ratelane.inline")
LOOK_EVERY_SEC = 0.2
#: returns the job's result; the attempt is that of this thread meanwhile
Body = Callable[[Attempt], Any]


def run_here(
    db: Database, settings: Settings, job_id: str, group: str, is_over: Callable[[], bool], body: Body, name: str,
) -> None:
    """Run a queued job in this process as soon as its lane is free, unless a worker takes it; returns once it is over.

    The lane is taken by a claim of `name`: nobody else runs in it meanwhile. `is_over` tells whether the job is final,
    or whether to wait no longer. What `body` raises ends the job as it would in a worker.
    """
    ledger, lane, me = Ledger(db, settings), f"^{re.escape(group)}$", secrets.token_hex(8)
    while not is_over():
        ledger.fold()
        for claim in ledger.claim(1, name, me, [lane]).claims:
            if claim.job_id == job_id:
                _run(ledger, claim, body)
            else:
                # something more urgent stands before it: that is for the workers
                ledger.hand_back(claim.job_id, claim.attempt, claim.group, wait_sec=1.0)
        clock.pause(LOOK_EVERY_SEC)


def _run(ledger: Ledger, claim: Claim, body: Body) -> None:
    asked = clock.Stopwatch()
    attempt = Attempt(ledger, ledger.start(claim.job_id, claim.attempt))
    attempt.guard = Guard(ledger, attempt.started, asked)
    ended = threading.Event()
    beat = threading.Thread(target=_renew, args=(ledger, claim, ended), name="ratelane-inline-lease", daemon=True)
    beat.start()
    enter(attempt)
    log_event(log, "job.start", job=claim.job_id, attempt=claim.attempt, group=claim.group, target=claim.target_code)
    try:
        attempt.finish(body(attempt))
    except StaleClaim as stale:
        log_event(log, "claim.stale", job=stale.job_id, attempt=stale.attempt, group=claim.group, write="body")
    except Exception as error:
        attempt.decide(Ended(error=error, traceback=traceback.format_exc()))
        attempt.settle()
    except BaseException:
        # Ctrl-C: the lane is free at once
        attempt.decide(Ended(error=Cancelled()))
        attempt.settle()
        raise
    finally:
        ended.set()
        enter(None)
        beat.join(timeout=5)


def _renew(ledger: Ledger, claim: Claim, ended: threading.Event) -> None:
    """Renew the lease until the body has ended; a failure is tried again with the next beat."""
    while not ended.wait(ledger.settings.heartbeat_sec):
        try:
            ledger.renew([(claim.job_id, claim.attempt)])
        except Exception as error:
            log_event(log, "inline.renew_failed", job=claim.job_id, error=type(error).__name__)
