"""Every end of a body, and what it does to the job (design, "How each outcome ends in Celery")."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import (
    Cancelled,
    Evidence,
    HostCooldown,
    JobDeadlineExceeded,
    Parked,
    PartialCrawl,
    PermanentJobError,
)
from models.lifecycle import Event, State
from models.outcome import Ended, Limits, Tally, Verdict, document, join, judge, lost, message_of

LIMITS = Limits()
FRESH = Tally(job_id="j", attempt=1)
RATE = HostCooldown(Evidence("rate", 429, "http://a.org/x"))
CHALLENGE = HostCooldown(Evidence("js_challenge", 567, "http://a.org/x"))


def ended(error: BaseException | None = None, result: Any = None) -> Ended:
    return Ended(result=result, error=error, traceback="Traceback …" if error is not None else "")


def repeated(error: BaseException, times: int, tally: Tally = FRESH) -> list[Verdict]:
    """Return the verdicts of a job that ends in the same way again and again."""
    found = []
    for _ in range(times):
        found.append(judge(ended(error), tally, LIMITS, backoff_sec=7.0))
        tally = found[-1].tally
    return found


ROWS: dict[str, tuple[BaseException | None, Tally, State, str, dict[str, Any]]] = {
    "done": (None, FRESH, State.DONE, "done", {"error": "", "delay_sec": None}),
    "an ordinary exception": (
        ValueError("no"), FRESH, State.QUEUED, "failed_attempt",
        {"error": "ValueError: no", "delay_sec": 7.0, "to_back": True, "wait_reason": "backoff", "restart": False}),
    "its third failure": (
        ValueError("no"), replace(FRESH, failures=2), State.FAILED, "failed",
        {"error": "ValueError: no", "result": {"error_type": "ValueError", "error": "no", "traceback": "Traceback …"}}),
    "a permanent error": (
        PermanentJobError("adapter unknown"), FRESH, State.FAILED, "failed",
        {"error": "PermanentJobError: adapter unknown", "cooldown": None}),
    "a deadline": (
        JobDeadlineExceeded("60 s"), FRESH, State.QUEUED, "deadline",
        {"to_back": True, "error": "JobDeadlineExceeded: 60 s", "delay_sec": None}),
    "a partial crawl": (
        PartialCrawl("page 3", {"items": 2}), FRESH, State.QUEUED, "partial",
        {"to_back": True, "delay_sec": 7.0, "restart": True, "error": "PartialCrawl: page 3"}),
    "a partial crawl without further tries": (
        PartialCrawl("page 3", {"items": 2}), replace(FRESH, failures=2), State.DONE, "partial",
        {"outcome": "partial", "result": {"items": 2}, "error": ""}),
    "a cooldown": (
        RATE, FRESH, State.QUEUED, "cooldown",
        {"to_back": True, "error": "cooldown_abort; auto_retry 1/12", "cooldown": RATE, "wait_reason": "cooldown"}),
    "the thirteenth cooldown": (
        RATE, replace(FRESH, cooldown_row=12, cooldown_retries=12), State.FAILED, "cooldown",
        {"error": "cooldown_abort; auto_retry_max_reached", "cooldown": RATE}),
    "an operator's pause": (
        Parked("paused"), FRESH, State.QUEUED, "paused",
        {"to_back": False, "delay_sec": None, "wait_reason": "paused", "error": ""}),
    "a pause whose end is known: the group's row has it": (
        Parked("paused", 3_600.0), FRESH, State.QUEUED, "paused", {"to_back": False, "delay_sec": None}),
    "a park": (
        Parked("parked", 90.0), FRESH, State.QUEUED, "parked", {"to_back": False, "delay_sec": 90.0}),
    "a quiet window": (Parked("quiet_window", 5), FRESH, State.QUEUED, "quiet_window", {"to_back": False}),
    "a soft stop": (Parked("soft_stop"), FRESH, State.QUEUED, "soft_stop", {"to_back": False, "delay_sec": None}),
    "cancelled": (Cancelled(), FRESH, State.CANCELLED, "cancelled", {"error": "cancelled", "result": None}),
}


@pytest.mark.parametrize("name", list(ROWS))
def test_each_row_of_the_outcome_table(name: str) -> None:
    error, tally, state, why, values = ROWS[name]
    found = judge(ended(error), tally, LIMITS, backoff_sec=7.0)
    assert (found.state, found.why) == (state, why)
    assert {key: getattr(found, key) for key in values} == values


@pytest.mark.parametrize("error", [
    Parked("paused"), Parked("parked", 9), Parked("soft_stop"), Cancelled(), PermanentJobError("x"),
])
def test_waiting_pausing_parking_and_cancelling_spend_nothing(error: BaseException) -> None:
    assert judge(ended(error), FRESH, LIMITS).tally == FRESH


@pytest.mark.parametrize(("error", "spent"), [
    (ValueError(), {"failures": 1}), (PartialCrawl("x"), {"failures": 1}),
    (JobDeadlineExceeded(), {"deadlines": 1, "deadlines_row": 1}),
    (RATE, {"cooldown_retries": 1, "cooldown_row": 1}),
    (CHALLENGE, {"cooldown_retries": 1, "cooldown_row": 1, "js_challenges": 1}),
])
def test_j9_each_cause_is_counted_apart(error: BaseException, spent: dict[str, int]) -> None:
    assert judge(ended(error), FRESH, LIMITS).tally == replace(FRESH, **spent)


@pytest.mark.parametrize("result", [None, 7, "text", [1, 2], ("a",)])
def test_j9_a_result_that_is_no_dict_is_stored_as_ok(result: Any) -> None:
    assert judge(ended(result=result), FRESH, LIMITS).result == {"ok": True} == document(result)


def test_j9_a_result_that_is_a_dict_is_stored_as_it_is_with_its_outcome() -> None:
    found = judge(ended(result={"outcome": "truncated", "n": 1}), replace(FRESH, error_msg="before"), LIMITS)
    assert (found.result, found.outcome, found.error) == ({"outcome": "truncated", "n": 1}, "truncated", "")


def test_j9_an_error_text_is_type_and_message_cut_at_two_thousand_characters() -> None:
    assert message_of(ValueError("x")) == "ValueError: x"
    assert message_of(ValueError()) == "ValueError"
    assert message_of(ValueError("  x\n")) == "ValueError: x"
    assert len(message_of(ValueError("x" * 5_000))) == 2_000


def test_j9_annotations_are_joined_with_a_bar() -> None:
    assert join("a", "", "b") == "a | b"


def test_j9_one_attempt_may_be_all_that_a_job_gets() -> None:
    once = replace(FRESH, max_attempts=1)
    assert judge(ended(ValueError()), once, LIMITS).state is State.FAILED
    assert judge(ended(PartialCrawl("x")), once, LIMITS).outcome == "partial"


def test_j9_three_failures_end_a_job() -> None:
    assert [each.state for each in repeated(ValueError("x"), 3)] == [State.QUEUED, State.QUEUED, State.FAILED]


def test_j9_a_deadline_is_granted_three_times_in_a_row() -> None:
    assert [each.state for each in repeated(JobDeadlineExceeded("x"), 4)] == [State.QUEUED] * 3 + [State.FAILED]


def test_j9_deadlines_before_a_new_checkpoint_are_forgotten_but_counted() -> None:
    late = repeated(JobDeadlineExceeded("x"), 3)[-1].tally
    found = judge(ended(JobDeadlineExceeded("x")), replace(late, last_completed_page=4), LIMITS)
    assert (found.state, found.tally.deadlines, found.tally.deadlines_row) == (State.QUEUED, 4, 1)


def test_c6_a_job_retries_after_twelve_cooldowns_in_a_row_and_fails_at_the_next() -> None:
    found = repeated(RATE, 13)
    assert [each.error for each in found[:12]] == [f"cooldown_abort; auto_retry {n}/12" for n in range(1, 13)]
    assert {each.event for each in found[:12]} == {Event.COOL}
    assert (found[12].state, found[12].error) == (State.FAILED, "cooldown_abort; auto_retry_max_reached")


def test_c6_the_pause_still_happens_when_the_retries_are_used_up() -> None:
    assert repeated(RATE, 13)[12].cooldown is RATE
    assert repeated(CHALLENGE, 4)[3].cooldown is CHALLENGE


def test_c6_a_job_that_used_up_its_retries_has_used_twelve_and_not_thirteen() -> None:
    found = repeated(RATE, 13)[12].tally
    assert (found.cooldown_row, found.cooldown_retries) == (12, 12)


def test_c6_a_new_checkpoint_page_starts_the_count_in_a_row_again() -> None:
    twelve = repeated(RATE, 12)[-1].tally
    found = judge(ended(RATE), replace(twelve, last_completed_page=3), LIMITS)
    assert found.error == "cooldown_abort; auto_retry 1/12"
    assert (found.tally.cooldown_row, found.tally.cooldown_retries, found.tally.row_page) == (1, 13, 3)


def test_c6_the_same_page_again_is_no_new_checkpoint() -> None:
    tally = replace(FRESH, cooldown_row=4, cooldown_retries=4, row_page=3, last_completed_page=3)
    assert judge(ended(RATE), tally, LIMITS).tally.cooldown_row == 5


def test_c6_a_hundred_cooldowns_in_all_end_a_job_whatever_it_reached() -> None:
    tally = replace(FRESH, cooldown_retries=LIMITS.cooldown_total_max, last_completed_page=200)
    assert judge(ended(RATE), tally, LIMITS).error == "cooldown_abort; auto_retry_max_reached"
    assert judge(ended(RATE), replace(tally, cooldown_retries=99), LIMITS).state is State.QUEUED


def test_c3_three_challenges_pause_and_the_fourth_needs_an_operator() -> None:
    found = repeated(CHALLENGE, 4)
    assert [each.state for each in found] == [State.QUEUED] * 3 + [State.FAILED]
    assert found[3].error == "needs_operator | host_cooldown: js_challenge 567 http://a.org/x"


def test_c3_other_objections_do_not_count_as_challenges() -> None:
    tally = repeated(RATE, 5, repeated(CHALLENGE, 3)[-1].tally)[-1].tally
    assert (tally.js_challenges, tally.cooldown_row) == (3, 8)


def test_j8_lost_workers_are_noted_and_the_third_abandons_the_job() -> None:
    first = lost(replace(FRESH, error_msg="ValueError: x"), LIMITS)
    assert (first.event, first.why) == (Event.RECOVER, "lost")
    assert first.error == "ValueError: x | restart_during_run (recovery attempt 1/3)"
    second = lost(replace(first.tally, error_msg=first.error), LIMITS)
    assert second.error.endswith("(recovery attempt 1/3) | restart_during_run (recovery attempt 2/3)")
    third = lost(replace(second.tally, error_msg=second.error), LIMITS)
    assert (third.state, third.tally.recoveries) == (State.FAILED, 3)
    assert third.error.endswith(" | abandoned after 3 restart recoveries")
    assert third.result == {
        "error_type": "WorkerLost", "error": "abandoned after 3 restart recoveries", "traceback": ""}


def test_j8_a_recovery_spends_no_failure_and_keeps_its_place() -> None:
    found = lost(FRESH, LIMITS)
    assert (found.tally, found.to_back, found.delay_sec) == (
        replace(FRESH, recoveries=1, recoveries_row=1), False, None)
    assert found.error == "restart_during_run (recovery attempt 1/3)"


def test_j8_a_new_checkpoint_page_starts_the_recoveries_again() -> None:
    found = lost(replace(FRESH, recoveries=2, recoveries_row=2, last_completed_page=1), LIMITS)
    assert (found.state, found.tally.recoveries, found.tally.recoveries_row) == (State.QUEUED, 3, 1)


def test_j8_a_lost_job_with_a_stop_request_is_cancelled() -> None:
    found = lost(replace(FRESH, recoveries_row=2), LIMITS, stop_requested=True)
    assert (found.state, found.error, found.tally.recoveries) == (State.CANCELLED, "cancelled", 0)


def test_j8_the_longest_error_text_does_not_hide_what_happened_to_the_job() -> None:
    full = replace(FRESH, error_msg="x" * 2_000)
    assert lost(full, LIMITS).error.endswith("restart_during_run (recovery attempt 1/3)")
    assert lost(replace(full, recoveries_row=2), LIMITS).error.endswith("abandoned after 3 restart recoveries")


COUNTS = st.integers(0, 150)
TALLIES = st.builds(
    Tally, failures=st.integers(0, 5), max_attempts=st.integers(1, 5), recoveries=COUNTS, recoveries_row=COUNTS,
    cooldown_retries=COUNTS, cooldown_row=COUNTS, deadlines=COUNTS, deadlines_row=COUNTS, js_challenges=COUNTS,
    row_page=st.integers(0, 9), last_completed_page=st.integers(0, 9), error_msg=st.text(max_size=20))
ENDS = st.sampled_from([
    None, ValueError("x"), PartialCrawl("x"), PermanentJobError("x"), JobDeadlineExceeded(), RATE, CHALLENGE,
    Parked("paused"), Parked("parked", 40), Cancelled(), MemoryError(),
])


@given(ENDS, TALLIES)
def test_every_end_has_a_verdict_and_no_total_goes_back(error: BaseException | None, tally: Tally) -> None:
    found = judge(ended(error), tally, LIMITS, backoff_sec=1.0)
    assert found.state in {State.QUEUED, State.DONE, State.FAILED, State.CANCELLED}
    for name in ("failures", "recoveries", "cooldown_retries", "deadlines", "row_page"):
        assert getattr(found.tally, name) >= getattr(tally, name)
    assert (found.tally.job_id, found.tally.attempt) == (tally.job_id, tally.attempt)
    assert isinstance(error, HostCooldown) == (found.cooldown is not None)
    assert found.state is State.QUEUED or found.delay_sec is None


@given(TALLIES, st.booleans())
def test_a_lost_attempt_always_has_a_verdict(tally: Tally, stop: bool) -> None:
    found = lost(tally, LIMITS, stop_requested=stop)
    assert (found.state is State.CANCELLED) == stop
    assert found.cooldown is None
