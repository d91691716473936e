"""What a crawl knows of its target when it asks: stored articles, failed items, what pages gave for asking again.

The reading side of `tasks.journal`. Nothing here is a write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, TypeVar

from sqlalchemy import Connection

from config.errors import PermanentJobError
from models.attempt import Attempt
from models.db import Database, patiently
from models.queries import crawling, snapshots
from models.queries.crawling import TargetFacts
from tasks.ahead import Ahead
from tasks.pipeline.ports import FailedItem, RobotsCopy, Validators

T = TypeVar("T")

#: what is given up is tried so often (rule P3), a few of them a crawl
REST_SEC = 7 * 86_400.0
_MOST_AGAIN = 20
#: a server that says "unchanged" for ever is asked for the whole page at least so often (rule P4)
WHOLE_EVERY_DAYS = 7.0


def stat_date_of(options: Mapping[str, Any] | None) -> date | None:
    """Return the stat date that a crawl with these options takes the snapshot of, None of any other crawl (rule S7).

    Raises PermanentJobError if it is none.
    """
    given = (options or {}).get("snapshot")
    try:
        return None if given is None else date.fromisoformat(given)
    except (TypeError, ValueError):
        raise PermanentJobError(f"option snapshot: {given!r} is no date") from None


class Known:
    """Reads for one attempt of one target."""

    def __init__(self, db: Database, attempt: Attempt, facts: TargetFacts) -> None:
        self._db, self._attempt, self._facts = db, attempt, facts
        #: the URLs that were asked about last and what is stored of them, until the next commit
        self._looked_up: tuple[tuple[str, ...], dict[str, int]] | None = None
        self._refused = self._ask(lambda conn: crawling.refused_before(conn, attempt.claim.job_id))
        self._stat_date = stat_date_of(attempt.started.options)
        self._ahead = Ahead(self._ask, facts.target_code)

    def _ask(self, question: Callable[[Connection], T]) -> T:
        """Read, as often as it takes: a database that is away for a while must not fail a crawl (rule J18)."""

        def once() -> T:
            with self._db.read() as conn:
                return question(conn)

        return patiently(once)

    def known(self, urls: Sequence[str]) -> set[str]:
        """Return those of the canonical URLs that are stored with a body or as external."""
        return set(self._generations(urls))

    def _generations(self, urls: Sequence[str]) -> dict[str, int]:
        """Return those of the URLs that are stored; a walk asks twice about one page, and nobody else stores meanwhile."""
        asked = tuple(urls)
        if self._looked_up is None or self._looked_up[0] != asked:
            self._looked_up = asked, self._ask(lambda conn: crawling.known(conn, self._facts.target_code, asked))
        return self._looked_up[1]

    def is_mine(self, url: str) -> bool:
        """Tell whether this very job has stored the article at `url`."""
        job_id = self._attempt.claim.job_id
        return self._ask(lambda conn: crawling.is_of_job(conn, self._facts.target_code, url, job_id))

    def behind(self, urls: Sequence[str]) -> set[str]:
        """Return those that lie behind the frontier."""
        if self.is_first():
            return set()
        return {url for url, generation in self._generations(urls).items() if generation <= self._facts.frontier_gen}

    def count(self) -> int:
        """Return how many items are stored for the target."""
        return self._ask(lambda conn: crawling.stored_count(conn, self._facts.target_code))

    def is_first(self) -> bool:
        """Tell whether no crawl of the target has ended complete so far."""
        return self._facts.frontier_gen == 0

    def same_document(self, own_id: str, sha256: str) -> str | None:
        """Return the URL of an article of the target that has this id of the site's and this hash, None without one."""
        return self._ask(lambda conn: crawling.same_document(conn, self._facts.target_code, own_id, sha256))

    def stale(self, urls: Sequence[str], days: float) -> set[str]:
        """Return those of the URLs whose article was read, by another job than this, more than `days` days ago."""
        return self._ask(lambda conn: crawling.stale(
            conn, self._facts.target_code, urls, days, self._attempt.claim.job_id))

    def changed(self, marks: Mapping[str, str]) -> set[str]:
        """Return those of the URLs of which the last snapshot holds another mark; none of a crawl that takes none."""
        day, target = self._stat_date, self._facts.target_code
        if day is None or not marks:
            return set()
        before = self._ask(lambda conn: snapshots.marks(conn, target, list(marks), day))
        return {url for url, mark in before.items() if mark != marks[url]}

    def article_validators(self, url: str) -> Validators:
        """Return what the page of a stored article gave for asking again."""
        return Validators(*self._ask(lambda conn: crawling.article_validators(conn, self._facts.target_code, url)))

    def list_validators(self, url: str) -> Validators:
        """Return what a list page gave for asking again, when a crawl that ended complete read it whole."""
        if self.is_first():
            return Validators()
        return Validators(*self._ask(lambda conn: crawling.list_validators(
            conn, self._facts.target_code, url, most_days=WHOLE_EVERY_DAYS)))

    def opened(self, urls: Sequence[str]) -> None:
        """Take the items of the page that is walked next: what is asked of each of them is looked up for all."""
        self._ahead.opened(urls)

    def stored_from(self, final_url: str, url: str) -> str | None:
        """Return the URL of another article of the target that was read at `final_url`, None without one."""
        return self._ahead.stored_from(final_url, url)

    def resting(self, urls: Sequence[str]) -> set[str]:
        """Return those of the URLs that are given up and were tried within the last week."""
        return self._ask(lambda conn: crawling.resting(conn, self._facts.target_code, urls, REST_SEC))

    def due_again(self) -> list[FailedItem]:
        """Return a few of those that are given up and were last tried a week ago."""
        due = self._ask(lambda conn: crawling.due_again(conn, self._facts.target_code, REST_SEC, _MOST_AGAIN))
        return [FailedItem(row.url, row.title, row.source_page) for row in due]

    def robots(self, host: str) -> RobotsCopy | None:
        """Return the stored robots.txt of a host, whatever its age."""
        row = self._ask(lambda conn: crawling.robots_copy(conn, host))
        if row is None:
            return None
        return RobotsCopy(
            row.host, row.status or 0, row.body, row.decision, age_sec=row.age_sec, wait_sec=row.wait_sec)

    def forbidden(self, url: str) -> bool:
        """Tell whether the URL answered 403 before: as the evidence of a block, or because it was marked."""
        if url in self._refused:
            return True
        return self._ask(lambda conn: crawling.failed_item(conn, self._facts.target_code, url)) is True

    def is_lone_403_weak(self) -> bool:
        """Tell whether an item of this target was ever found forbidden."""
        return self._facts.lone_403_weak
