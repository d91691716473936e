"""What a running attempt reads, writes and renews, and claims that never start (rules J6, J8, J12, D5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.errors import Parked, StaleClaim
from models.attempt import Attempt
from models.base import FAR
from models.claim import Commit
from models.db import Database
from models.groups import rate_groups
from models.jobs import jobs
from models.requests import requests
from tests.support.ledger import SMALL, START, Bench, objection, seed


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def test_an_attempt_starts_once(bench: Bench) -> None:
    bench.submit("t1")
    claim = bench.claim()
    assert bench.start(claim).claim == claim
    with pytest.raises(StaleClaim, match="started, handed back or settled before"):
        bench.start(claim)


def test_a_start_tells_the_body_what_it_needs_to_know(bench: Bench) -> None:
    bench.change(rate_groups, rate_groups.c.key == "g1", last_response_at=START - timedelta(seconds=4),
                 last_interval_sec=10.0, crawl_delay_sec=7.0)
    bench.submit("t1", force=True, options={"max_pages": 2}, deadline_sec=90.0, source="schedule")
    claim = bench.claim()
    bench.clock.advance(1)
    bench.change(rate_groups, rate_groups.c.key == "g1", next_request_at=bench.clock.now + timedelta(seconds=5))
    found = bench.start(claim)
    assert (found.site_code, found.source, found.force, found.options) == ("s1", "schedule", True, {"max_pages": 2})
    assert (found.lease_sec, found.wait_sec, found.since_response_sec) == pytest.approx((59, 5, 5))
    assert (found.crawl_delay_sec, found.last_interval_sec, found.deadline_sec) == (7, 10, 90)
    assert (found.tally.attempt, found.tally.max_attempts) == (1, 3)


def test_j6_a_look_tells_remaining_seconds_and_requests(bench: Bench) -> None:
    started = bench.begin("t1")
    job, number = started.claim[:2]
    bench.clock.advance(10)
    found = bench.ledger.pulse(job, number)
    assert (found.remaining_sec, found.stop_requested, found.park_requested, found.paused_sec) == (50, False, False, 0)
    bench.ledger.park([job], "boot-w")
    assert bench.ledger.pulse(job, number).park_requested is True


def test_j6_a_look_tells_of_the_later_pause_with_its_reason(bench: Bench) -> None:
    started = bench.begin("t1")
    look = started.claim[:2]
    bench.change(rate_groups, rate_groups.c.key == "g1", pause_until=START + timedelta(seconds=30), pause_reason="waf")
    assert (bench.ledger.pulse(*look).paused_sec, bench.ledger.pulse(*look).pause_reason) == (30, "waf")
    bench.change(rate_groups, rate_groups.c.key == "g1", operator_pause_until=FAR, operator_pause_reason="holiday")
    assert bench.ledger.pulse(*look).paused_sec > 86_400 * 365
    assert bench.ledger.pulse(*look).pause_reason == "holiday"


def test_d5_another_workers_stop_parks_none_of_mine(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.ledger.park([started.claim.job_id], "boot-other")
    assert bench.ledger.pulse(*started.claim[:2]).park_requested is False


def test_j6_a_renewal_answers_for_exactly_the_pairs_it_was_given(bench: Bench) -> None:
    one, two, three = bench.begin("t1").claim, bench.begin("t2").claim, bench.begin("t3").claim
    bench.clock.advance(20)
    found = bench.ledger.renew([one[:2], two[:2], (three.job_id, 7), ("nobody", 1)])
    assert sorted(found) == sorted([
        (one.job_id, 1, "renewed", 60.0, True), (two.job_id, 1, "renewed", 60.0, True),
        (three.job_id, 7, "lost", 0.0, False), ("nobody", 1, "lost", 0.0, False)])
    assert bench.job(one.job_id)["lease_until"] == bench.clock.now + timedelta(seconds=60)
    assert bench.job(three.job_id)["lease_until"] == START + timedelta(seconds=60)
    assert bench.ledger.renew([]) == []


def test_j6_a_renewal_says_whether_the_body_has_started(bench: Bench) -> None:
    bench.submit("t1")
    claim = bench.claim()
    assert bench.ledger.renew([claim[:2]])[0][4] is False
    bench.start(claim)
    assert bench.ledger.renew([claim[:2]])[0][4] is True


def test_j6_a_body_that_was_silent_for_too_long_is_not_renewed(bench: Bench) -> None:
    started = bench.begin("t1")
    pair = started.claim[:2]
    silent = timedelta(seconds=30 + 20 + 120)  # the longest wait, a request, and the time to stall
    bench.clock.now = START + silent - timedelta(seconds=1)
    assert bench.ledger.renew([pair])[0][2] == "renewed"
    bench.clock.advance(1)
    before = bench.everything()
    assert bench.ledger.renew([pair]) == [(*pair, "stalled", 59.0, True)]
    assert bench.everything() == before
    bench.ledger.commit(*pair, "g1", Commit(current_page=2))
    assert bench.ledger.renew([pair])[0][2] == "renewed"


def test_j8_an_expired_lease_that_was_not_reaped_may_be_renewed_and_settled(bench: Bench) -> None:
    one, two = bench.begin("t1"), bench.begin("t2")
    bench.clock.advance(90)
    assert bench.ledger.renew([one.claim[:2]])[0][2] == "renewed"
    assert bench.settle(two).status == "done"
    bench.clock.advance(59)
    assert bench.reaper.reap() == []


def test_j12_progress_is_on_the_row_and_what_a_commit_does_not_know_stays(bench: Bench) -> None:
    started = bench.begin("t1")
    pair = started.claim[:2]
    bench.ledger.commit(*pair, "g1", Commit(progress={"items": 1}, current_page=1))
    bench.clock.advance(1)
    bench.ledger.commit(*pair, "g1", Commit(last_completed_page=1, checkpoint={"next": "p2"}))
    row = bench.job(pair[0])
    assert (row["progress"], row["current_page"], row["last_completed_page"], row["checkpoint"]) == (
        {"items": 1}, 1, 1, {"next": "p2"})
    assert row["updated_at"] == bench.clock.now


def test_j12_a_report_of_the_body_is_progress_and_two_a_second_are_enough(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [100.0]
    monkeypatch.setattr("models.attempt.clock.monotonic", lambda: seconds[0])
    attempt = Attempt(bench.ledger, bench.begin("t1"))

    def shown() -> Any:
        return bench.job(attempt.claim.job_id)["progress"]

    attempt.report({"items": 1})
    attempt.report({"items": 2})
    assert shown() == {"items": 1}
    seconds[0] += 0.5
    attempt.report({"progress": {"items": 3}, "current_page": 4, "last_completed_page": 3, "checkpoint": {"x": 1}})
    assert shown() == {"items": 3}
    assert (attempt.last_completed_page, bench.job(attempt.claim.job_id)["current_page"]) == (3, 4)
    seconds[0] += 0.5
    attempt.report("no dict")
    assert shown() == {"items": 3}


def test_j8_progress_and_checkpoint_are_there_for_the_next_attempt(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.ledger.commit(*started.claim[:2], "g1", Commit(
        progress={"items": 5}, last_completed_page=2, checkpoint={"next": "p3"}))
    bench.settle(started, Parked("soft_stop"))
    again = bench.start(bench.claim())
    assert (again.progress, again.last_completed_page, again.checkpoint) == ({"items": 5}, 2, {"next": "p3"})
    assert bench.attempt(again.claim.job_id, 2)["from_page"] == 2


def test_p5_requests_are_logged_in_the_databases_time(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.clock.advance(10)
    logged = {"b_number": 1, "b_host": "s1.example.org", "b_url": "http://s1.example.org/", "b_started": 3.0, "b_ended": 1.5,
              "b_status": 200, "b_bytes": 12, "b_error": "", "b_interval": 10.0}
    bench.ledger.commit(*started.claim[:2], "g1", Commit(requests=(logged, logged | {"b_number": 2})))
    bench.ledger.commit(*started.claim[:2], "g1", Commit(requests=(logged,)))
    rows = bench.rows(requests)
    assert len(rows) == 2, "a repeated commit logs nothing twice"
    assert (rows[0]["started_at"], rows[0]["ended_at"]) == (START + timedelta(seconds=7), START + timedelta(seconds=8.5))
    assert (rows[0]["group_key"], rows[0]["job_id"], rows[0]["attempt"]) == ("g1", started.claim.job_id, 1)


def test_a_commit_that_fails_stores_nothing_of_itself(bench: Bench) -> None:
    started = bench.begin("t1")
    before = bench.everything()
    with pytest.raises(KeyError, match="url"):
        # an article without its URL: what was written before it in the transaction is undone
        bench.ledger.commit(*started.claim[:2], "g1", Commit(progress={"items": 1}, articles=({"target_code": "t1"},)))
    assert bench.everything() == before


def test_j8_a_claim_that_never_started_is_handed_back_and_spends_nothing(bench: Bench) -> None:
    bench.submit("t1")
    other = bench.submit("t1b").job_id
    claim = bench.claim()
    bench.clock.advance(15)
    assert bench.ledger.hand_back(claim.job_id, claim.attempt, "g1") is True
    row, history = bench.job(claim.job_id), bench.attempt(claim.job_id)
    expected = {"status": "queued", "attempt": 1, "failures": 0, "recoveries": 0, "queue_at": START, "worker": None,
                "boot_id": None, "lease_until": None, "error_msg": "", "run_after": None}
    assert {name: row[name] for name in expected} == expected
    assert (history["outcome"], history["finished_at"], history["started_at"]) == (
        "handed_back", bench.clock.now, None)
    assert bench.count("handed_back") == 1
    again = bench.claim()
    assert (again.job_id, again.attempt) == (claim.job_id, 2), "it kept its place"
    bench.settle(bench.start(again))
    assert bench.claim().job_id == other


def test_j8_a_claim_that_has_started_is_not_handed_back(bench: Bench) -> None:
    started = bench.begin("t1")
    before = bench.everything()
    assert bench.ledger.hand_back(*started.claim[:2], "g1") is False
    assert bench.everything() == before


def test_j8_a_handed_back_claim_cannot_start(bench: Bench) -> None:
    bench.submit("t1")
    claim = bench.claim()
    bench.ledger.hand_back(*claim[:2], "g1")
    with pytest.raises(StaleClaim):
        bench.start(claim)
    assert bench.ledger.hand_back(*claim[:2], "g1") is False


def test_j8_a_handed_back_claim_with_a_stop_request_is_cancelled(bench: Bench) -> None:
    bench.submit("t1")
    claim = bench.claim()
    bench.ledger.cancel(claim.job_id)
    bench.ledger.hand_back(*claim[:2], "g1")
    row = bench.job(claim.job_id)
    assert (row["status"], row["stop_requested"]) == ("cancelled", False)
    assert bench.claims() == []


def test_c6_a_retry_that_was_handed_back_is_still_a_retry(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.settle(started, objection())
    bench.clock.advance(600)
    claim = bench.claim()
    bench.ledger.hand_back(*claim[:2], "g1")
    assert bench.job(claim.job_id)["wait_reason"] == "cooldown"
    assert bench.attempt(claim.job_id, bench.claim().attempt)["source"] == "retry"


def test_j8_the_running_jobs_of_a_worker_are_told_with_their_age(bench: Bench) -> None:
    started = bench.begin("t1")
    bench.submit("t2")
    claim = bench.claim()
    bench.clock.advance(7)
    found = {row.job_id: (row.attempt, row.group_key, bool(row.started), row.age_sec)
             for row in bench.ledger.running_of("boot-w")}
    assert found == {started.claim.job_id: (1, "g1", True, 7), claim.job_id: (1, "g2", False, 7)}
    assert bench.ledger.running_of("boot-other") == []


def test_every_job_row_says_a_lease_exactly_while_it_runs(bench: Bench) -> None:
    started = bench.begin("t1")
    assert bench.job(started.claim.job_id)["lease_until"] is not None
    with pytest.raises(Exception, match="lease_while_running"):
        bench.change(jobs, jobs.c.job_id == started.claim.job_id, lease_until=None)
