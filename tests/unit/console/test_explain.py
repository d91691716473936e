"""`why` in words (J16): every code, its text, its moments, its place in line and the expected start."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from config.moments import FAR
from console.explain import Answer, explain
from console.reasons import BLOCKING, CODES
from models.facts import Facts, Hold, JobFacts, LineFacts, Measured, RunningFacts, Waiting, WorkerFacts

NOW = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
ZONE = ZoneInfo("Asia/Shanghai")
WORKER = WorkerFacts("w1", 2)


def ahead(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def queued(more: dict[str, Any] | None = None, **job: Any) -> Facts:
    """A due job alone in its lane, with a live worker; `job` changes the job, `more` everything else."""
    fields: dict[str, Any] = {"job_id": "j1", "kind": "crawl", "status": "queued", "group": "g1", "site_code": "s1",
                              "target_code": "t1", "target": "enabled"}
    facts = Facts(NOW, JobFacts(**fields | job), workers=(WORKER,), line=LineFacts("j1", 0))
    return replace(facts, **(more or {}))


def runner(**more: Any) -> RunningFacts:
    fields: dict[str, Any] = {"job_id": "r1", "group": "g1", "since": ahead(-30), "lease_until": ahead(40),
                              "site_code": "s1", "target_code": "t1", "worker": "w1", "interval_sec": 10.0}
    return RunningFacts(**fields | more)


def took(target: str, *seconds: float) -> tuple[Measured, ...]:
    return tuple(Measured(f"{target}-{number}", target, each) for number, each in enumerate(seconds))


def line(number: int, *targets: str) -> LineFacts:
    return LineFacts("a0", number, tuple(Waiting(f"a{i}", target, None, 10.0) for i, target in enumerate(targets)))


def told(facts: Facts) -> Answer:
    return explain(facts, ZONE)


LINES = [
    (queued(run_after=ahead(90)), "not_due", "not due until 2026-11-30T14:01:30+08:00 (1 min 30 s)", ahead(90), None),
    (queued(run_after=ahead(5), wait_reason="backoff", failures=1, error_msg="ValueError: x"), "not_due",
     "tried again after failure 1 of 3 (ValueError: x)", ahead(5), None),
    (queued(run_after=ahead(60), wait_reason="parked"), "parked", "its next request is due then", ahead(60), "g1"),
    (queued(run_after=ahead(2), given_back=True, worker="w9"), "handed_back", "given back unstarted", ahead(2), "w9"),
    (queued({"line": line(3, "t2", "t3")}), "behind", "behind 3 jobs of its lane, the first of them a0 (t2)", None, "a0"),
    (queued({"running": runner()}), "group_running", "job r1 (t1) runs in its lane since 2026-11-30T13:59:30+08:00 "
     "(for 30 s) on w1", None, "r1"),
    (queued({"cooldown": Hold(ahead(600), "rate 429 http://x", "j0")}), "cooldown",
     "until 2026-11-30T14:10:00+08:00 (10 min 0 s) because the site objected: rate 429 http://x", ahead(600), "j0"),
    (queued({"operator": Hold(ahead(60), "backup", "ann")}), "paused", "the lane is paused by ann until", ahead(60), "ann"),
    (queued({"fleet": Hold(FAR, "holiday")}), "paused",
     "every lane is paused by an operator until somebody resumes it: holiday", None, "operator"),
    (queued({"next_request_at": ahead(4), "gap_sec": 5.0}), "interval", "interval of its lane (5 s)", ahead(4), "g1"),
    (queued({"quiet_until": ahead(7200)}), "quiet_window", "a quiet window holds until", ahead(7200), "schedule"),
    (queued({"elsewhere": runner(group="g2")}), "site_busy_elsewhere", "its site is busy in lane g2", None, "r1"),
    (queued({"elsewhere": runner(group="g2", site_code="s9")}), "site_busy_elsewhere", "site s9 of its lane is busy", None,
     "r1"),
    (queued(home="g7"), "site_busy_elsewhere", "belongs to the lane g7 now", None, "g7"),
    (queued({"workers": ()}), "no_worker", "no worker lives", None, "rg.g1"),
    (queued({"lane_exists": False}), "no_worker", "no lane is called rg.g1", None, "rg.g1"),
    (queued({"workers": (replace(WORKER, lanes=(r"^www\.x..*$", r"^g2$")),)}), "no_worker", "w1 serves rg.www.x?*, rg.g2",
     None, "rg.g1"),
    (queued({"workers": (replace(WORKER, alive=False, silent_sec=90.0),)}), "no_worker", "w1, has been silent for 1 min 30 s",
     None, "rg.g1"),
    (queued({"workers": (replace(WORKER, consuming=False, trouble="scout_stuck"),)}), "no_worker", "stopped looking for work",
     None, "w1"),
    (queued({"workers": (replace(WORKER, consuming=False, trouble="broker_down"),)}), "broker_down", "has lost its broker",
     None, "w1"),
    (queued({"workers": (replace(WORKER, busy=2),)}), "no_free_slot", "each of the 2 slots of w1 is busy", None, "w1"),
    (queued({"ready_before": ("g2", "g3")}), "no_free_slot", "2 lanes that have been ready longer take the 2 free slots",
     None, "w1"),
    (queued(), "starting", "due now; a worker takes it at its next look", None, "w1"),
    (queued(given_back=True), "starting", "its last claim was given back unstarted; due now", None, "w1"),
    (queued(target="disabled"), "starting", "(target t1 is disabled", None, "w1"),
    (queued(target="gone"), "starting", "(target t1 is gone: the job will fail when it starts)", None, "w1"),
    (queued(expires_at=ahead(-1)), "finished", "it expired at 2026-11-30T13:59:59+08:00", None, None),
    (queued(status="done", outcome="complete", finished_at=ahead(-5)), "finished",
     "done (complete) at 2026-11-30T13:59:55+08:00", None, None),
    (queued(status="failed", error_msg="ValueError: x", finished_at=ahead(-5)), "finished", "ValueError: x; `requeue`", None,
     None),
    (queued(status="running", worker="w1", claimed_at=ahead(-3), attempt=2, lease_until=ahead(57)), "running",
     "claimed by w1 3 s ago (attempt 2), about to start; its lease lasts until", None, "w1"),
    (queued(status="running", worker="w1", started_at=ahead(-3), attempt=2, stop_requested=True), "running",
     "(for 3 s) on w1, attempt 2; it was asked to stop", None, "w1"),
]


@pytest.mark.parametrize(("facts", "code", "text", "until", "by"), LINES, ids=[f"{row[1]}-{i}" for i, row in enumerate(LINES)])
def test_each_reason_has_its_code_its_words_its_end_and_what_it_waits_for(
    facts: Facts, code: str, text: str, until: datetime | None, by: str | None
) -> None:
    (reason,) = told(facts).reasons
    assert (reason.code, reason.until, reason.by) == (code, until, by)
    assert text in reason.text


def test_every_code_of_the_contract_is_told() -> None:
    assert {row[1] for row in LINES} | {"worker_lost"} == CODES


def test_a_lost_worker_is_told_of_the_job_itself_and_of_the_one_in_the_way() -> None:
    lost = runner(lease_until=ahead(-20))
    waits = told(queued({"running": lost}))
    assert [one.code for one in waits.reasons] == ["worker_lost", "group_running"]
    assert "ended at 2026-11-30T13:59:40+08:00 (20 s ago); a live worker takes the job from it" in waits.reasons[0].text
    runs = told(queued({"running": lost}, status="running", started_at=ahead(-30), lease_until=ahead(-20), worker="w1"))
    assert [one.code for one in runs.reasons] == ["worker_lost", "running"]


def test_the_decisive_reasons_come_first() -> None:
    facts = queued(
        {"workers": (), "cooldown": Hold(ahead(600)), "operator": Hold(FAR), "fleet": Hold(ahead(60)), "running": runner(),
         "next_request_at": ahead(5), "line": line(2, "t2")}, run_after=ahead(300))
    assert [(one.code, one.until) for one in told(facts).reasons] == [
        ("no_worker", None), ("paused", None), ("cooldown", ahead(600)), ("not_due", ahead(300)), ("paused", ahead(60)),
        ("group_running", None), ("behind", None), ("interval", ahead(5))]


def test_a_few_words_are_enough_for_a_table() -> None:
    assert [told(facts).reasons[0].short(NOW) for facts, *_ in (LINES[0], LINES[4], LINES[8], LINES[14])] == [
        "not due 1 min 30 s", "behind others", "paused until lifted", "no worker"]


def test_without_counting_a_job_behind_others_says_so_and_one_that_is_not_due_says_only_that() -> None:
    cheap = {"line": LineFacts("other")}
    assert [one.code for one in told(queued(cheap)).reasons] == ["behind"]
    assert [one.code for one in told(queued(cheap, run_after=ahead(9))).reasons] == ["not_due"]


def test_the_document_is_that_of_the_contract() -> None:
    document = told(queued(run_after=ahead(90))).document(ZONE)
    assert document == {
        "job_id": "j1", "status": "queued", "position": 1, "expected_start": "2026-11-30T14:01:30.000+08:00",
        "reasons": [{"code": "not_due", "text": "not due until 2026-11-30T14:01:30+08:00 (1 min 30 s)",
                     "until": "2026-11-30T14:01:30.000+08:00", "by": None}]}


@pytest.mark.parametrize(
    ("facts", "seconds"),
    [
        (queued(), 0),
        # what runs has taken 30 of its usual 100 s, then comes its interval
        (queued({"running": runner(), "measured": took("t1", 90, 100, 400)}), 80),
        (queued({"running": runner(), "measured": took("t1", 20)}), 10),
        (queued({"running": runner(), "measured": took("other", 40)}), 20),
        # two ahead: 50 s and 30 s, each with an interval of 10 s behind it
        (queued({"line": line(2, "t2", "t3"), "measured": took("t2", 50) + took("t3", 30)}), 100),
        # the first two stand for all ten
        (queued({"line": line(10, "t2", "t3"), "measured": took("t2", 50) + took("t3", 30)}), 500),
        (queued({"line": line(1, "t2"), "measured": took("t2", 50), "cooldown": Hold(ahead(600))}), 660),
        (queued({"line": line(1, "t2"), "measured": took("t2", 50), "crawl_delay_sec": 30.0}), 80),
        (queued({"line": line(1, "t2"), "measured": took("t2", 50)}, run_after=ahead(1000)), 1000),
        (queued({"next_request_at": ahead(7)}), 7),
    ],
)
def test_the_expected_start_comes_from_what_was_measured_and_the_intervals(facts: Facts, seconds: float) -> None:
    assert told(facts).expected_start == ahead(seconds)


def test_a_crawl_that_parks_between_its_requests_keeps_its_place_and_counts_as_one() -> None:
    parts = (*[Measured("k", "t2", 1.0, parked=True, interval_sec=60.0)] * 4, Measured("k", "t2", 1.0))
    assert told(queued({"line": line(1, "t2"), "measured": parts})).expected_start == ahead(4 * 61 + 1 + 10)


@pytest.mark.parametrize(
    "more",
    [{"running": runner()}, {"line": line(1, "t2")}, {"fleet": Hold(FAR)}, {"workers": ()},
     {"workers": (replace(WORKER, busy=2),)}],
)
def test_without_anything_that_tells_there_is_no_expected_start(more: dict[str, Any]) -> None:
    answer = told(queued(more))
    assert (answer.expected_start, answer.is_held_up) == (None, True)
    assert {one.code for one in answer.reasons} <= BLOCKING
