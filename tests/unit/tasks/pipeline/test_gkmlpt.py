"""The adapter for gkmlpt sites against the simulator: what is stored of a column, and how whole it is (rules P1–P3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from config.errors import PermanentJobError
from console.demo.server import DemoServer
from console.demo.waf import Answer
from tasks.pipeline import StartPoint
from tests.support.crawl_ports import MemoryJournal, gkmlpt_target, walk, walk_parked
from tests.support.gkmlpt_site import GkmlptHost, GkmlptSite, Switches, delete, doc, insert, nothing

COLUMN = 5001


@pytest.fixture
def host() -> Iterator[GkmlptHost]:
    host = GkmlptHost()
    with DemoServer([host]):
        yield host


def site_of(host: GkmlptHost, count: int, prefix: str = "", sid: str = "755001", **switches: Any) -> GkmlptSite:
    """Put a site with one column of so many documents, 5 a page, on a host."""
    site = GkmlptSite(sid, prefix, {COLUMN: [doc(3_255_000 + number) for number in range(count, 0, -1)]},
                      {COLUMN: "通知公告"}, Switches(**{"page_size": 5, **switches}))
    host.sites.append(site)
    return site


def urls(host: GkmlptHost, site: GkmlptSite) -> set[str]:
    """The canonical URLs of what the site's column lists."""
    return {site.address(host.base_url, one) for one in site.columns[COLUMN]}


def asked(host: GkmlptHost, server_log: Any) -> list[str]:
    """The pages that the API was asked for."""
    return [entry.path.partition("page=")[2].partition("&")[0] for entry in server_log if "/api/all/" in entry.path]


def test_a_column_is_stored_whole_from_page_1_on_and_never_asks_behind_its_end(host: GkmlptHost) -> None:
    site = site_of(host, 12)
    journal = MemoryJournal()
    result = walk(gkmlpt_target(host), journal)
    assert (result.outcome, result.pages, result.progress.pages_total) == ("complete", 3, 3)
    assert set(journal.articles) == urls(host, site)
    article = journal.articles[f"{host.base_url}/gkmlpt/content/3/3255/post_3255012.html"]
    assert (article.title, article.own_id) == (doc(3_255_012).title, "3255012")
    assert "请认真贯彻执行" in article.text
    assert article.facts["identifier"] == "1144/2026-55012"
    assert article.facts["labels"] == {"索引号": "1144/3255012", "发布日期": "2026-07-07"}


@pytest.mark.parametrize("column", [COLUMN, str(COLUMN), "通知公告", "政策/通知公告", " /政策/通知公告/ "])
def test_a_column_is_found_by_number_name_or_path(host: GkmlptHost, column: int | str) -> None:
    site = site_of(host, 3)
    journal = MemoryJournal()
    assert walk(gkmlpt_target(host, column=column), journal).outcome == "complete"
    assert set(journal.articles) == urls(host, site)


@pytest.mark.parametrize(
    ("column", "words"), [("公文", "no columns are called '公文'; there are: 政策"), (77, "no columns"),
                          ("同名", "2 columns are called"), (5003, "only a link to http://far")])
def test_a_column_that_is_not_there_is_a_permanent_error_that_names_those_that_are(
    host: GkmlptHost, column: int | str, words: str
) -> None:
    site = site_of(host, 3)
    site.columns |= {5002: [], 5003: [], 5004: []}
    site.names |= {5002: "同名", 5004: "同名"}
    site.jumps[5003] = "http://far.example.cn/"
    with pytest.raises(PermanentJobError, match=words):
        walk(gkmlpt_target(host, column=column), MemoryJournal())


def test_column_0_is_the_whole_site(host: GkmlptHost) -> None:
    site = site_of(host, 3)
    site.columns[5002] = [doc(42)]
    journal = MemoryJournal()
    walk(gkmlpt_target(host, column=0), journal)
    assert len(journal.articles) == 4


def test_w37_two_sites_of_one_host_that_share_ids_are_two_sets_of_articles(host: GkmlptHost) -> None:
    first, second = site_of(host, 3, "/zqhjj", "758017"), site_of(host, 3, "/zqjyj", "758019")
    second.columns[COLUMN] = [doc(one.id, note="（教育局）") for one in first.columns[COLUMN]]
    journals = MemoryJournal(), MemoryJournal()
    results = [walk(gkmlpt_target(host, path), journal)
               for path, journal in zip(("/zqhjj", "/zqjyj/gkmlpt/index"), journals, strict=True)]
    for site, journal, result in zip((first, second), journals, results, strict=True):
        assert (set(journal.articles), result.progress.items_new) == (urls(host, site), 3)
    assert {a.own_id for a in journals[0].articles.values()} == {a.own_id for a in journals[1].articles.values()}
    assert not {a.sha256 for a in journals[0].articles.values()} & {a.sha256 for a in journals[1].articles.values()}


def test_a_prefix_option_names_the_site_where_the_base_url_does_not(host: GkmlptHost) -> None:
    site = site_of(host, 2, "/zqhjj")
    journal = MemoryJournal()
    walk(gkmlpt_target(host, prefix="zqhjj"), journal)
    assert set(journal.articles) == urls(host, site)


def test_a_given_sid_needs_no_index_page(host: GkmlptHost) -> None:
    site_of(host, 2)
    host.fail("/gkmlpt/index", 500, times=9)
    assert walk(gkmlpt_target(host, sid="755001"), MemoryJournal()).outcome == "complete"


def test_w37_a_document_that_returns_under_a_new_id_is_known(host: GkmlptHost) -> None:
    site = site_of(host, 6)
    journal = MemoryJournal()
    walk(gkmlpt_target(host), journal)
    journal.frontier = set(journal.articles)
    site.columns[COLUMN] = [doc(one.id + 500_000, page_id=one.page_id) for one in site.columns[COLUMN]]
    again = walk(gkmlpt_target(host), journal)
    assert (again.progress.items_new, again.progress.items_known, again.reached_frontier) == (0, 5, True)


def test_w37_a_document_that_returns_under_a_new_url_is_one_article_with_two_urls(host: GkmlptHost) -> None:
    site = site_of(host, 2)
    journal = MemoryJournal()
    walk(gkmlpt_target(host), journal)
    moved = site.columns[COLUMN][0]
    site.prefix = "/new"
    again = walk(gkmlpt_target(host, "/new"), journal)
    alias = journal.articles[site.address(host.base_url, moved)]
    assert alias.alias_of == f"{host.base_url}{site.path(moved).removeprefix('/new')}"
    assert (again.progress.items_new, alias.text) == (0, "")


def test_w37_the_id_of_another_text_makes_no_article_known(host: GkmlptHost) -> None:
    site = site_of(host, 1)
    journal = MemoryJournal()
    walk(gkmlpt_target(host), journal)
    site.prefix, site.columns[COLUMN] = "/new", [doc(3_255_001, note="（另一份）")]
    assert walk(gkmlpt_target(host, "/new"), journal).progress.items_new == 1


def test_rows_that_lead_elsewhere_are_external_unless_their_host_is_allowed(host: GkmlptHost) -> None:
    site = site_of(host, 2)
    with DemoServer([other := GkmlptHost("other")]):
        other.extra["/a.html"] = Answer(200, "<html><body><div id='zoomcon'>转载的政策全文</div></body></html>".encode(),
                                        {"Content-Type": "text/html; charset=utf-8"})
        site.columns[COLUMN] += [doc(7, link="http://www.far.example.cn/x"), doc(8, link=f"{other.base_url}/a.html")]
        journal = MemoryJournal()
        result = walk(gkmlpt_target(host, more={"allowed_hosts": frozenset({other.netloc})}), journal)
    far, near = journal.articles["http://www.far.example.cn/x"], journal.articles[f"{other.base_url}/a.html"]
    assert (far.external, far.title, far.text, far.facts["type"]) == (True, doc(7).title, "", "url")
    assert (near.external, near.text) == (False, "转载的政策全文")
    assert (result.outcome, result.progress.items_external, result.progress.items_new) == ("complete", 1, 3)


def test_dates_are_beijings_and_all_of_them_are_kept(host: GkmlptHost) -> None:
    site = site_of(host, 0)
    site.columns[COLUMN] = [doc(3_255_000)]
    journal = MemoryJournal()
    walk(gkmlpt_target(host, date_field="date"), journal)
    (article,) = journal.articles.values()
    assert article.published_at is not None
    assert article.published_at.isoformat() == "2026-07-07T00:00:00+08:00"
    assert article.facts["dates"] == {
        "create_time": "2026-07-07T00:00:04+08:00", "display_publish_time": "2026-07-07T00:00:04+08:00",
        "created_at": "2026-07-07T08:00:04+08:00", "date": "2026-07-07T00:00:00+08:00"}


def test_attachments_are_named_at_the_end_of_the_text_and_never_fetched(host: GkmlptHost) -> None:
    site = site_of(host, 0)
    site.columns[COLUMN] = [doc(3_255_000, attachments=("附件1.doc", "附件2.doc"))]
    journal = MemoryJournal()
    walk(gkmlpt_target(host), journal)
    (article,) = journal.articles.values()
    base = f"{host.base_url}/attachment/0"
    assert article.text.endswith(f"\n附件：\n- 附件1.doc {base}/7/7/3255000.doc\n- 附件2.doc {base}/8/8/3255000.doc")
    assert [one["name"] for one in article.facts["attachments"]] == ["附件1.doc", "附件2.doc"]


@pytest.mark.parametrize("past_end", ["404", "empty", "repeat-last"])
@pytest.mark.parametrize(("window", "outcome"), [(10, "truncated"), (5, "partial")])
def test_a_list_that_ends_before_its_total_is_never_whole(
    host: GkmlptHost, past_end: str, window: int, outcome: str
) -> None:
    site_of(host, 23, past_end=past_end, window=window)
    journal = MemoryJournal()
    result = walk(gkmlpt_target(host, window=10), journal)
    assert (result.outcome, len(journal.articles)) == (outcome, window)
    assert result.reasons == [f"the list ended after {window} of 23 rows"]


def test_w11_rows_that_are_published_between_two_pages_lose_none_of_the_others(host: GkmlptHost) -> None:
    site = site_of(host, 12)
    before = urls(host, site)
    site.between = [lambda site: [insert(3_256_000 + n, COLUMN)(site) for n in range(3)] and None]
    journal = MemoryJournal()
    first = walk(gkmlpt_target(host), journal)
    assert (first.outcome, set(journal.articles), first.progress.items_known) == ("complete", before, 0)
    journal.frontier = set(journal.articles)
    second = walk(gkmlpt_target(host), journal)
    assert (second.progress.items_new, set(journal.articles)) == (3, urls(host, site))


@pytest.mark.parametrize("count", [11, 12])
def test_a_row_that_moves_to_the_page_before_is_read_there(host: GkmlptHost, count: int) -> None:
    site = site_of(host, count, past_end="empty")
    before = urls(host, site)
    site.between = [nothing, delete(0, COLUMN)]
    gone = site.address(host.base_url, site.columns[COLUMN][0])
    journal = MemoryJournal()
    result = walk(gkmlpt_target(host), journal)
    assert (result.outcome, set(journal.articles)) == ("complete", before)
    assert gone in journal.articles


def changed(*, publish: int = 0, take_down: int = 0) -> Callable[[GkmlptSite], None]:
    """A change between two answers: so many of the newest are taken down, then so many published."""

    def change(site: GkmlptSite) -> None:
        del site.columns[COLUMN][:take_down]
        for number in range(publish):
            insert(3_256_000 + number, COLUMN)(site)

    return change


@pytest.mark.parametrize(
    "between", [[changed(take_down=1), changed(publish=1)], [changed(take_down=1), changed(publish=7)], [changed(take_down=6)]],
    ids=["pushed back", "buried", "more than a page"])
def test_rows_that_may_have_been_passed_make_the_crawl_partial_and_the_next_one_finds_them(
    host: GkmlptHost, between: list[Callable[[GkmlptSite], None]]
) -> None:
    site = site_of(host, 17)
    site.between = between
    journal = MemoryJournal()
    first = walk(gkmlpt_target(host, window=100), journal)
    assert (first.outcome, "rows went away" in first.reasons[0]) == ("partial", True)
    assert walk(gkmlpt_target(host, window=100), journal).outcome == "complete"
    assert urls(host, site) <= set(journal.articles)


def test_new_rows_above_those_that_moved_are_left_to_the_next_crawl(host: GkmlptHost) -> None:
    site = site_of(host, 12)
    gone = {site.address(host.base_url, one) for one in site.columns[COLUMN][:4]}
    left = urls(host, site) - gone
    site.between = [changed(publish=3, take_down=4)]
    journal = MemoryJournal()
    assert walk(gkmlpt_target(host), journal).outcome == "complete"
    assert set(journal.articles) == left
    journal.frontier = set(journal.articles)
    walk(gkmlpt_target(host), journal)
    assert urls(host, site) <= set(journal.articles)


def test_w14_an_empty_column_is_one_list_request_and_suspicious_if_it_had_rows(host: GkmlptHost) -> None:
    site = site_of(host, 0)
    journal = MemoryJournal()
    assert walk(gkmlpt_target(host), journal).outcome == "complete"
    site.columns[COLUMN] = [doc(1), doc(2)]
    walk(gkmlpt_target(host), journal)
    site.columns[COLUMN] = []
    result = walk(gkmlpt_target(host), journal)
    assert (result.outcome, len(journal.articles)) == ("partial", 2)
    assert "suspiciously empty" in result.reasons[0]


def test_a_parked_crawl_learns_the_site_once(host: GkmlptHost) -> None:
    site = site_of(host, 7)
    server_log: list[str] = []
    whole = host.answer

    def answer(path: str, if_none_match: str | None = None) -> Answer:
        server_log.append(path)
        return whole(path, if_none_match)

    host.answer = answer  # type: ignore[method-assign]
    journal = MemoryJournal()
    result, attempts = walk_parked(gkmlpt_target(host), journal)
    assert (result.outcome, set(journal.articles)) == ("complete", urls(host, site))
    assert server_log.count("/gkmlpt/index") == 1
    assert attempts > 7


def test_a_walk_goes_on_behind_its_checkpoint_without_the_index(host: GkmlptHost) -> None:
    site_of(host, 12)
    journal = MemoryJournal()
    walk(gkmlpt_target(host), journal)
    number, state = journal.pages[0]
    later = MemoryJournal()
    host.fail("/gkmlpt/index", 500, times=9)
    result = walk(gkmlpt_target(host), later, start=StartPoint(number, state))
    assert (result.outcome, result.last_completed_page, len(later.articles)) == ("complete", 3, 7)
