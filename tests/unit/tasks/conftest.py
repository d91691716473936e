"""A bench on which the crawl task runs attempt by attempt in this process, under a clock that the tests move."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import Retry

from config import clock
from config.settings import Settings, clear_settings, use_settings
from models import db as databases
from models.attempt import Attempt, enter
from models.db import Database
from models.sites import sites, targets
from routing.lanes.guard import Guard
from tasks.crawl import crawl_target
from tasks.signals import settle_retry
from tests.support.crawl_ports import LIST_OPTIONS
from tests.support.ledger import Bench, seed


@dataclass
class CrawlBench(Bench):
    """Runs attempts as a worker would: claim, start, body, and the end that Celery reports."""

    held: list[Attempt] = field(default_factory=list)

    def crawls(self, url: str, *, interval_sec: float = 0.2, code: str = "t1", **options: Any) -> None:
        """Make a target one that is crawled at `url`."""
        self.change(sites, base_url=url)
        self.change(targets, targets.c.target_code == code, interval_sec=interval_sec, options=LIST_OPTIONS | options)

    def attempt_on(self, lane: str = "g1") -> Attempt:
        """Claim the head of a lane and start it."""
        claim, asked = self.claim(lanes=[f"^{lane}$"]), clock.Stopwatch()
        attempt = Attempt(self.ledger, self.start(claim))
        attempt.guard = Guard(self.ledger, attempt.started, asked)
        return attempt

    def run_attempt(self) -> str:
        """Run one attempt to its end; returns why it ended."""
        attempt = self.attempt_on()
        enter(attempt)
        crawl_target.push_request(id=attempt.claim.job_id)
        try:
            attempt.finish(crawl_target(attempt.claim.target_code))
        except Retry as retry:
            settle_retry(request=crawl_target.request, reason=retry)
        finally:
            crawl_target.pop_request()
            enter(None)
        assert attempt.verdict is not None
        return attempt.verdict.why

    def run_job(self, job_id: str, *, most: int = 40) -> list[str]:
        """Run attempts until the job is over, moving the clock on to the next one; returns why each ended."""
        ends: list[str] = []
        while len(ends) < most and self.job(job_id)["status"] == "queued":
            ends.append(self.run_attempt())
            due = [row for row in (self.job(job_id)["run_after"], self.group()["next_request_at"],
                                   self.group()["pause_until"]) if row is not None]
            self.clock.now = max([self.clock.now, *due])
        return ends


@pytest.fixture
def bench(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CrawlBench]:
    """A bench whose database and settings are those of this process."""
    settings = use_settings(Settings(home=tmp_path / "home", database_url=database.url, backoff_base_sec=0.0, park_after_sec=0.1))
    monkeypatch.setitem(databases._opened, os.getpid(), database)
    seed(database, {"g1": {"s1": ["t1", "t1b"]}})
    yield CrawlBench(database, settings)
    clear_settings()
