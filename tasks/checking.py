"""The check of a target (rule P7): a job like any other, so that its lane, interval and pauses hold for it too.

A worker may run it, or the command that asked for it (`run_here`); both do the same under the same kind of claim. Its
requests and robots.txt are noted as always; articles, frontier, failed items and validators are not touched.
"""

from __future__ import annotations

import re
import secrets
import threading
import traceback
from collections.abc import Callable
from typing import Any

from config import clock
from config.celery import app
from config.errors import Cancelled, PermanentJobError, StaleClaim
from config.logs import get_logger, log_event
from config.settings import Settings, get_settings
from models.attempt import Attempt, enter
from models.claim import Claim
from models.db import Database, get_database, patiently
from models.ledger import Ledger
from models.outcome import Ended
from models.queries.crawling import target_facts
from routing.lanes.guard import Guard
from tasks.base import LaneTask
from tasks.crawl import access_of, fetcher_of, spec_of
from tasks.gate import CrawlGate
from tasks.onlooker import Onlooker
from tasks.pipeline.adapters import find
from tasks.pipeline.look import estimate, look
from tasks.pipeline.target import StartPoint

log = get_logger("ratelane.check")
LOOK_EVERY_SEC = 0.2


@app.task(base=LaneTask, bind=True, name="ratelane.check")
def check_target(self: LaneTask, target_code: str) -> dict[str, Any]:
    """Check a target under the claim of this message; returns the check's document."""
    return checked(self.attempt, get_settings(), get_database(), target_code)


def checked(attempt: Attempt, settings: Settings, db: Database, target_code: str) -> dict[str, Any]:
    """Look at a target once and return what was found.

    A block is decided here, as what was raised: the end of the job pauses the group for it (rules C3, C4) without a
    retry, because nobody needs a check ten minutes later.
    """

    def read() -> Any:
        with db.read() as conn:
            return target_facts(conn, target_code)

    facts = patiently(read)
    if facts is None:
        raise PermanentJobError(f"target {target_code} is gone")
    gate = CrawlGate(attempt, attempt.guard, settings, facts.interval_sec)
    journal = Onlooker(db, attempt, gate, facts, StartPoint())
    access = access_of(facts, settings)
    spec = spec_of(facts, access, settings)
    try:
        with fetcher_of(facts, access, gate, settings) as fetcher:
            seen = look(spec, fetcher, journal, gate)
    finally:
        journal.flush()
    try:
        options = find(spec.adapter).Options.model_validate(dict(spec.options))
    except (LookupError, ValueError):
        options = None
    document = {"target_code": target_code} | seen.document() | {"estimate": estimate(seen, options, gate.gap_sec)}
    if seen.blocked is not None:
        attempt.decide(Ended(result=document))
        document["blocked"] = seen.blocked.evidence.line()
    return document


def run_here(db: Database, settings: Settings, job_id: str, group: str, is_over: Callable[[], bool]) -> None:
    """Run a queued check in this process as soon as its lane is free, unless a worker takes it; returns once it is over.

    The lane is taken by a claim: nobody else runs in it meanwhile. `is_over` tells whether the job is final, or
    whether to wait no longer.
    """
    ledger, lane, me = Ledger(db, settings), f"^{re.escape(group)}$", secrets.token_hex(8)
    while not is_over():
        ledger.fold()
        for claim in ledger.claim(1, "check@command", me, [lane]).claims:
            if claim.job_id == job_id:
                _run(ledger, db, claim)
            else:
                # something more urgent stands before it: that is for the workers
                ledger.hand_back(claim.job_id, claim.attempt, claim.group, wait_sec=1.0)
        clock.pause(LOOK_EVERY_SEC)


def _run(ledger: Ledger, db: Database, claim: Claim) -> None:
    asked = clock.Stopwatch()
    attempt = Attempt(ledger, ledger.start(claim.job_id, claim.attempt))
    attempt.guard = Guard(ledger, attempt.started, asked)
    ended = threading.Event()
    beat = threading.Thread(target=_renew, args=(ledger, claim, ended), name="ratelane-check-lease", daemon=True)
    beat.start()
    enter(attempt)
    log_event(log, "job.start", job=claim.job_id, attempt=claim.attempt, group=claim.group, target=claim.target_code)
    try:
        attempt.finish(checked(attempt, ledger.settings, db, str(claim.target_code)))
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
            log_event(log, "check.renew_failed", job=claim.job_id, error=type(error).__name__)
