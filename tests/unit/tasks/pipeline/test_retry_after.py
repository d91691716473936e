from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.pipeline.retry_after import LONGEST_SEC, parse

NOW = datetime(2026, 11, 30, 6, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "raw",
    [None, "", " ", "abc", "1e3", "-5", "2026-11-30T06:05:00Z", "9" * 400, "9" * 150, "Fri, 31 Dec 9999 23:59:59 -2359", "Fri, 31 Dec 99999 23:59:59 GMT", "٣", "1;2"],
)
def test_w24_what_nobody_can_read_counts_as_no_header(raw: str | None) -> None:
    assert parse(raw, None, NOW) is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [("7", 7), (" 120 ", 120), ("0", 0), ("1.5", 1.5), ("120, 240", 240), ("172800", LONGEST_SEC), ("99999999", LONGEST_SEC)],
)
def test_seconds_are_read_and_clamped_to_a_day(raw: str, expected: float) -> None:
    assert parse(raw, None, NOW) == expected


def test_an_epoch_moment_is_a_moment() -> None:
    assert parse(str(int(NOW.timestamp()) + 90), None, NOW) == 90


@pytest.mark.parametrize("skew", [timedelta(0), timedelta(hours=-1), timedelta(hours=1)])
def test_w25_a_date_counts_from_the_servers_own_clock(skew: timedelta) -> None:
    server = NOW + skew
    raw = format_datetime(server + timedelta(seconds=5), usegmt=True)
    assert parse(raw, format_datetime(server, usegmt=True), NOW) == 5


def test_w25_a_date_counts_from_now_if_the_server_names_no_readable_one() -> None:
    raw = format_datetime(NOW + timedelta(seconds=5), usegmt=True)
    assert parse(raw, None, NOW) == 5
    assert parse(raw, "yesterday", NOW) == 5


def test_a_date_with_a_zone_or_none_is_read() -> None:
    assert parse("Mon, 30 Nov 2026 14:00:05 +0800", None, NOW) == 5
    assert parse("Mon, 30 Nov 2026 06:00:05 -0000", None, NOW) == 5


@pytest.mark.parametrize("raw", [
    "Mon, 30 Nov 2026 06:00:05 GMT", "Monday, 30-Nov-26 06:00:05 GMT", "Mon Nov 30 06:00:05 2026",
])
def test_c3_all_three_formats_of_http_dates_are_read(raw: str) -> None:
    assert parse(raw, None, NOW) == 5
    assert parse(raw, raw, NOW + timedelta(hours=1)) == 0


def test_a_date_in_the_past_asks_for_nothing_and_a_far_one_for_a_day() -> None:
    assert parse("Mon, 30 Nov 2026 05:00:00 GMT", None, NOW) == 0
    assert parse("Thu, 31 Dec 2099 23:59:59 GMT", None, NOW) == LONGEST_SEC


@given(st.text(max_size=250), st.text(max_size=60))
def test_w24_no_text_whatever_makes_it_raise(raw: str, server_date: str) -> None:
    found = parse(raw, server_date, NOW)
    assert found is None or 0 <= found <= LONGEST_SEC
