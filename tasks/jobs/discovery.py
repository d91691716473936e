"""The discovery of one site as a job in its lane: pages that look like lists and belong to no target (rule S7)."""

from __future__ import annotations

from typing import Any

from config.celery import app
from config.errors import Cancelled, HostCooldown, Parked, StaleClaim
from config.settings import get_settings
from models.db import get_database
from models.outcome import message_of
from models.queries import crawling, snapshots
from tasks.base import LaneTask
from tasks.crawl import note_block
from tasks.jobs.site import SiteVisit
from tasks.pipeline.discovery import Ground, Search, discover, lists_of
from tasks.pipeline.urls import canonical


@app.task(base=LaneTask, bind=True, name="ratelane.discovery")
def discover_site(self: LaneTask, *_target: str) -> dict[str, Any]:
    """Look for new lists of the job's site; returns ``{"outcome", "reason", "progress": {"pages", "found"}}``.

    A block ends the attempt like that of a crawl: the job goes on behind the pause, with the pages that are left.
    """
    visit = SiteVisit(get_database(), self.attempt, get_settings())
    journal, facts = visit.journal, visit.facts
    search = Search.restored((self.attempt.started.checkpoint or {}).get("search") or {})
    lists, own = lists_of(visit.ask(lambda conn: crawling.options_of_site(conn, facts.site_code)), facts.base_url)
    ground = Ground(
        home=canonical(facts.base_url), lists=lists, own=own,
        stored=lambda urls: visit.ask(lambda conn: crawling.stored_of_site(conn, facts.site_code, urls)),
        candidates=visit.ask(lambda conn: snapshots.candidates_of(conn, facts.site_code)))

    def keep(rows: list[dict[str, Any]]) -> None:
        journal.progress.pages, journal.progress.items_new = len(search.asked), search.found
        journal.note(site_code=facts.site_code, candidates=tuple(rows), checkpoint={"search": search.document()})

    journal.progress.step("list", "running")
    try:
        with visit.visitor() as visitor:
            discover(ground, search, visitor, visit.gate, self.attempt.claim.job_id, keep)
    except HostCooldown as objection:
        journal.leaves("pending", f"cooldown: {objection.evidence.line()}")
        note_block(journal, objection)
        raise self.retry(exc=objection) from objection
    except StaleClaim:
        raise
    except (Cancelled, Parked) as end:
        journal.leaves("pending" if isinstance(end, Parked) else "skipped", str(end))
        journal.flush()
        raise
    except Exception as error:
        journal.leaves("failed", message_of(error))
        journal.flush()
        raise
    journal.progress.step("list", "done")
    journal.flush()
    return {"outcome": "success", "reason": "", "progress": {"pages": len(search.asked), "found": search.found}}
