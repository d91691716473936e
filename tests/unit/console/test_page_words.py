"""How pages put moments, numbers and addresses: pure, and harmless whatever a site has sent."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from console.flower.pages import words
from console.flower.pages.words import Words

SHANGHAI = ZoneInfo("Asia/Shanghai")
SAID = Words(SHANGHAI, datetime(2026, 12, 1, 0, 30, tzinfo=UTC))


def test_the_zone_is_named_with_its_offset() -> None:
    assert SAID.zone_name == "Asia/Shanghai (UTC+08:00)"


def test_a_moment_is_shown_in_the_zone_of_the_schedule_and_carries_the_whole_of_it() -> None:
    text = SAID.when("2026-12-01T01:02:03.400+00:00")

    assert ">2026-12-01 09:02:03<" in text
    assert 'datetime="2026-12-01T09:02:03.400000+08:00"' in text
    assert SAID.when(None) == '<span class="rl-muted rl-none">–</span>'


def test_a_countdown_holds_its_end_and_no_seconds_that_pass() -> None:
    later = Words(SHANGHAI, datetime(2026, 12, 1, 0, 31, tzinfo=UTC))

    assert SAID.left("2026-12-01T01:00:00+00:00") == later.left("2026-12-01T01:00:00+00:00")
    assert 'data-until="1796086800.000"' in SAID.left("2026-12-01T01:00:00+00:00")


def test_seconds_that_a_document_counts_are_the_same_moment_each_time() -> None:
    later = Words(SHANGHAI, datetime(2026, 12, 1, 0, 30, 7, 40_000, tzinfo=UTC))

    assert SAID.before(10.0) == later.before(17.0) == "2026-12-01T08:29:50+08:00"
    assert SAID.ahead(None) is None


def test_the_expected_end_counts_from_when_it_was_told() -> None:
    assert SAID.end({"eta": 90.0}, "2026-12-01T00:00:00+00:00") == "2026-12-01T08:01:30+08:00"
    assert SAID.end({"eta": None}, "2026-12-01T00:00:00+00:00") is None


@pytest.mark.parametrize("url", [
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:alert(1)", "data:text/html,<b>", "vbscript:x", "//evil.example",
    "http://", "http://[::1", "", "\x01javascript:alert(1)", "ftp://host/x",
])
def test_only_addresses_of_the_web_become_links(url: str) -> None:
    assert "href" not in words.address(url)


def test_a_link_is_escaped_and_tells_nobody_where_it_stood() -> None:
    link = words.address('http://example.org/?a="><script>&b=1')

    assert link.startswith('<a href="http://example.org/?a=&quot;&gt;&lt;script&gt;&amp;b=1" target="_blank"')
    assert 'rel="noopener noreferrer nofollow"' in link


def test_what_turns_the_direction_of_writing_is_shown_as_a_mark() -> None:
    assert words.brief("a\u202eb") == "a\N{REPLACEMENT CHARACTER}b"
    assert words.lines("a\x1b[2J\nb") == "a\N{REPLACEMENT CHARACTER}[2J\nb"


@pytest.mark.parametrize(("value", "text"), [
    (None, "–"), (0, "0"), (12_345, "12,345"), (0.4, "0.4"), (11.25, "11.25"), ({"number": 10_000, "capped": True}, "10,000+"),
    ({"number": 7, "capped": False}, "7"),
])
def test_numbers(value: object, text: str) -> None:
    assert words.number(value) == text  # type: ignore[arg-type]


def test_sizes_and_rates() -> None:
    assert [words.size(each) for each in (None, 999, 13_000, 4_200_000)] == ["0 B", "999 B", "13.0 kB", "4.2 MB"]
    assert [words.pace(each) for each in (None, 0.5, 1_500.0)] == ["", "0.5 a minute", "1,500 a minute"]


def test_how_far_a_job_is_stays_within_the_bar() -> None:
    assert words.percent({"page": 3, "pages_total": None}) is None
    assert words.percent({"page": 3, "pages_total": 12}) == 25
    assert words.percent({"page": 13, "pages_total": 12}) == 100


def test_a_note_loses_only_how_long_it_holds() -> None:
    assert words.cause("cools down 3 min 20 s") == "cools down"
    assert words.cause("paused until lifted") == "paused until lifted"
    assert words.cause("behind others") == "behind others"


def test_a_small_line_goes_from_left_to_right_and_the_largest_is_at_the_top() -> None:
    assert words.spark([10, 11, 15]) == "0.0,20.0 50.0,16.0 100.0,0.0"
    assert words.spark([10]) == ""
    assert words.spark([5, 5]) == "0.0,20.0 100.0,20.0"
