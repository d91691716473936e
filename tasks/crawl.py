"""The crawl of one target as a lane task: the pipeline does the walking, the gate and the journal connect it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from config.celery import app
from config.errors import Cancelled, HostCooldown, Parked, PartialCrawl, PermanentJobError, StaleClaim
from config.logs import get_logger, log_event
from config.settings import Settings, get_settings
from models.attempt import Attempt, limits_of
from models.db import Database, get_database, patiently
from models.lifecycle import State
from models.outcome import Ended, judge, message_of
from models.queries.crawling import TargetFacts, target_facts, was_blocked
from tasks.base import LaneTask
from tasks.export.task import after_crawl
from tasks.gate import CrawlGate
from tasks.journal import CrawlJournal
from tasks.known import stat_date_of
from tasks.pipeline.access import Access, NoAccess, open_access
from tasks.pipeline.fetcher import Fetcher
from tasks.pipeline.target import CrawlResult, StartPoint, TargetSpec
from tasks.pipeline.urls import host_key
from tasks.pipeline.waf import Rule
from tasks.pipeline.walk import crawl

log = get_logger("ratelane.crawl")
#: parked for these reasons an attempt goes on exactly where it was: it may be that no attempt ever gets further
_KEEPS_PLACE = frozenset({"parked", "robots_unreachable", "quiet_window"})


@app.task(base=LaneTask, bind=True, name="ratelane.crawl")
def crawl_target(self: LaneTask, target_code: str) -> dict[str, Any]:
    """Crawl a target under the claim of this message; returns the crawl's result document."""
    attempt, settings = self.attempt, get_settings()
    db = get_database()
    facts = patiently(lambda: _facts(db, target_code))
    if facts is None:
        raise PermanentJobError(f"target {target_code} is gone")
    access = access_of(facts, settings)
    start = replace(start_point(attempt, facts), blocked=_was_blocked(db, attempt))
    gate = CrawlGate(attempt, attempt.guard, settings, facts.interval_sec)
    journal = CrawlJournal(db, attempt, gate, facts, start)
    try:
        result = _walk(facts, access, start, gate, journal, settings)
    except HostCooldown as objection:
        is_last = _is_last(attempt, objection)
        journal.leaves("failed" if is_last else "pending", f"cooldown: {objection.evidence.line()}")
        note_block(journal, objection)
        raise self.retry(exc=objection) from objection
    except StaleClaim:
        raise
    except Parked as parked:
        journal.leaves("pending", f"{parked.reason}: {parked.detail}" if parked.detail else parked.reason)
        journal.parked() if parked.reason in _KEEPS_PLACE else journal.flush()
        raise
    except Cancelled:
        journal.leaves("skipped", "cancelled")
        journal.flush()
        raise
    except Exception as error:
        journal.leaves("failed", message_of(error))
        journal.flush()
        raise
    return _result(attempt, journal, result, settings)


def _is_last(attempt: Attempt, error: BaseException) -> bool:
    """Tell whether an attempt that ends by `error` is its job's last one, as the settle will decide."""
    tally = replace(attempt.started.tally, last_completed_page=attempt.last_completed_page)
    return judge(Ended(error=error), tally, limits_of(attempt.ledger.settings)).state is State.FAILED


def note_block(journal: CrawlJournal, objection: HostCooldown) -> None:
    """Write down what was seen of a block; an attempt that is over may write nothing, but its block was real (J7).

    The retry that follows goes through the same settle as any other, which then lengthens the group's pause alone.
    """
    try:
        journal.objected(objection)
    except StaleClaim as stale:
        log_event(log, "crawl.block_of_a_stale_attempt", job=stale.job_id, attempt=stale.attempt, reason=str(objection))


def _facts(db: Database, target_code: str) -> TargetFacts | None:
    with db.read() as conn:
        return target_facts(conn, target_code)


def start_point(attempt: Attempt, facts: TargetFacts) -> StartPoint:
    """Return where the walk begins: behind the durable checkpoint if its options still hold (rule J11).

    An attempt that was parked goes on in its place, whether the target keeps checkpoints or not.
    """
    started = attempt.started
    kept = started.checkpoint or {}
    options = started.options or {}
    refetch = options.get("refetch") is True
    # a snapshot lists what stands on every page, and all of them on its own day
    force = started.force or stat_date_of(options) is not None
    if kept.get("options_hash") == facts.options_hash and kept.get("snapshot") == options.get("snapshot"):
        state, counts = kept.get("state") or {}, kept.get("counts") or {}
        if "parked_after" in kept:
            return StartPoint(kept["parked_after"], state, force, kept.get("place"), counts, refetch)
        if facts.track_checkpoint:
            return StartPoint(started.last_completed_page, state, force, None, counts, refetch)
    return StartPoint(after_page=started.resume_from_page, force=force, refetch=refetch)


def _was_blocked(db: Database, attempt: Attempt) -> bool:
    def ask() -> bool:
        with db.read() as conn:
            return was_blocked(conn, attempt.claim.job_id, attempt.claim.attempt)

    return attempt.claim.attempt > 1 and patiently(ask)


def access_of(facts: TargetFacts, settings: Settings) -> Access:
    """Look up what the site's options refer to, here where the crawl runs (rule P1)."""
    try:
        return open_access(facts.site_code, facts.site_options, os.environ, settings.user_agent)
    except NoAccess as error:
        raise PermanentJobError(str(error)) from error


def _walk(
    facts: TargetFacts, access: Access, start: StartPoint, gate: CrawlGate, journal: CrawlJournal, settings: Settings
) -> CrawlResult:
    with fetcher_of(facts, access, gate, settings) as fetcher:
        return crawl(spec_of(facts, access, settings), start, fetcher, journal, gate)


def fetcher_of(facts: TargetFacts, access: Access, gate: CrawlGate, settings: Settings) -> Fetcher:
    """Return the client of one attempt."""
    return Fetcher(
        gate, user_agent=access.user_agent, timeout_sec=settings.request_timeout_sec,
        max_body_bytes=settings.max_body_bytes, max_long_bytes=settings.max_sitemap_bytes, headers=access.headers,
        secret_headers=access.secret_headers, cookies=access.cookies, auth=access.auth, proxy=access.proxy,
        legacy_tls=access.legacy_tls, mask=access.mask, is_secure=facts.base_url.startswith("https:"))


def spec_of(facts: TargetFacts, access: Access, settings: Settings) -> TargetSpec:
    """Return a target as the pipeline knows it."""
    site = facts.site_options
    return TargetSpec(
        target_code=facts.target_code, site_code=facts.site_code, base_url=facts.base_url, adapter=facts.adapter,
        options=facts.options, interval_sec=facts.interval_sec, user_agent=access.user_agent,
        group_hosts=frozenset(key for url in facts.group_urls if (key := host_key(url))),
        allowed_hosts=frozenset(facts.options.get("allowed_hosts") or ()),
        own_addresses=frozenset(site.get("own_addresses") or ()), waf_off=frozenset(site.get("waf_off") or ()),
        waf_extra=tuple(Rule.model_validate(rule) for rule in site.get("waf_extra") or ()),
        robots_retry_sec=settings.robots_retry_sec, mask=access.mask)


def _result(attempt: Attempt, journal: CrawlJournal, result: CrawlResult, settings: Settings) -> dict[str, Any]:
    # a walk that began at a page somebody named has not seen the pages before it
    whole = result.outcome == "complete" and attempt.started.resume_from_page == 0
    again = result.outcome == "partial" and not attempt.is_last_try
    stays = "" if whole else f"the frontier stays: {result.outcome if result.outcome != 'complete' else 'begun behind a page'}"
    result.progress.step("finish", "done", stays)
    export = None if again else _export(attempt, result)
    if export is None:
        result.progress.step("export", "skipped", "rag_export_after_crawl is off" if not settings.rag_export_after_crawl
                             else "the crawl is tried again")
    journal.progress = result.progress
    journal.ended(result.outcome, moves_frontier=whole, validators=result.validators)
    totals = journal.totals()
    document = {"status": "ok"} | result.document() | {
        name: totals[name] for name in ("items_new", "items_known", "items_failed", "items_external", "bytes")}
    document["given_up"] = journal.given_up()
    if export is not None:
        document["rag_export"] = export
    if result.outcome == "partial":
        raise PartialCrawl("; ".join(result.reasons) or "something could not be read", document)
    return document


def _export(attempt: Attempt, result: CrawlResult) -> dict[str, Any] | None:
    """Have the target exported if that is wished; should this process die before the end, the next attempt asks again."""
    target = attempt.claim.target_code
    found = None if target is None else after_crawl(attempt.ledger.db, attempt.ledger.settings, target)
    if found is not None:
        result.progress.step("export", "running")
    return found
