"""What jobs for a whole site have in common: who they are, how they ask, and how they end at a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection

from config.errors import PermanentJobError
from config.settings import Settings
from models.attempt import Attempt
from models.db import Database, patiently
from models.queries.crawling import TargetFacts, site_facts
from tasks.crawl import access_of, fetcher_of, spec_of
from tasks.gate import CrawlGate
from tasks.onlooker import Onlooker
from tasks.pipeline.target import StartPoint, TargetSpec
from tasks.pipeline.visit import Visitor

T = TypeVar("T")


class SiteVisit:
    """One attempt's way to its site."""

    def __init__(self, db: Database, attempt: Attempt, settings: Settings) -> None:
        self.db, self.attempt, self.settings = db, attempt, settings
        code = attempt.started.site_code
        found = None if code is None else self.ask(lambda conn: site_facts(conn, code))
        if found is None:
            raise PermanentJobError(f"site {code} is gone")
        self.facts: TargetFacts = found
        self.access = access_of(self.facts, settings)
        self.spec: TargetSpec = spec_of(self.facts, self.access, settings)
        self.gate = CrawlGate(attempt, attempt.guard, settings, self.facts.interval_sec)
        self.journal = Onlooker(db, attempt, self.gate, self.facts, StartPoint())

    def ask(self, question: Callable[[Connection], T]) -> T:
        """Read, as often as it takes."""

        def once() -> T:
            with self.db.read() as conn:
                return question(conn)

        return patiently(once)

    @contextmanager
    def visitor(self) -> Iterator[Visitor]:
        """Give the site's visitor for the length of a block."""
        with fetcher_of(self.facts, self.access, self.gate, self.settings) as fetcher:
            yield Visitor(self.spec, fetcher, self.journal, self.gate)
