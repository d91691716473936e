"""What a worker's threads share: refused hand-overs wait longer each time, and what `-Q` may name."""

from __future__ import annotations

import pytest
from celery.worker import state

from config import clock
from config.errors import BadInput
from config.settings import Settings
from models.claim import Claim
from routing.dispatch import submit
from routing.lanes.desk import Desk
from routing.lanes.heartbeat import Heartbeat
from routing.lanes.step import _pattern


class Pool:
    """A pool of a size."""

    num_processes = 4


@pytest.fixture
def desk(tmp_path: object) -> Desk:
    return Desk(Settings(home=str(tmp_path)), name="w@h", pool=Pool())


def test_a_lane_that_cannot_be_handed_over_is_left_alone_longer_each_time(desk: Desk) -> None:
    assert [desk.refusal_wait("g") for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert desk.refusal_wait("other") == 1
    desk.inflight.add([Claim("j", 1, 1, "g", "crawl")])
    desk.ended("j", 1, lost=False)
    assert desk.refusal_wait("g") == 1, "one that ran forgets it"


def test_a_claim_takes_a_slot_until_its_request_has_ended(desk: Desk) -> None:
    assert desk.free_slots() == 4
    desk.inflight.add([Claim("j", 1, 1, "g", "crawl"), Claim("k", 1, 1, "h", "crawl")])
    assert desk.free_slots() == 2
    desk.ended("j", 1, lost=False)
    assert desk.free_slots() == 3


def test_a_job_whose_older_body_lives_here_is_not_taken_twice(desk: Desk) -> None:
    assert desk.inflight.add([Claim("j", 1, 1, "g", "crawl")]) == []
    again = Claim("j", 2, 2, "g", "crawl")
    assert desk.inflight.add([again]) == [again]
    assert desk.inflight.pairs() == [("j", 1)]


def test_nothing_is_taken_while_the_consumers_thread_stands_still(tmp_path: object) -> None:
    """J18: a silent or full broker holds it up, and what is taken then would only be handed back."""
    desk = Desk(Settings(home=str(tmp_path), handover_timeout_sec=0.02), name="w@h", pool=Pool())
    assert not desk.may_take(), "not connected yet"
    desk.open.set()
    assert desk.may_take()
    assert desk.taker() is not None
    clock.pause(0.03)
    assert not desk.may_take()
    assert desk.taker() is None
    desk.came_round = clock.Stopwatch()
    assert desk.may_take()


def test_bodies_whose_end_nobody_can_report_are_not_taken_for_hanging(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J18: without a broker a prefork worker does not learn that bodies have ended; it must outlive that."""
    monkeypatch.setattr(state, "should_stop", None)
    quick = {"lease_sec": 0.03, "heartbeat_sec": 0.01, "request_timeout_sec": 0.01}
    desk = Desk(Settings(home=str(tmp_path), **quick), name="w@h", pool=Pool())
    desk.inflight.add([Claim("j", 1, 1, "g", "crawl")])
    (held,) = desk.inflight.all()
    held.lost_for = clock.Stopwatch()
    clock.pause(0.04)
    Heartbeat(desk)._leave_if_crippled()
    desk.open.set()
    Heartbeat(desk)._leave_if_crippled()
    assert state.should_stop is None
    clock.pause(0.04)
    Heartbeat(desk)._leave_if_crippled()
    assert state.should_stop == 1, "connected for a lease, and it still has not ended"


def test_a_pool_that_starts_nothing_costs_the_worker_its_life_in_the_end(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: the job goes back in time, but the slot is not free: nothing of it has ended."""
    monkeypatch.setattr(state, "should_stop", None)
    quick = {"lease_sec": 0.03, "heartbeat_sec": 0.01, "request_timeout_sec": 0.01, "handover_timeout_sec": 0.01}
    desk = Desk(Settings(home=str(tmp_path), **quick), name="w@h", pool=Pool())
    monkeypatch.setattr(desk.ledger, "hand_back", lambda *_args, **_options: True)
    desk.open.set()
    desk.inflight.add([Claim("j", 1, 1, "g", "crawl")])
    (held,) = desk.inflight.all()
    held.handed = True
    clock.pause(0.02)
    Heartbeat(desk)._hand_back_late()
    assert (held.lost, desk.free_slots()) == (True, 3)
    Heartbeat(desk)._leave_if_crippled()
    assert state.should_stop is None
    clock.pause(0.04)
    Heartbeat(desk)._leave_if_crippled()
    assert state.should_stop == 1


@pytest.mark.parametrize(
    ("lane", "pattern"),
    [
        ("www.example.org", r"^www\.example\.org$"), ("*.gov.*", r"^.*\.gov\..*$"), ("_*", "^_.*$"),
        ("[::1]:8080", r"^\[::1\]:8080$"), ("a?.example.org", r"^a.\.example\.org$"),
    ],
)
def test_r7_lanes_are_named_by_key_or_by_glob(lane: str, pattern: str) -> None:
    assert _pattern(lane) == pattern


@pytest.mark.parametrize("lane", ["(", "a b", "*|x", ""])
def test_r7_what_no_key_looks_like_is_refused_at_the_start(lane: str) -> None:
    with pytest.raises(BadInput, match="no lane can be called so"):
        _pattern(lane)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ({"kind": "nosuch"}, "no task runs jobs of kind 'nosuch'"), ({"source": "x"}, "source 'x' is none of"),
        ({"job_id": "a" * 65}, "a job id has 1 to 64"), ({"job_id": "a\0"}, "a job id has 1 to 64"),
        ({"dedupe_key": "k" * 301}, "a dedupe key has 1 to 300"), ({"deadline_sec": 0.0}, "deadline_sec must be above"),
        ({"max_attempts": 0}, "max_attempts must be at least 1"), ({"priority": 10**7}, "out of range"),
    ],
)
def test_j1_a_submit_that_cannot_be_is_refused_with_a_sentence(
    desk: Desk, what: dict[str, object], sentence: str
) -> None:
    with pytest.raises(BadInput, match=sentence):
        submit(desk.db, desk.settings, "t", **what)  # type: ignore[arg-type]
