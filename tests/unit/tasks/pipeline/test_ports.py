from __future__ import annotations

import json

from tasks.pipeline import CrawlResult, Progress


def test_progress_is_a_document_of_absolute_totals() -> None:
    progress = Progress(current_page=2, pages_total=6, pages=2, items_new=3, items_known=4, items_failed=1, items_external=2, bytes=99)
    progress.step("list", "running")
    progress.step("export", "skipped", "rag_export_after_crawl is off")
    document = json.loads(json.dumps(progress.document(elapsed_sec=30.0)))
    assert (document["page"], document["pages_total"], document["bytes"]) == (2, 6, 99)
    assert (document["rate"], document["eta"]) == (20.0, 60.0)
    assert [step["name"] for step in document["steps"]] == ["prepare", "list", "items", "finish", "export"]
    assert document["steps"][4] == {"name": "export", "status": "skipped", "reason": "rag_export_after_crawl is off"}


def test_an_end_is_expected_only_where_the_pages_are_known() -> None:
    assert Progress(current_page=2, pages=2).document(10.0)["eta"] is None
    assert Progress(current_page=2, pages_total=9).document(10.0)["eta"] is None


def test_the_end_is_expected_by_the_pages_of_this_attempt_and_not_by_those_of_earlier_ones() -> None:
    assert Progress(current_page=102, pages_total=106, pages=2).document(30.0)["eta"] == 60.0


def test_there_is_no_rate_without_time() -> None:
    assert Progress(pages_total=3).document(0.0)["rate"] is None


def test_partial_is_lower_than_truncated_and_reasons_are_kept_once() -> None:
    result = CrawlResult()
    result.lower("truncated", "max_pages")
    result.lower("partial", "page 3")
    result.lower("truncated", "max_pages")
    assert (result.outcome, result.reasons) == ("partial", ["max_pages", "page 3"])
    for number in range(50):
        result.lower("partial", f"item {number}")
    assert len(result.document()["reasons"]) == 20
