"""Whatever the oddities of gkmlpt sites: what they published is stored, or the outcome says why not (rules P2, P3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from config.errors import HostCooldown, Parked
from console.demo.server import DemoServer
from console.demo.waf import Waf
from tasks.pipeline import CrawlResult, StartPoint, TargetSpec
from tasks.pipeline.place import after_block
from tests.support.crawl_ports import MemoryGate, MemoryJournal, ParkingGate, gkmlpt_target, walk
from tests.support.gkmlpt_site import Doc, GkmlptHost, GkmlptSite, Switches, doc

COLUMN = 5001
WINDOW = 10
_MOST_CRAWLS = 8

switches = st.builds(
    Switches, page_size=st.just(5), past_end=st.sampled_from(["404", "empty", "repeat-last"]), page_zero=st.booleans(),
    window=st.sampled_from([*[None] * 6, 5, WINDOW]), pinned=st.integers(0, 2), schemes=st.sampled_from(["listed", "mixed"]),
    mobile=st.booleans(), titles=st.sampled_from(["plain", "escaped", "marked"]), dates=st.sampled_from(["all", "few"]),
    charset=st.sampled_from(["utf-8", "gb2312", "unsaid", "lying"]), content=st.sampled_from(["page", "detail"]),
    offset=st.sampled_from(["right", "left out"]))
kinds = st.sampled_from(["normal", "normal", "normal", "elsewhere", "new id", "attachment"])
#: what changes between two answers of the API: so many rows are published, and those at these places are taken down
changes = st.tuples(st.sampled_from([0, 0, 0, 1, 2, 6]), st.lists(st.integers(0, 7), max_size=3))
troubles = st.sampled_from([*[""] * 12, "cut", "schema", "maintenance", "500", "phrase", "403", "reset"])


#: a firewall in front of the host, which objects once, and to whatever comes
wafs = st.none() | st.builds(
    Waf, behaviour=st.sampled_from(["rate_429", "block_403", "busy_503", "challenge_412", "soft_200", "reset", "close"]),
    after_requests=st.integers(0, 30), lasts_sec=st.just(0.0))


@dataclass
class Town:
    """A site with everything that it ever published, by canonical URL."""

    site: GkmlptSite
    base: str
    note: str
    ever: dict[str, Doc] = field(default_factory=dict)
    number: int = 3_256_000

    def publish(self, kind: str, at: int = 0) -> None:
        """Put a document of a kind into the column."""
        self.number += 1
        new = doc(self.number, note=self.note, page_id=self.number + 7_000_000 if kind == "new id" else None,
                  link=f"http://www.far.example.cn/{self.note}{self.number}".replace("（", "").replace("）", "") if kind == "elsewhere" else "",
                  attachments=("附件.doc",) if kind == "attachment" else ())
        self.site.columns[COLUMN].insert(at, new)
        self.ever[self.site.address(self.base, new)] = new

    def change(self, published: int, places: list[int]) -> None:
        """Publish and take down rows."""
        taken = [place for place in places if place < len(self.site.columns[COLUMN]) and self.site.columns[COLUMN].pop(place)]
        # as many up as down in one moment, and no answer could tell
        for _ in range(published - (0 < published == len(taken))):
            self.publish("normal")

    @property
    def listed(self) -> list[Doc]:
        """What the site lists in its first `window` rows now."""
        return (self.site._listed(COLUMN, None) or [])[: self.site.switches.window]


@pytest.fixture(scope="module")
def server() -> Iterator[DemoServer]:
    with DemoServer([GkmlptHost()]) as running:
        yield running


def job(spec: TargetSpec, journal: MemoryJournal, *, parks: bool) -> tuple[CrawlResult, int]:
    """Run a crawl as a job does: again behind its checkpoint when it was parked or blocked; returns result and blocks."""
    pages, before, blocks = len(journal.pages), set(journal.articles), 0
    journal.place = None
    for _ in range(200):
        after, state = journal.pages[-1] if len(journal.pages) > pages else (0, {})
        journal.stored = set(journal.articles) - before
        try:
            return walk(spec, journal, ParkingGate() if parks else MemoryGate(), StartPoint(after, state, place=journal.place)), blocks
        except Parked:
            continue
        except HostCooldown:
            blocks += 1
            journal.place = after_block(journal.place) if journal.place else None
    raise AssertionError("the crawl does not end")


def expected(town: Town, one: Doc, base: str) -> tuple[str, str, bool]:
    """Title, text and whether it is external, of a document as it should be stored."""
    title = f"{one.title[:4]} {one.title[4:]}" if town.site.switches.titles == "marked" else one.title
    if one.link:
        return title, "", True
    text = "\n".join([one.text] * 4)
    files = [f"- {name} {base}{town.site.prefix}/attachment/0/7/7/{one.id}.doc" for name in one.attachments]
    return title, "\n".join([text, "附件：", *files]) if files else text, False


def check_reasons(town: Town, result: CrawlResult, had_troubles: bool, had_changes: bool) -> None:
    """Every reason has a cause that was drawn."""
    for reason in result.reasons:
        if found := re.fullmatch(r"the list ended after (\d+) of (\d+) rows", reason):
            assert town.site.switches.window or had_changes, reason
            if result.outcome == "truncated":
                assert int(found[1]) >= WINDOW
        elif reason.startswith(("list page", "the site could not be made out", "item could not be read")):
            assert had_troubles, reason
        elif "went away" in reason or "rows moved" in reason or "suspiciously empty" in reason:
            assert had_changes, reason
        else:
            assert reason.startswith("the first list page has no items"), reason
            assert not town.listed or had_changes


@pytest.mark.timeout(300)
@settings(max_examples=120, deadline=None, database=None, phases=[Phase.explicit, Phase.generate],
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data(), parks=st.booleans(), shares_ids=st.booleans(), waf=wafs)
def test_what_sites_published_is_stored_or_the_outcome_says_why_not(
    server: DemoServer, data: st.DataObject, parks: bool, shares_ids: bool, waf: Waf | None
) -> None:
    (host,), towns, server.wafs = server.sites, [], [waf] if waf else []
    assert isinstance(host, GkmlptHost)
    for name in ("/zqhjj", "/zqjyj")[: data.draw(st.integers(1, 2), label="sites")]:
        town = Town(GkmlptSite(f"75{len(towns)}", name, {COLUMN: []}, switches=data.draw(switches, label=name)), host.base_url,
                    f"（{name}）", number=3_256_000 if shares_ids else 3_256_000 + 1_000_000 * len(towns))
        for kind in data.draw(st.lists(kinds, max_size=6) | st.lists(kinds, min_size=11, max_size=18), label="documents"):
            town.publish(kind, at=len(town.site.columns[COLUMN]))
        towns.append(town)
    host.sites = [town.site for town in towns]
    journals = [MemoryJournal() for _ in towns]
    for town, journal in zip(towns, journals, strict=True):
        drawn = data.draw(st.lists(changes, max_size=4), label="changes")
        town.site.between = [lambda _site, town=town, change=change: town.change(*change) for change in drawn]  # type: ignore[misc]
        town.site.troubles = data.draw(st.lists(troubles, max_size=6), label="troubles")
        crawl_until_settled(town, journal, parks, had_troubles=any(town.site.troubles) or waf is not None, had_changes=bool(drawn))
    for town, journal in zip(towns, journals, strict=True):
        assert set(journal.articles) <= set(town.ever)
        for one in town.listed:
            article = journal.articles[town.site.address(host.base_url, one)]
            assert (article.title, article.text, article.external) == expected(town, one, host.base_url)
            assert article.published_at is not None


def crawl_until_settled(town: Town, journal: MemoryJournal, parks: bool, **had: Any) -> None:
    """Crawl until the site has stood still for a whole crawl that is as good as it gets."""
    is_still, window = False, town.site.switches.window
    for number in range(_MOST_CRAWLS):
        was_still = not town.site.between and not any(town.site.troubles)
        result, blocks = job(gkmlpt_target(town_host(town), town.site.prefix, window=WINDOW), journal, parks=parks)
        check_reasons(town, result, **had)
        assert not (blocks and not had["had_troubles"])
        if result.outcome == "complete":
            journal.frontier = set(journal.articles)
        is_cut = window is not None and len(town.site.columns[COLUMN]) > window
        is_empty = not town.site.columns[COLUMN] and bool(journal.articles)
        best = ("truncated" if window == WINDOW else "partial") if is_cut else "partial" if is_empty else "complete"
        if was_still and is_cut and result.reached_frontier:
            best = "complete"
        is_still = was_still and result.outcome == best
        event(f"outcome {result.outcome}")
        if was_still:
            assert result.outcome == best, (result.reasons, best)
            event(f"settled by crawl {number + 1}")
            return
    assert is_still


def town_host(town: Town) -> Any:
    """What `gkmlpt_target` wants to know of a host."""
    return type("Host", (), {"base_url": town.base})
