"""What is crawled, from where on, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.pipeline.progress import Progress
from tasks.pipeline.urls import Scope, host_key
from tasks.pipeline.waf import Rule

Outcome = Literal["complete", "partial", "truncated"]

#: so many different reasons are kept in a result
_MOST_REASONS = 20


@dataclass(frozen=True)
class TargetSpec:
    """One target, as its crawl needs to know it.

    `group_hosts` are host keys of the group (``www.example.org``, ``127.0.0.1:8080``) and globs of its rules;
    `allowed_hosts` the target's own addition (rule P3). `own_addresses` are private IP addresses of the site.
    `waf_off` names rules of `tasks.pipeline.waf` to do without, `waf_extra` are the site's own. `robots_retry_sec` is
    how long a robots.txt that could not be had is left alone. `mask` takes the crawl's secrets out of a text.
    """

    target_code: str
    site_code: str
    base_url: str
    adapter: str
    options: Mapping[str, Any]
    interval_sec: float = 10.0
    user_agent: str = "ratelane"
    group_hosts: frozenset[str] = frozenset()
    allowed_hosts: frozenset[str] = frozenset()
    own_addresses: frozenset[str] = frozenset()
    waf_off: frozenset[str] = frozenset()
    waf_extra: tuple[Rule, ...] = ()
    robots_retry_sec: float = 1800.0
    mask: Callable[[str], str] = field(default=str, repr=False)

    @property
    def scope(self) -> Scope:
        """Where this crawl may go."""
        return Scope(host_key(self.base_url), self.group_hosts | self.allowed_hosts, self.own_addresses)


@dataclass(frozen=True)
class StartPoint:
    """Where a walk begins: behind page `after_page` (0: from the beginning), with that checkpoint's adapter state.

    `force` walks every page, whatever the frontier says; `refetch` reads known bodies too (rule J11). `place` is where
    an earlier attempt was parked, if it was (see `tasks.pipeline.place`). `counts` are the job's totals as they stood
    there: the journal's business. `blocked`: the last thing that the job saw was a block, and nothing has answered since.
    """

    after_page: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)
    force: bool = False
    place: Mapping[str, Any] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    refetch: bool = False
    blocked: bool = False


@dataclass
class CrawlResult:
    """What a walk came to (rule P3). `pages` were read in this attempt; `robots` is each host's decision."""

    outcome: Outcome = "complete"
    reasons: list[str] = field(default_factory=list)
    pages: int = 0
    progress: Progress = field(default_factory=Progress)
    last_completed_page: int = 0
    reached_frontier: bool = False
    robots: dict[str, str] = field(default_factory=dict)
    #: what made it partial, by the step in which it happened: the first of each
    troubles: dict[str, str] = field(default_factory=dict)
    #: what the first list page gave for asking it again, worth keeping if the crawl ends complete: {url, etag, …}
    validators: dict[str, str] | None = None

    def lower(self, outcome: Outcome, reason: str, *, step: str = "list") -> None:
        """Lower the outcome for a reason; partial is lower than truncated, and neither is raised again."""
        if outcome == "partial":
            self.troubles.setdefault(step, reason)
        if outcome == "partial" or self.outcome == "complete":
            self.outcome = outcome
        self.remark(reason)

    def remark(self, reason: str) -> None:
        """Note something about the crawl that lowers nothing."""
        if reason not in self.reasons and len(self.reasons) < _MOST_REASONS:
            self.reasons.append(reason)

    def document(self) -> dict[str, Any]:
        """Return the JSON-able result of the job."""
        counts = self.progress
        return {
            "outcome": self.outcome, "reasons": list(self.reasons), "pages": self.pages,
            "last_completed_page": self.last_completed_page, "reached_frontier": self.reached_frontier,
            "items_new": counts.items_new, "items_known": counts.items_known, "items_failed": counts.items_failed,
            "items_external": counts.items_external, "bytes": counts.bytes, "robots": dict(self.robots),
        }
