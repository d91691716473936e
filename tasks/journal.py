"""The journal of one crawl: what is known of its target, and every commit of its attempt (rules P2, P5, J12).

It implements `tasks.pipeline.ports.Journal`. Each article is one fenced transaction with the progress and the rows of
the request log; a commit that is repeated after a lost answer writes the same again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Any

from config import clock
from config.errors import HostCooldown
from models.attempt import Attempt
from models.claim import Commit
from models.db import Database, patiently
from models.queries import crawling
from models.queries.crawling import TargetFacts
from tasks.gate import CrawlGate
from tasks.known import Known
from tasks.pipeline.place import after_block
from tasks.pipeline.ports import Article, RequestRecord, RobotsCopy
from tasks.pipeline.progress import Progress
from tasks.pipeline.robots import crawl_delay
from tasks.pipeline.target import StartPoint
from tasks.pipeline.urls import host_key

#: progress alone is written at most twice a second (rule J12), and not if anything was written just now; a step that
#: begins is news that does not wait for that
PROGRESS_EVERY_SEC = 0.5
_WINDOW_SEC, _MOST_IN_WINDOW = 1.0, 2
_REASON_LENGTH = 300
#: a walk that goes on behind a checkpoint meets such items again
_COUNTED_AGAIN = ("items_known", "items_failed")
_STORED = ("items_new", "items_external")


class CrawlJournal(Known):
    """Reads and commits for one attempt of one target."""

    def __init__(self, db: Database, attempt: Attempt, gate: CrawlGate, facts: TargetFacts, start: StartPoint) -> None:
        super().__init__(db, attempt, facts)
        self._gate = gate
        self._generation = facts.frontier_gen + 1
        self._base, self._met_again = _totals_before(attempt.started.progress, start.counts)
        self._clock = clock.Stopwatch()
        self._last_progress = 0.0
        self._alone: deque[float] = deque(maxlen=_MOST_IN_WINDOW)
        self._told_steps: dict[str, str] = {}
        self.progress: Progress = Progress()
        #: where the walk stops now, and the checkpoint of a parked attempt as long as no other has taken its place
        self._place: dict[str, Any] | None = None
        self._parked: dict[str, Any] | None = attempt.started.checkpoint if start.place is not None else None
        self._state: dict[str, Any] = dict(start.state)
        self._after = start.after_page
        #: what the page that was just walked lists, until a commit has said so
        self._listed: dict[str, str] = {}
        #: list pages that have answered anew, until a commit has said so
        self._answered: tuple[str, ...] = ()

    def own(self, urls: Sequence[str]) -> set[str]:
        """Return those of the stored URLs that this very job has stored, and counted, behind its checkpoint (J12).

        A walk that goes on there meets each of them once more, in the order in which they were stored.
        """
        found = set(urls[: self._met_again])
        self._met_again -= len(found)
        return found

    def refreshed(self, article: Article, progress: Progress) -> None:
        """Commit that a known article was read again, as it is now."""
        self._commit(progress, articles=(self._row(article),))
        self._ahead.forget()

    def unchanged(self, url: str, progress: Progress) -> None:
        """Commit that a known article was asked for again and is as it was."""
        self._commit(progress, unchanged=(url,))

    def listed(self, marks: Mapping[str, str]) -> None:
        """Take what a page lists; only a crawl that takes a snapshot keeps it."""
        if self._stat_date is not None:
            self._listed |= marks

    def list_answered(self, url: str) -> None:
        """Note that what is kept for asking this list page again is void; the next commit says so."""
        self._answered = (*self._answered, url)

    def store(self, article: Article, progress: Progress) -> None:
        """Commit an article, or another URL of one, with the progress and the buffered request rows."""
        target = self._facts.target_code
        again = (article.url,) if self._ahead.is_failed(article.url) else ()
        if article.alias_of is not None:
            alias = {"target_code": target, "url": article.url, "article_url": article.alias_of,
                     "title": article.title, "source_page": article.source_page, "generation": self._generation}
            self._commit(progress, aliases=(alias,), read_after_all=again)
            self._ahead.forget()
            return
        self._commit(progress, articles=(self._row(article),), read_after_all=again)
        self._ahead.stored(article.url, article.final_url, is_external=article.external)

    def _row(self, article: Article) -> dict[str, Any]:
        return {
            "target_code": self._facts.target_code, "site_code": self._facts.site_code, "url": article.url,
            "own_id": article.own_id, "final_url": article.final_url, "title": article.title,
            "published_at": article.published_at.astimezone(UTC) if article.published_at else None,
            "text": article.text, "sha256": article.sha256, "source_page": article.source_page,
            "external": article.external, "marked": article.marked, "facts": dict(article.facts),
            "etag": article.validators.etag or None, "last_modified": article.validators.last_modified or None,
            "generation": self._generation, "job_id": self._attempt.claim.job_id}

    def failed(self, url: str, title: str, source_page: str, error: str, progress: Progress) -> bool:
        """Commit that an item could not be read; it does not become known. Tells whether it is given up by now."""
        self._commit(progress, failed_items=(self._item(url, title, source_page, error, forbidden=False),))
        self._ahead.forget()
        return self._ask(lambda conn: crawling.is_given_up(conn, self._facts.target_code, url))

    def stopped(self, place: dict[str, Any]) -> None:
        """Keep, in memory, where the walk stops."""
        self._place = place

    def page_done(self, page: int, state: dict[str, Any], progress: Progress) -> None:
        """Commit the checkpoint: `page` was walked whole."""
        self._parked, self._state, self._after = None, state, page
        self.progress = progress
        if self._facts.track_checkpoint:
            self._commit(progress, last_completed_page=page, checkpoint=self._checkpoint(), **self._page())
        else:
            self._commit(progress, checkpoint={}, **self._page())

    def _page(self) -> dict[str, Any]:
        """Take out what a page lists, for the commit that carries it."""
        listed, self._listed = tuple(sorted(self._listed.items())), {}
        return {"stat_date": self._stat_date, "listed": listed} if listed else {}

    def _checkpoint(self, **more: Any) -> dict[str, Any]:
        totals = self.totals()
        counts = {name: totals[name] for name in (*_COUNTED_AGAIN, *_STORED)}
        day = None if self._stat_date is None else self._stat_date.isoformat()
        return {"state": self._state, "options_hash": self._facts.options_hash, "counts": counts, "snapshot": day, **more}

    def begins(self, progress: Progress) -> None:
        """Take the progress that the walk will report; nothing is written yet."""
        self.progress = progress

    def progressed(self, progress: Progress) -> None:
        """Commit the progress and what has gathered, at most twice a second."""
        self.progress, now = progress, clock.monotonic()
        is_news = progress.steps != self._told_steps or now - self._last_progress >= PROGRESS_EVERY_SEC
        if is_news and not (len(self._alone) == _MOST_IN_WINDOW and now - self._alone[0] < _WINDOW_SEC):
            self._alone.append(now)
            self._commit(progress)

    def keep_robots(self, copy: RobotsCopy) -> None:
        """Commit what robots.txt of a host answered; the group's bound follows what its hosts ask for now (rule P4)."""
        row = {"host": copy.host, "status": copy.status, "decision": copy.decision, "wait_sec": copy.wait_sec,
               "body": copy.text}
        self._commit(self.progress, robots=(row,))
        hosts = {copy.host, *(key for url in self._facts.group_urls if (key := host_key(url))),
                 *self._ask(lambda conn: crawling.allowed_hosts(conn, self._attempt.claim.group))}
        agent = self._facts.site_options.get("user_agent") or self._attempt.ledger.settings.user_agent
        bodies = self._ask(lambda conn: crawling.robots_with_delays(conn, sorted(hosts)))
        self._gate.bound_delay(max((crawl_delay(body, agent) for body in bodies), default=0.0))

    def mark_forbidden(self, url: str) -> None:
        """Commit that the URL answers 403 while its list page answers."""
        item = self._item(url, "", "", "forbidden: 403 again while its list page answers", forbidden=True)
        self._commit(self.progress, failed_items=(item,), weak_403=True)
        self._ahead.forget()

    def objected(self, objection: HostCooldown) -> None:
        """Commit what the crawl saw of a block: the one line that survives if nothing after it does (rule C2)."""
        seen = asdict(objection.evidence) | {"retry_after_sec": objection.retry_after_sec}
        parked = self._parked
        again = None if parked is None else {**parked, "place": after_block(parked.get("place") or {})}
        self._commit(self.progress, cooldown_seen=seen, checkpoint=again)

    def ended(self, outcome: str, *, moves_frontier: bool, validators: dict[str, str] | None = None) -> None:
        """Commit what the crawl came to; a complete one moves the frontier to its own generation (rule P2).

        Only then are the first list page's `validators` kept, if the target is still what was crawled: "unchanged" has
        to mean that nothing is left to read.
        """
        if validators is not None and not (moves_frontier and self._is_same_target()):
            validators = None
        self._commit(self.progress, outcome=outcome, frontier=self._generation if moves_frontier else None,
                     validators=validators, **self._page())

    def _is_same_target(self) -> bool:
        now = self._ask(lambda conn: crawling.target_facts(conn, self._facts.target_code))
        return now is not None and now.options_hash == self._facts.options_hash

    def given_up(self) -> int:
        """Return how many items of the target are given up (rule P3)."""
        return self._ask(lambda conn: crawling.given_up_count(conn, self._facts.target_code))

    def flush(self) -> None:
        """Commit what has gathered, before the attempt ends."""
        self._commit(self.progress)

    def leaves(self, status: str, reason: str) -> None:
        """Say on the steps that run how the attempt leaves them; the next commit carries it (rule J12)."""
        if "running" not in self.progress.steps.values():
            self.progress.step("prepare", "running")
        self.progress.end_steps(status, reason[:_REASON_LENGTH])
        if status == "skipped":
            self.progress.end_steps(status, reason[:_REASON_LENGTH], of="pending")

    def parked(self) -> None:
        """Commit what has gathered, and exactly where to go on: with a long interval each item is an attempt.

        It holds for targets without checkpoints too, or they would never come to their second item.
        """
        self._commit(self.progress, checkpoint=self._checkpoint(parked_after=self._after, place=self._place))

    def totals(self) -> dict[str, Any]:
        """Return the job's progress document: what earlier attempts did and what this one has done."""
        found = self.progress.document(self._clock.elapsed(), self._gate.gap_sec, self._base)
        for name, before in self._base.items():
            found[name] += before
        found["page"] = found["page"] or self._after
        return found

    def _item(self, url: str, title: str, source_page: str, error: str, *, forbidden: bool) -> dict[str, Any]:
        return {"target_code": self._facts.target_code, "url": url, "title": title,
                "source_page": source_page, "error": error[:2000], "forbidden": forbidden,
                "job_id": self._attempt.claim.job_id}

    def _commit(self, progress: Progress, **what: Any) -> None:
        self.progress, self._looked_up = progress, None
        records, self._gate.records = self._gate.records, []
        delay, self._gate.new_delay = self._gate.new_delay, None
        what["usual_latency_sec"] = self._gate.take_usual()
        # a database that is full may still take this: without it the lease would be lost in the wait (rules D5, J6)
        patiently(lambda: self._once(records, delay, what), meanwhile=self._gate.stay_busy)
        self._told_steps, self._answered = dict(progress.steps), ()
        self._last_progress = clock.monotonic()

    def _once(self, records: list[tuple[int, RequestRecord]], delay: float | None, what: dict[str, Any]) -> None:
        asked = clock.monotonic()
        self._attempt.commit(self._as_commit(records, delay, what))
        self._gate.committed(asked)

    def _as_commit(self, records: list[tuple[int, RequestRecord]], delay: float | None, what: dict[str, Any]) -> Commit:
        # ages are taken at the last moment: the database turns them into its own time
        now = clock.monotonic()
        rows = tuple(
            {"b_number": number, "b_host": record.host, "b_url": record.url, "b_started": now - record.started,
             "b_ended": now - record.ended, "b_status": record.status, "b_bytes": record.bytes,
             "b_error": record.error[:2000], "b_interval": record.interval_sec}
            for number, record in records)
        responded = self._attempt.responded
        return Commit(
            progress=self.totals(), current_page=self.progress.current_page or None, requests=rows,
            response_age_sec=None if responded is None else now - responded[0], aged_at=now,
            response_interval_sec=None if responded is None else responded[1],
            target_code=self._facts.target_code or None, crawl_delay_sec=delay, answered_lists=self._answered, **what)


def _totals_before(progress: dict[str, Any] | None, counts: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Return what earlier attempts of the job did, and how many items they have stored since the checkpoint.

    What is stored counts as it stands, what is met again as of the checkpoint (`counts`).
    """
    found = {name: int((progress or {}).get(name) or 0) for name in (*_STORED, "bytes")}
    since = sum(found[name] - int(counts.get(name) or 0) for name in _STORED)
    return found | {name: int(counts.get(name) or 0) for name in _COUNTED_AGAIN}, max(0, since)
