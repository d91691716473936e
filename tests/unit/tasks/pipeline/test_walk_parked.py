"""A walk whose interval is so long that every attempt ends after one request (rule R6)."""

from __future__ import annotations

import json

import pytest

from config.errors import Parked
from tasks.pipeline import CrawlResult, StartPoint
from tasks.pipeline.adapters.base import Item, ListPage
from tasks.pipeline.opened import kept, restored
from tests.support.crawl_ports import MemoryGate, MemoryJournal, paged_site, rows, target, walk


class OneRequest(MemoryGate):
    """A gate that parks the attempt before its second page request."""

    def before_request(self, host: str) -> float:
        if [record for record in self.records if not record.url.endswith("/robots.txt")]:
            raise Parked("parked", delay_sec=60)
        return super().before_request(host)


def test_a_walk_that_is_parked_after_each_request_reads_everything_once() -> None:
    with paged_site() as site:
        site.show(rows(1, 2, 3), rows(4, 5))
        journal, start = MemoryJournal(), StartPoint()
        result: CrawlResult | None = None
        for _ in range(12):
            try:
                result = walk(target(site.url), journal, OneRequest(), start)
                break
            except Parked:
                after, state = (journal.pages[-1] if journal.pages else (0, {}))
                start = StartPoint(after, state, opened=json.loads(json.dumps(journal.opened)))
        assert result is not None and result.outcome == "complete"
        assert set(journal.articles) == site.urls(1, 2, 3, 4, 5)
        assert [site.count(f"/list/{page}") for page in (1, 2, 3)] == [1, 1, 1]
        assert [site.count(f"/a/{number}") for number in (1, 2, 3, 4, 5)] == [1] * 5


@pytest.mark.parametrize("total", [None, 7])
def test_an_opened_page_survives_its_way_through_json(total: int | None) -> None:
    listing = ListPage(
        items=(Item("http://a.example/1", "题", None, "7", True), Item("http://a.example/2")), next_url="http://a.example/n",
        total=total, frame=frozenset({"ul.list"}))
    assert restored(json.loads(json.dumps(kept(3, "http://a.example/l", listing)))) == ("http://a.example/l", listing)
