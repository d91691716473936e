"""Whether a worker that lives consumes, and when it has to end: the decision by itself (D2, W33, W76)."""

from __future__ import annotations

import pytest

from routing.lanes.consumption import SENTENCES, Facts, Limits, Verdict, judge

LIMITS = Limits(patience_sec=20, watchdog_sec=120)
CASES = {
    "everything moves": (Facts(), "", False),
    "short silences of all": (Facts(beat_silent_sec=19, scout_silent_sec=19, hub_silent_sec=19), "", False),
    "it stops, whatever else is wrong": (Facts(stopping=True, scout_silent_sec=500, closed_sec=500), "stopping", False),
    "the scout is late": (Facts(scout_silent_sec=21), "scout_stuck", False),
    "the scout stays stuck": (Facts(scout_silent_sec=120), "scout_stuck", True),
    "the scout is stuck, the broker away": (Facts(scout_silent_sec=120, closed_sec=500), "scout_stuck", True),
    "the scout lacks the database": (Facts(scout_silent_sec=500, scout_lacks_database=True), "database_down", False),
    "nobody reaches the database": (Facts(beat_silent_sec=500, scout_silent_sec=500), "database_down", False),
    "a connection is made again": (Facts(closed_sec=3), "", False),
    "an event loop that was stuck lost its connection": (Facts(trouble="hub_stuck", closed_sec=1), "broker_down", False),
    "the broker is away": (Facts(closed_sec=3.1), "broker_down", False),
    "the broker stays away": (Facts(closed_sec=5000), "broker_down", False),
    "the broker is back just now": (Facts(closed_sec=5000, broker_answers_sec=60), "broker_down", False),
    "the broker answers others": (Facts(closed_sec=130, broker_answers_sec=120), "broker_down", True),
    "the event loop is late": (Facts(hub_silent_sec=21), "hub_stuck", False),
    "the event loop stays stuck": (Facts(hub_silent_sec=140, broker_answers_sec=120), "hub_stuck", True),
    "it stays stuck, since when is the broker back": (Facts(hub_silent_sec=500, broker_answers_sec=9), "hub_stuck", False),
    "a thread has died": (Facts(dead_sec=1, beat_silent_sec=500), "thread_dead", False),
    "a thread stays dead": (Facts(dead_sec=120, beat_silent_sec=500), "thread_dead", True),
    "the event loop waits for a dead socket": (Facts(hub_silent_sec=500, broker_away=True), "broker_down", False),
}


@pytest.mark.parametrize(("facts", "trouble", "leave"), CASES.values(), ids=CASES)
def test_d2_w33_w76_what_is_wrong_and_whether_to_end(facts: Facts, trouble: str, leave: bool) -> None:
    assert judge(facts, LIMITS) == Verdict(trouble, leave)


@pytest.mark.parametrize("facts", [facts for facts, _, leave in CASES.values() if leave])
def test_d2_without_a_watchdog_a_worker_says_so_and_stays(facts: Facts) -> None:
    verdict = judge(facts, Limits(20, 0))
    assert (verdict.trouble != "", verdict.leave) == (True, False)


def test_d2_every_trouble_has_a_sentence() -> None:
    assert {trouble for _, trouble, _ in CASES.values()} - {""} == set(SENTENCES)
