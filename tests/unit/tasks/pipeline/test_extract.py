from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.pipeline.extract import ZONE, article_text, hash_of, normalise, parse_date
from tests.support.misbehave import article_html


@pytest.mark.parametrize(
    "text",
    ["2026-11-30", "2026/11/30", "2026.11.30", "2026年11月30日", "2026 年 11 月 30 日", "[2026-11-30]", "20261130",
     "发布日期：2026-11-30 来源：办公室", "30 Nov 2026"],
)
def test_a_day_is_midnight_in_shanghai(text: str) -> None:
    assert parse_date(text) == datetime(2026, 11, 30, tzinfo=ZONE)


@pytest.mark.parametrize(
    "text", ["2026-11-30 08:05:09", "2026-11-30T08:05:09.25", "2026年11月30日 08时05分09秒", "Mon, 30 Nov 2026 08:05:09"]
)
def test_a_time_without_a_zone_is_shanghais(text: str) -> None:
    assert parse_date(text) == datetime(2026, 11, 30, 8, 5, 9, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("text", "hours"),
    [("2026-11-30T08:05:09Z", 0), ("2026-11-30 08:05:09 +0800", 8), ("2026-11-30T08:05:09-05:00", -5),
     ("Mon, 30 Nov 2026 08:05:09 GMT", 0), ("Mon, 30 Nov 2026 08:05:09 +0800", 8)],
)
def test_a_zone_that_is_given_holds(text: str, hours: int) -> None:
    found = parse_date(text)
    assert found == datetime(2026, 11, 30, 8, 5, 9, tzinfo=timezone(timedelta(hours=hours)))


@pytest.mark.parametrize("text", [None, "", "昨天", "2026-13-40", "11-30", "1234567890", "2026-11-300", "99 Nov 2026"])
def test_what_names_no_day_is_none(text: str | None) -> None:
    assert parse_date(text) is None


@given(st.text(max_size=80))
def test_no_text_makes_it_raise(text: str) -> None:
    found = parse_date(text)
    assert found is None or found.tzinfo is not None


@given(st.integers(0, 4_000_000_000))
def test_iso_moments_come_back_to_the_second(seconds: int) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    assert parse_date(moment.isoformat()) == moment


def test_the_hash_does_not_see_blanks() -> None:
    assert hash_of("通知\n\n\u3000公告 ") == hash_of("通知 公告")
    assert hash_of("通知公告") != hash_of("通知 公告")
    assert normalise("\ufeff 甲\u200b\xa0乙\n") == "甲 乙"


def test_the_library_finds_the_text_of_an_article() -> None:
    assert "请认真贯彻执行" in article_text(article_html("/a/1"))
    assert article_text("<html><body></body></html>") == ""
