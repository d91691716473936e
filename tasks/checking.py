"""The check of a target (rule P7): a job like any other, so that its lane, interval and pauses hold for it too.

A worker may run it, or the command that asked for it (`tasks.inline`); both do the same under the same kind of claim. Its
requests and robots.txt are noted as always; articles, frontier, failed items and validators are not touched.
"""

from __future__ import annotations

from typing import Any

from config.celery import app
from config.errors import PermanentJobError
from config.settings import Settings, get_settings
from models.attempt import Attempt
from models.db import Database, get_database, patiently
from models.outcome import Ended
from models.queries.crawling import target_facts
from tasks.base import LaneTask
from tasks.crawl import access_of, fetcher_of, spec_of
from tasks.gate import CrawlGate
from tasks.onlooker import Onlooker
from tasks.pipeline.adapters import find
from tasks.pipeline.look import estimate, look
from tasks.pipeline.target import StartPoint


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
