"""A small installation in full swing: sites that are crawled, one behind a firewall that has objected, one that is paused,
one whose crawls fail, and the dashboard that shows all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import yaml

from console import actions
from console.demo import DemoServer, Site, Waf
from console.demo.waf import Answer
from models.operations import Operator
from tests.support.dashboard import Board, flower
from tests.support.site import sites_yaml
from tests.support.store import Store
from tests.support.workers import Worker, Workers

ANN = Operator("ann@desk", "cli", "the office asked for quiet until noon")
#: slow enough to be looked at, quick enough for a test
INTERVAL_SEC = 0.4
#: so long a cooldown lasts on the stage
COOLDOWN_SEC = 120.0
#: the lane of the sites behind one firewall
CITY = "city-firewall"
SHARED = ("gd-news", "gd-notices")


@dataclass
class Stage:
    """What stands on it; the target of a site's column is ``<site>_<column>``."""

    store: Store
    server: DemoServer
    dashboard: Board
    worker: Worker

    @staticmethod
    def group(name: str) -> str:
        """Return the rate group of a site."""
        return CITY if name in SHARED else f"{name}.example"


class CountedSite(Site):
    """A site whose list pages say how many articles there are in all, so that a crawl knows how far it is."""

    def answer(self, path: str, if_none_match: str | None = None) -> Answer:
        """Answer as any site, with the number below the list."""
        found = super().answer(path, if_none_match)
        number = sum(len(self.article_urls(column)) for column in self.columns)
        return replace(found, body=found.body.replace(b"</ul>", f'</ul><b class="total">{number}</b>'.encode()))


def _sites() -> list[Site]:
    return [
        CountedSite("river-office", columns={"reports": 240}, per_page=6),
        Site("old-registry", columns={"entries": 300}, per_page=20, gbk=True),
        Site("gd-news", columns={"news": 60}, per_page=6),
        Site("gd-notices", columns={"notices": 60}, per_page=6),
        Site("library", columns={"books": 40, "events": 30}, per_page=10),
        Site("chapel", columns={"psalms": 3}, per_page=4),
        Site("harbour", columns={"tides": 12}, per_page=4, robots="User-agent: *\nDisallow: /tides/\n"),
    ]


@contextmanager
def stage(store: Store) -> Iterator[Stage]:
    """Serve, crawl and show for the length of a block."""
    sites = _sites()
    firewall = Waf(hosts=SHARED, behaviour="block_403", after_requests=9, lasts_sec=600, trips=None)
    crew = Workers(store)
    told = {"cooldown_delay_sec": COOLDOWN_SEC, "max_attempts": 1}
    with DemoServer(sites, [firewall]) as server:
        rules = [{"key": Stage.group(site.name), "site": site.name} for site in sites]
        document = yaml.safe_load(sites_yaml(sites, INTERVAL_SEC, rules))
        document["sites"][0]["targets"][0]["options"]["total"] = "b.total"
        store.load(yaml.safe_dump(document, allow_unicode=True))
        try:
            worker = crew.launch("one", concurrency=8, **told)
            with flower(store, settings=told) as shown:
                worker.wait_ready()
                yield Stage(store, server, shown, worker)
        finally:
            crew.end()


def fill(stage: Stage) -> dict[str, str]:
    """Have every kind of job on the stage and return their ids by target; those behind the firewall have met it."""
    store = stage.store
    actions.pause(store.db, stage.group("library"), ANN, for_sec=3_600)
    targets = ("chapel_psalms", "gd-news_news", "gd-notices_notices", "river-office_reports", "old-registry_entries", "library_books",
               "library_events", "harbour_tides")
    ids = {target: store.submit(target, dedupe_key=f"crawl:{target}", max_attempts=1) for target in targets}
    cancelled = store.submit("old-registry_entries", priority=300)
    store.cancel(cancelled)
    store.wait_for(ids["harbour_tides"], "failed", "done")
    store.wait_for(ids["chapel_psalms"], "done")
    store.wait_for(ids["gd-news_news"], "queued", timeout=60)
    return ids | {"cancelled": cancelled}
