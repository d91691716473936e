"""Ending attempts on both databases: one transaction, fenced, with what the lane does next (rules J7, J9, C3, C5, C6)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.errors import JobDeadlineExceeded, Parked, PartialCrawl, PermanentJobError
from config.settings import Settings
from models.claim import Commit
from models.db import Database
from models.groups import cooldowns, rate_groups
from models.sites import interval_history, targets
from tests.support.ledger import SMALL, START, Bench, objection, seed

GROWING = {"gd": {"gd_site": ["gd_news", "gd_other"]}, "hn": {"hn_site": ["hn_news"]}}


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


@pytest.fixture
def growing(database: Database) -> Bench:
    seed(database, GROWING)
    return Bench(database)


def test_a_done_job_frees_its_lane_in_the_same_transaction(bench: Bench) -> None:
    started = bench.begin("t1")
    waiting = bench.submit("t1").job_id
    bench.clock.advance(4)
    settled = bench.settle(started, result={"outcome": "complete", "items": 3}, page=2)
    row, history = bench.job(started.claim.job_id), bench.attempt(started.claim.job_id)
    assert settled.status == row["status"] == "done"
    assert (row["result"], row["outcome"], row["error_msg"]) == ({"outcome": "complete", "items": 3}, "complete", "")
    assert (row["started_at"], row["finished_at"], row["lease_until"]) == (START, bench.clock.now, None)
    assert (history["started_at"], history["finished_at"], history["outcome"]) == (START, bench.clock.now, "done")
    assert bench.ledger.claim(1, "w", "b").claims[0].job_id == waiting, "no fold was needed"


def test_j9_a_failure_requeues_with_backoff_and_keeps_its_own_traceback(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.clock.advance(1)
    bench.settle(started, ValueError("no"))
    row, history = bench.job(started.claim.job_id), bench.attempt(started.claim.job_id)
    expected = {"status": "queued", "failures": 1, "error_msg": "ValueError: no", "started_at": None,
                "run_after": bench.clock.now + timedelta(seconds=5), "queue_at": bench.clock.now,
                "wait_reason": "backoff", "finished_at": None}
    assert {name: row[name] for name in expected} == expected
    assert (history["outcome"], history["error"], history["traceback"]) == (
        "failed_attempt", "ValueError: no", "Traceback")


def test_j9_the_third_failure_is_the_dead_letter(bench: Bench) -> None:
    started = bench.begin("t1")
    for number in range(3):
        if number:
            bench.clock.advance(10)
            started = bench.start(bench.claim())
        bench.settle(started, ValueError(f"no {number}"))
    row = bench.job(started.claim.job_id)
    assert (row["status"], row["failures"], row["error_msg"], row["attempt"]) == ("failed", 3, "ValueError: no 2", 3)
    assert row["result"] == {"error_type": "ValueError", "error": "no 2", "traceback": "Traceback"}
    assert [bench.attempt(started.claim.job_id, n)["error"] for n in (1, 2, 3)] == [f"ValueError: no {n}" for n in range(3)]


def test_j9_a_permanent_error_fails_at_once(bench: Bench) -> None:
    started = bench.begin("t1")
    assert bench.settle(started, PermanentJobError("adapter unknown")).status == "failed"
    assert bench.job(started.claim.job_id)["error_msg"] == "PermanentJobError: adapter unknown"


def test_j9_a_deadline_goes_on_behind_the_others(bench: Bench) -> None:
    started = bench.begin("t1")
    other = bench.submit("t1").job_id
    bench.clock.advance(1)
    bench.settle(started, JobDeadlineExceeded("60 s"))
    assert bench.job(started.claim.job_id)["deadlines"] == 1
    assert bench.claim().job_id == other


def test_p3_a_partial_crawl_starts_again_and_ends_done_when_its_tries_are_used_up(bench: Bench) -> None:
    started = bench.begin("t1", resume_from_page=1, max_attempts=2)
    bench.ledger.commit(*started.claim[:2], "g1", Commit(last_completed_page=4, checkpoint={"next": "x"}))
    bench.settle(started, PartialCrawl("page 5", {"items": 1}), page=4)
    row = bench.job(started.claim.job_id)
    assert (row["status"], row["last_completed_page"], row["checkpoint"]) == ("queued", 1, None)
    bench.clock.advance(10)
    bench.settle(bench.start(bench.claim()), PartialCrawl("page 5", {"items": 2}))
    row = bench.job(started.claim.job_id)
    assert (row["status"], row["outcome"], row["result"], row["error_msg"]) == ("done", "partial", {"items": 2}, "")


def test_a_park_waits_and_spends_nothing(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.settle(started, Parked("parked", 90.0))
    row = bench.job(started.claim.job_id)
    assert (row["run_after"], row["wait_reason"], row["failures"]) == (START + timedelta(seconds=90), "parked", 0)
    assert bench.attempt(started.claim.job_id)["outcome"] == "parked"
    bench.clock.advance(90)
    assert bench.claim().attempt == 2


def test_r8_the_next_request_waits_for_the_interval_after_the_last_response(bench: Bench) -> None:
    started = bench.begin("t1")
    other = bench.submit("t1").job_id
    bench.clock.advance(5)
    bench.settle(started, response_age_sec=2.0, response_interval_sec=10.0)
    row = bench.group()
    assert row["last_response_at"] == START + timedelta(seconds=3)
    assert row["next_request_at"] == row["ready_at"] == START + timedelta(seconds=13)
    bench.clock.advance(7.9)
    assert bench.claims() == []
    bench.clock.advance(0.1)
    assert bench.claim().job_id == other


def test_r8_a_crawl_delay_is_a_lower_bound(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.ledger.commit(*started.claim[:2], "g1", Commit(crawl_delay_sec=300.0))
    bench.ledger.commit(*started.claim[:2], "g1", Commit(crawl_delay_sec=30.0))
    bench.settle(started, response_age_sec=0.0, response_interval_sec=10.0)
    assert bench.group()["next_request_at"] == START + timedelta(seconds=30)


def test_r8_a_settle_never_moves_the_next_request_forward(bench: Bench) -> None:
    bench.change(rate_groups, rate_groups.c.key == "g1", last_response_at=START - timedelta(seconds=5))
    started = bench.begin("t1")
    bench.change(rate_groups, rate_groups.c.key == "g1", next_request_at=START + timedelta(hours=1))
    bench.settle(started, response_age_sec=60.0, response_interval_sec=10.0)
    row = bench.group()
    assert row["next_request_at"] == START + timedelta(hours=1)
    assert row["last_response_at"] == START - timedelta(seconds=5)


def test_r8_what_the_body_committed_counts_if_its_settle_knows_of_no_response(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.ledger.commit(*started.claim[:2], "g1", Commit(response_age_sec=1.0, response_interval_sec=20.0))
    bench.settle(started, ValueError("x"))
    assert bench.group()["next_request_at"] == START + timedelta(seconds=19)


def test_c2_a_cooldown_pauses_its_group_in_the_transaction_that_frees_the_lane(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.submit("t1b")
    bench.ledger.commit(*started.claim[:2], "g1", Commit(last_completed_page=3))
    settled = bench.settle(started, objection(retry_after_sec=1_200.0), page=3)
    until = START + timedelta(seconds=1_200)
    row, group, history = bench.job(started.claim.job_id), bench.group(), bench.attempt(started.claim.job_id)
    assert (group["pause_until"], group["pause_kind"], group["cooldown_level"]) == (until, "rate", 1)
    assert group["pause_reason"] == row["result"]["host_cooldown"] == "host_cooldown: rate 429 http://s1.example.org/list"
    assert (row["status"], row["error_msg"], row["wait_reason"]) == (
        "queued", "cooldown_abort; auto_retry 1/12", "cooldown")
    assert (row["cooldown_retries"], row["failures"], row["last_completed_page"]) == (1, 0, 3)
    assert settled.notes["auto_retry"] == {
        "status": "queued", "job_id": started.claim.job_id, "resume_from_page": 3, "cooldown_retry_count": 1,
        "max_retries": 12, "delay_sec": 1_200.0}
    assert settled.notes == row["result"]
    assert (row["result"]["status"], row["result"]["reason"], row["result"]["checkpoint_page"]) == (
        "aborted", "cooldown", 3)
    assert (history["outcome"], history["evidence"]["status"], history["evidence"]["body"]) == (
        "cooldown", 429, "slow down")
    assert (group["ready_at"], bench.claims()) == (until, [])


def test_c6_the_retry_comes_after_the_pause_behind_the_others_as_a_retry_from_its_checkpoint(bench: Bench) -> None:
    started = bench.begin("t1", force=True)
    other = bench.submit("t1b").job_id
    bench.clock.advance(1)
    bench.ledger.commit(*started.claim[:2], "g1", Commit(last_completed_page=3, checkpoint={"page": "3"}))
    bench.settle(started, objection(), page=3)
    bench.clock.advance(600)
    first = bench.start(bench.claim())
    assert first.claim.job_id == other
    bench.settle(first)
    again = bench.start(bench.claim())
    assert (again.claim.job_id, again.force, again.last_completed_page, again.checkpoint) == (
        started.claim.job_id, True, 3, {"page": "3"})
    assert bench.attempt(again.claim.job_id, 2)["source"] == "retry"


def test_c3_a_pause_is_never_shortened(bench: Bench) -> None:
    started = bench.begin("t1")
    late = START + timedelta(hours=2)
    bench.change(rate_groups, rate_groups.c.key == "g1", pause_until=late, pause_kind="js_challenge", pause_reason="r")
    bench.settle(started, objection())
    row = bench.group()
    assert (row["pause_until"], row["pause_kind"], row["pause_reason"]) == (late, "js_challenge", "r")


def test_c3_every_pause_has_a_history_row(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.settle(started, objection())
    (row,) = bench.rows(cooldowns)
    assert (row["group_key"], row["job_id"], row["attempt"], row["at"], row["until"]) == (
        "g1", started.claim.job_id, 1, START, START + timedelta(seconds=600))


def test_c5_the_interval_of_the_target_grows_with_a_history_row(growing: Bench) -> None:
    started = growing.begin("gd_news")
    settled = growing.settle(started, objection())
    target = growing.target("gd_news")
    assert (target["interval_sec"], target["grown_interval_sec"]) == (10, 11)
    assert growing.target("gd_other")["grown_interval_sec"] is None
    assert settled.notes["cooldown_interval_adjustment"] == {
        "target_code": "gd_news", "old_interval_sec": 10, "new_interval_sec": 11, "status": "updated"}
    (row,) = growing.rows(interval_history)
    assert (row["target_code"], row["old_interval_sec"], row["new_interval_sec"]) == ("gd_news", 10, 11)
    assert (row["job_id"], row["attempt"], row["at"]) == (started.claim.job_id, 1, START)
    assert row["cause"].startswith("host_cooldown: rate 429 ")


def test_c5_each_attempt_that_caused_a_pause_grows_it_once(growing: Bench) -> None:
    started = growing.begin("gd_news")
    for number in range(3):
        if number:
            growing.clock.advance(600)
            started = growing.start(growing.claim())
        growing.settle(started, objection())
    assert [row["new_interval_sec"] for row in growing.rows(interval_history)] == [11, 13, 15]
    assert growing.target("gd_news")["grown_interval_sec"] == 15


def test_c5_a_baseline_above_the_grown_value_is_what_grows(growing: Bench) -> None:
    growing.change(targets, targets.c.target_code == "gd_news", interval_sec=50.0, grown_interval_sec=15.0)
    growing.settle(growing.begin("gd_news"), objection())
    assert growing.target("gd_news")["grown_interval_sec"] == 55


def test_c5_an_interval_at_its_most_is_told_and_leaves_no_history(growing: Bench) -> None:
    growing.change(targets, targets.c.target_code == "gd_news", grown_interval_sec=600.0)
    settled = growing.settle(growing.begin("gd_news"), objection())
    assert settled.notes["cooldown_interval_adjustment"]["status"] == "max_reached"
    assert growing.rows(interval_history) == []


def test_c5_other_sites_pause_without_growing(growing: Bench) -> None:
    settled = growing.settle(growing.begin("hn_news"), objection())
    assert "cooldown_interval_adjustment" not in settled.notes
    assert growing.target("hn_news")["grown_interval_sec"] is None
    assert growing.group("hn")["pause_until"] is not None


def test_c5_a_target_that_is_gone_gives_no_adjustment(growing: Bench) -> None:
    started = growing.begin("gd_news")
    with growing.db.write() as conn:
        conn.execute(targets.delete().where(targets.c.target_code == "gd_news"))
    assert "cooldown_interval_adjustment" not in growing.settle(started, objection()).notes


def test_c6_the_last_cooldown_fails_the_job_and_still_pauses_and_grows(database: Database) -> None:
    seed(database, GROWING)
    bench = Bench(database, Settings(cooldown_auto_retry_max=1))
    started = bench.begin("gd_news")
    bench.settle(started, objection())
    bench.clock.advance(600)
    settled = bench.settle(bench.start(bench.claim()), objection())
    row = bench.job(started.claim.job_id)
    assert (row["status"], row["error_msg"]) == ("failed", "cooldown_abort; auto_retry_max_reached")
    assert settled.notes["auto_retry"]["status"] == "max_reached"
    assert bench.group("gd")["pause_until"] == bench.clock.now + timedelta(seconds=600)
    assert bench.target("gd_news")["grown_interval_sec"] == 13


@pytest.mark.parametrize("error", [
    ValueError("x"), objection(), Parked("paused"), PartialCrawl("x"), JobDeadlineExceeded("x"),
])
def test_c6_a_stop_request_wins_over_going_on(bench: Bench, error: BaseException) -> None:
    started = bench.begin("t1")
    bench.ledger.commit(*started.claim[:2], "g1", Commit(last_completed_page=2))
    bench.ledger.cancel(started.claim.job_id)
    assert bench.settle(started, error, page=2).status == "cancelled"
    row = bench.job(started.claim.job_id)
    expected = {"status": "cancelled", "error_msg": "cancelled", "finished_at": START, "stop_requested": False,
                "wait_reason": "", "run_after": None, "started_at": START}
    assert {name: row[name] for name in expected} == expected
    assert bench.attempt(started.claim.job_id)["outcome"] == "cancelled"
    assert bench.claims() == []


def test_c6_a_stop_request_does_not_lift_the_pause(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.ledger.cancel(started.claim.job_id)
    bench.settle(started, objection())
    assert bench.group()["pause_until"] == START + timedelta(seconds=600)


@pytest.mark.parametrize(("error", "status"), [(None, "done"), (PermanentJobError("x"), "failed")])
def test_j10_a_body_that_ended_before_it_saw_the_stop_request_keeps_its_end(
    bench: Bench, error: BaseException | None, status: str
) -> None:
    started = bench.begin("t1")
    bench.ledger.cancel(started.claim.job_id)
    assert bench.settle(started, error).status == status


@pytest.mark.parametrize("text", ["nul \0 byte", "written \\u0000 out", "half \ud800 a pair", "back\\slash", "例 🙂"])
def test_whatever_text_a_body_leaves_can_be_stored(bench: Bench, text: str) -> None:
    started = bench.begin("t1", max_attempts=1)
    bench.settle(started, ValueError(text))
    stored = bench.job(started.claim.job_id)["error_msg"]
    assert stored == f"ValueError: {text}".replace("\0", "").replace("\ud800", "?")
    other = bench.begin("t2")
    bench.settle(other, result={text: [text, {"deep": text}]})
    assert bench.job(other.claim.job_id)["status"] == "done"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), START, {1, 2}, b"x", 10**30, object()])
def test_whatever_result_a_body_returns_can_be_stored(bench: Bench, value: Any) -> None:
    started = bench.begin("t1")
    bench.settle(started, result={"value": value, 7: (1, 2)})
    row = bench.job(started.claim.job_id)
    assert (row["status"], row["result"]["7"]) == ("done", [1, 2])
