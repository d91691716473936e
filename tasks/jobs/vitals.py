"""The vitals of one site as a job in its lane: one polite request of its base URL (rule S7).

A block is told and pauses the group, but nobody asks again because of it: half an hour later there is another look.
"""

from __future__ import annotations

from typing import Any

from config.celery import app
from config.errors import HostCooldown, Parked
from config.settings import get_settings
from models.db import get_database
from models.outcome import Ended
from models.queries.vitals import answers
from tasks.base import LaneTask
from tasks.jobs.site import SiteVisit
from tasks.pipeline.urls import canonical, host_key
from tasks.pipeline.visit import NoAnswer

#: an answer of so many seconds ago counts as one of now
FRESH_SEC = 1_800.0


@app.task(base=LaneTask, bind=True, name="ratelane.vitals")
def look_at_site(self: LaneTask, *_target: str) -> dict[str, Any]:
    """Look whether the job's site answers; returns ``{"outcome", "reason", "progress": {"state", "status", …}}``."""
    visit = SiteVisit(get_database(), self.attempt, get_settings())
    document: dict[str, Any] = {"outcome": "success", "reason": ""}
    row = _known(visit)
    if row is None:
        row, objection = _asked(visit)
        if objection is not None:
            document["blocked"] = objection
            self.attempt.decide(Ended(result=document))
            document["blocked"] = objection.evidence.line()
    visit.journal.progress.step("list", "done")
    visit.journal.note(vitals=({"site_code": visit.facts.site_code, **row},))
    document["progress"] = row
    return document


def answer_of(status: int | None, latency_sec: float | None, reason: str = "") -> dict[str, Any]:
    """Return the row of a site that answered, with whatever status."""
    return {"state": "reachable", "reason": reason, "status": status,
            "latency_sec": None if latency_sec is None else round(latency_sec, 3)}


def unknown(reason: str) -> dict[str, Any]:
    """Return the row of a site that was not asked."""
    return {"state": "unknown", "reason": reason, "status": None, "latency_sec": None}


def _known(visit: SiteVisit) -> dict[str, Any] | None:
    """Return what the site answered lately, to whomever."""
    site = {"site_code": visit.facts.site_code, "group_key": visit.attempt.claim.group, "host": host_key(visit.facts.base_url)}
    found = visit.ask(lambda conn: answers(conn, [site], FRESH_SEC))
    return answer_of(found[0].status, found[0].latency_sec) if found else None


def _asked(visit: SiteVisit) -> tuple[dict[str, Any], HostCooldown | None]:
    """Ask the site; returns what came of it, and the block if it was one."""
    try:
        with visit.visitor() as visitor:
            visit.gate.stop_point()
            # any page will do; a short one with words of a firewall is a block all the same
            page = visitor.page(canonical(visit.facts.base_url), expected=lambda _page: False, follow=False)
            return answer_of(page.status, _latency(visit)), None
    except HostCooldown as objection:
        status, reason = objection.evidence.status, objection.evidence.line()
        if status is None:
            return {**unknown(reason), "state": "unreachable"}, objection
        return answer_of(status, _latency(visit), reason), objection
    except NoAnswer as nothing:
        return {**unknown(nothing.reason[:500]), "state": "unreachable" if nothing.is_allowed else "unknown"}, None
    except Parked as parked:
        if parked.reason != "robots_unreachable":
            raise
        return unknown(f"{parked.reason}: {parked.detail}"[:500]), None


def _latency(visit: SiteVisit) -> float | None:
    """Return how long the last answer took to begin."""
    records = visit.gate.records
    if not records:
        return None
    last = records[-1][1]
    return (last.answered or last.ended) - last.started
