"""What people read: progress lines, durations, moments, the summary of a crawl."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from config.errors import BadInput
from config.settings import clear_settings
from console.cli.display import Lines, busiest
from console.cli.parse import duration_or_moment
from console.cli.show import cell, span
from console.cli.summary import Harvest, worked_sec


def lane(group: str, **more: Any) -> dict[str, Any]:
    return {"group": group, "target": group, "running": True, "page": 1, "pages_total": 3, "items_new": 2,
            "items_known": 0, "items_failed": 0, "rate": None, "queued_count": 0, "paused_for_sec": None,
            "pause_kind": None, "pause_reason": None, "due_in_sec": None, "wait_reason": ""} | more


def job(status: str = "done", outcome: str | None = "complete", **more: Any) -> dict[str, Any]:
    progress = {"page": 2, "items_new": 3, "items_known": 1, "items_failed": 0, "items_external": 0}
    return {"status": status, "outcome": outcome, "cooldown_retries": 1, "result": {"pages": 4}, "current_page": 2,
            "progress": progress, "attempts_log": []} | more


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400), ("1.5", 1.5), (" 5 min ", 300)])
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert duration_or_moment(text) == seconds


def test_a_time_without_offset_is_in_the_schedules_zone() -> None:
    clear_settings()
    assert duration_or_moment("2026-12-01T08:00") == datetime(2026, 12, 1, tzinfo=UTC)
    assert duration_or_moment("2026-12-01T08:00+00:00") == datetime(2026, 12, 1, 8, tzinfo=UTC)
    with pytest.raises(BadInput, match="is no time"):
        duration_or_moment("10 parsecs")


def test_spans_are_short() -> None:
    assert [span(seconds) for seconds in (None, 4.4, 200, 7500)] == ["", "4 s", "3 min 20 s", "2 h 5 min"]


def test_cells_are_short() -> None:
    assert [cell(value) for value in (None, True, 10.0, 0.4, 1.25, ["文"])] == ["", "yes", "10", "0.4", "1.2", '["文"]']


def test_plain_progress_prints_a_lane_only_when_it_changed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.show([lane("a")], 0, 2)
    lines.show([lane("a")], 0, 2)
    lines.show([lane("a", page=2)], 1, 2)  # changed, but within two seconds
    assert capsys.readouterr().err.splitlines() == ["a: page 1/3, 2 new, 0 known", "1 of 2 done"]


def test_a_countdown_alone_is_no_change(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    for left in (9, 8, 7):
        lines.show([lane("a", running=False, pause_kind="cooldown", pause_reason="403", paused_for_sec=left)], 0, 1)
    assert capsys.readouterr().err.splitlines() == ["a: page 1/3, 2 new, 0 known, paused 9 s: 403"]


def test_a_job_that_waits_for_its_time_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    Lines().show([lane("a", running=False, due_in_sec=90, wait_reason="robots_unreachable")], 0, 1)
    assert capsys.readouterr().err == "a: page 1/3, 2 new, 0 known, waits 1 min 30 s: robots_unreachable\n"


def test_the_busiest_lanes_are_those_that_run_fastest() -> None:
    lanes = [lane("slow", rate=0.1), lane("paused", running=False, rate=9.0), lane("fast", rate=5.0)]
    assert [one["group"] for one in busiest(lanes, 2)] == ["fast", "slow"]
    assert busiest(lanes, 3) == lanes


def test_a_crawl_is_whole_only_if_every_job_is_done_and_nothing_is_missing() -> None:
    assert Harvest([job(), job(outcome="truncated")], 1).whole
    assert Harvest([], 1).whole
    for other in (job(outcome="partial"), job("failed", None), job("cancelled", None), job("queued", None)):
        assert not Harvest([job(), other], 1).whole


def test_totals_add_up() -> None:
    found = Harvest([job(), job("queued", None, result=None)], 2.34).totals()
    assert (found["jobs"], found["done"], found["left_over"], found["complete"]) == (2, 1, 1, 1)
    assert (found["pages"], found["items_new"], found["cooldowns"], found["seconds"]) == (6, 6, 2, 2.3)


def test_the_time_of_a_job_is_that_of_its_attempts() -> None:
    def tried(start: str | None, end: str | None) -> dict[str, Any]:
        return {"started_at": start and f"2026-12-01T08:00:{start}+08:00", "finished_at": end and f"2026-12-01T08:00:{end}+08:00"}

    assert worked_sec(job(attempts_log=[tried("00", "10"), tried("30", "35"), tried("40", None)])) == 15
    assert worked_sec(job(attempts_log=[tried(None, "10")])) is None
