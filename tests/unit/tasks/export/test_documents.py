"""P6: documents and chunks: nothing is lost in cutting, and ids stay the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.export.documents import BadDocument, StoredArticle, chunks, document, document_id, lines

ARTICLE = StoredArticle(
    row_id=7, target_code="news", site_code="gov", url="http://gov.example.org/a/1", title="关于放假的通知",
    text="第一段。\n第二段。", sha256="ab" * 32, published_at=None, fetched_at=datetime(2026, 11, 30, tzinfo=UTC))

TEXTS = st.text(st.sampled_from("这是正文。！ab. \n"), max_size=400)


def squeezed(text: str) -> str:
    return "".join(text.split())


@given(TEXTS, st.integers(5, 60))
def test_cutting_loses_nothing_but_blanks_and_keeps_the_limit(text: str, limit: int) -> None:
    found = chunks(text, limit)
    assert squeezed("".join(found)) == squeezed(text)
    assert all(piece and len(piece) <= limit for piece in found)


def test_paragraphs_stay_whole_and_long_ones_are_cut_behind_a_sentence() -> None:
    assert chunks("一二三\n四五六\n七八九", 8) == ["一二三\n四五六", "七八九"]
    assert chunks("一二三。四五六。七八九。", 9) == ["一二三。四五六。", "七八九。"]


def test_a_document_says_where_it_is_from_and_its_ids_do_not_depend_on_its_text() -> None:
    found = document(ARTICLE)
    assert found["document_id"] == document_id("news", ARTICLE.url)
    assert (found["source_url"], found["title"], found["site_code"]) == (ARTICLE.url, ARTICLE.title, "gov")
    assert (found["published_at"], found["fetched_at"]) == (None, "2026-11-30T00:00:00+00:00")
    assert found["chunks"] == [{"id": f"{found['document_id']}-0", "text": "第一段。\n第二段。"}]
    changed = document(replace(ARTICLE, text="另一个正文", sha256="cd" * 32))
    assert changed["document_id"] == found["document_id"]
    assert document(replace(ARTICLE, target_code="other"))["document_id"] != found["document_id"]


def test_a_line_repeats_what_its_chunk_belongs_to() -> None:
    found = lines(document(replace(ARTICLE, text="\n".join(["甲" * 1_000, "乙" * 1_000]))))
    assert [(line["chunk"], line["chunks"], line["text"][0]) for line in found] == [(0, 2, "甲"), (1, 2, "乙")]
    assert len({line["id"] for line in found}) == 2
    assert all(line["title"] == ARTICLE.title and line["source_url"] == ARTICLE.url for line in found)


def test_an_article_without_text_is_named_and_refused() -> None:
    with pytest.raises(BadDocument, match="no text") as refused:
        document(replace(ARTICLE, text=" \n "))
    assert refused.value.document_id == document_id("news", ARTICLE.url)
