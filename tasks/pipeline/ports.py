"""What the crawl asks of the world: a gate before each request, and a journal of what is stored.

The pipeline knows neither Celery nor SQL. Whoever runs a crawl gives it these two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from tasks.pipeline.progress import Progress


@dataclass(frozen=True)
class RequestRecord:
    """One HTTP request that was tried (page, redirect hop, robots.txt, retry): a row of the request log (rule P5).

    `started` is `config.clock.monotonic()` directly before the first byte was written (before connecting, if no byte
    ever was), `ended` the moment of the last byte or of the failure, `status` None without a response, `error` ""
    or ``Type: message``, `interval_sec` the gap that was required before it. `answered`: when the status had come, from
    where on the time is that of the body's length.
    """

    url: str
    host: str
    started: float
    ended: float
    status: int | None
    bytes: int
    error: str
    interval_sec: float
    answered: float | None = None


class Gate(Protocol):
    """What stands between the crawl and the wire (rules R8, J6)."""

    def before_request(self, host: str) -> float:
        """Wait, however long, until the group's next request is due; returns the gap that was required, in seconds.

        Raises Parked (never "parked"), Cancelled, StaleClaim or JobDeadlineExceeded if the attempt is to stop.
        """

    def check(self) -> None:
        """Raise StaleClaim if a request's whole time limit no longer fits into the lease; called before its first byte."""

    def after_request(self, record: RequestRecord) -> None:
        """Take the row of a request whose response (or failure) just ended: the interval counts from here."""

    def require_delay(self, host: str, seconds: float) -> None:
        """Hold `seconds` as a lower bound of the gap from now on: robots.txt of `host` asks for it (rule P4)."""

    def stop_point(self, *, sends: bool = True) -> None:
        """Raise Parked, Cancelled, JobDeadlineExceeded or StaleClaim if the attempt was asked to stop.

        It stands before each list page and each item; `sends`: a request comes next. Then it is also the only place
        that raises Parked("parked") because that request is due too late to wait for in the slot (rule R6).
        """


@dataclass(frozen=True)
class Validators:
    """What a whole answer gave for asking again whether it has changed, exactly as it came (rule P4)."""

    etag: str = ""
    last_modified: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request that wants a body only if it has changed."""
        found = {"if-none-match": self.etag, "if-modified-since": self.last_modified}
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True)
class FailedItem:
    """An item that could not be read so far, as far as its list told of it."""

    url: str
    title: str
    source_page: str


@dataclass(frozen=True)
class Article:
    """An item that was read; `sha256` is the hash of its whitespace-normalised text.

    `external`: on a host outside the group, title and link alone. `alias_of`: the canonical URL of an article that
    this item's redirect ends at as well; it is known from now on, its body is stored there (text is empty here).
    `marked`: known because it was listed at a first crawl, title and link alone. `facts` is what else its site says of
    it, JSON-able (see `ArticleParts`). `validators` are its page's, if nothing was redirected.
    """

    url: str
    own_id: str | None
    title: str
    published_at: datetime | None
    text: str
    sha256: str
    source_page: str
    final_url: str
    external: bool
    charset: str
    alias_of: str | None = None
    marked: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    validators: Validators = Validators()


@dataclass(frozen=True)
class RobotsCopy:
    """What robots.txt of a host answered: `decision` is ``rules`` (obey `text`), ``allow_all`` or ``not_now``.

    A ``not_now`` has the reason as its text, and the server's own wish for a wait in `wait_sec`. `age_sec` is how long
    ago the answer came, by the clock of whoever keeps it.
    """

    host: str
    status: int
    text: str
    decision: str
    age_sec: float = 0.0
    wait_sec: float = 0.0


class Journal(Protocol):
    """What is stored for this target, and the commits of this attempt."""

    def known(self, urls: Sequence[str]) -> set[str]:
        """Return those of the canonical URLs that are stored with a body or as external."""

    def own(self, urls: Sequence[str]) -> set[str]:
        """Return those of the URLs (known, not behind the frontier, in the list's order, each asked about once a walk)
        that earlier attempts of this very job have stored and counted: they are not counted as known as well.
        """

    def is_mine(self, url: str) -> bool:
        """Tell whether this very job has stored the article at `url`."""

    def behind(self, urls: Sequence[str]) -> set[str]:
        """Return those that lie behind the frontier: stored by a crawl that ended complete (rule P2)."""

    def count(self) -> int:
        """Return how many items are stored for the target; asked when its first list page is empty, or once a walk."""

    def is_first(self) -> bool:
        """Tell whether no crawl of the target has ended complete so far (rule P2: `max_items`, `mark_known`)."""

    def same_document(self, own_id: str, sha256: str) -> str | None:
        """Return the canonical URL of an article of this target that has the site's own id `own_id` and this hash.

        None without one: neither the id nor the text alone makes two URLs one article (rule P2, public report W37).
        """

    def opened(self, urls: Sequence[str]) -> None:
        """Take the items of the page that is walked next, of each of which something will be asked."""

    def stored_from(self, final_url: str, url: str) -> str | None:
        """Return the canonical URL of an article of this target, not `url`, that was read at `final_url`; None without
        one. External items and marked ones were not read.
        """

    def stale(self, urls: Sequence[str], days: float) -> set[str]:
        """Return those of the known URLs whose body was last read, or found unchanged, more than `days` days ago.

        None of external items. Items that are only marked as known are stale at 0 days: nobody has read them yet.
        """

    def article_validators(self, url: str) -> Validators:
        """Return what the page of a stored article gave for asking again; empty without any, or without a body."""

    def refreshed(self, article: Article, progress: Progress) -> None:
        """Commit that a known article was read again: its hash tells whether it changed."""

    def unchanged(self, url: str, progress: Progress) -> None:
        """Commit that a known article was asked for again and has not changed."""

    def list_validators(self, url: str) -> Validators:
        """Return what a list page gave for asking again, if "unchanged" would mean that there is nothing new (P4).

        Empty without a frontier, and if its last whole answer is a week old.
        """

    def list_answered(self, url: str) -> None:
        """Note that a list page answered with a body: what is kept for asking it again is void from the next commit on."""

    def changed(self, marks: Mapping[str, str]) -> set[str]:
        """Return those of the URLs of which the list says something else (see `marks`) than it did when last asked.

        None of those whose list was not kept, as only snapshots keep it (rule S7).
        """

    def listed(self, marks: Mapping[str, str]) -> None:
        """Take what the page that was just walked lists: URL and mark, empty of what has to be looked at once more.

        The page's own commit, or the last one of the crawl, carries it.
        """

    def store(self, article: Article, progress: Progress) -> None:
        """Commit an article with the progress and the buffered request rows."""

    def failed(self, url: str, title: str, source_page: str, error: str, progress: Progress) -> bool:
        """Commit that an item could not be read; it does not become known.

        Tells whether it is given up by now: it failed in three crawls on two days, and blocks nothing any more (P3).
        """

    def resting(self, urls: Sequence[str]) -> set[str]:
        """Return those of the URLs that are given up and were tried within the last week (rule P3)."""

    def due_again(self) -> list[FailedItem]:
        """Return a few of the items that are given up and were last tried a week ago, the oldest try first."""

    def stopped(self, place: dict[str, Any]) -> None:
        """Take where exactly the walk stops, in front of a Parked that comes next (see `tasks.pipeline.place`)."""

    def page_done(self, page: int, state: dict[str, Any], progress: Progress) -> None:
        """Set the checkpoint: `page` was walked whole, `state` is what the adapter needs to go on behind it."""

    def begins(self, progress: Progress) -> None:
        """Take the progress that this walk will report; nothing is written yet."""

    def progressed(self, progress: Progress) -> None:
        """Take the progress alone; it may be dropped (at most two a second are written)."""

    def robots(self, host: str) -> RobotsCopy | None:
        """Return the stored robots.txt of a host, whatever its age."""

    def keep_robots(self, copy: RobotsCopy) -> None:
        """Store what robots.txt of a host answered."""

    def forbidden(self, url: str) -> bool:
        """Tell whether the URL answered 403 before: it was the evidence of a block, or was marked (rule C1)."""

    def is_lone_403_weak(self) -> bool:
        """Tell whether an item of this target was ever found forbidden."""

    def mark_forbidden(self, url: str) -> None:
        """Note that the URL answers 403 while its list page answers; from now on a lone 403 is weak."""
