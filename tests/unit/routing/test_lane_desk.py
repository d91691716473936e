"""What a worker's threads share: refused hand-overs wait longer each time, and what `-Q` may name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from celery.worker import state

from config import clock
from config.errors import BadInput
from config.settings import Settings
from models.claim import Begun, Claim, Started
from models.outcome import Tally
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


FIRST, NEXT = Claim("j", 1, 1, "g", "crawl"), Claim("k", 1, 2, "g", "crawl")


def begun(lease_sec: float = 60.0) -> Begun:
    """What the body of NEXT starts with; its claim was asked for just now."""
    started = Started(NEXT, None, "manual", False, None, Tally(), 0, 0, None, None, None, lease_sec, 0.0, None, 0.0, 0.0)
    return Begun(started, clock.Stopwatch())


def go_on(desk: Desk, following: Begun) -> None:
    """Let FIRST end, and NEXT begin with its end."""
    desk.inflight.add([FIRST])
    desk.go_on(FIRST, NEXT, following)


def test_a_body_takes_up_what_has_begun_once(desk: Desk) -> None:
    """W29: a copy of its message finds nothing left to start with."""
    following = begun()
    go_on(desk, following)
    assert desk.inflight.begin("j", 1) is None, "that one began by itself"
    assert desk.inflight.begin(*NEXT[:2]) is following
    assert desk.inflight.begin(*NEXT[:2]) is None
    (held,) = (held for held in desk.inflight.all() if held.claim == NEXT)
    assert held.started
    assert not desk.inflight.withdraw(held), "a body that runs is not handed back"


def test_a_body_whose_lane_has_gone_on_is_not_remembered(desk: Desk) -> None:
    """Its row is settled; a chain of ten thousand jobs would be kept in memory until the next look at leftovers."""
    go_on(desk, begun())
    desk.inflight.begin(*NEXT[:2])
    assert desk.inflight.entered() == {NEXT[:2]}
    desk.go_on(NEXT, Claim("l", 1, 3, "g", "crawl"), None)
    assert desk.inflight.entered() == set()


def test_j8_what_is_to_be_handed_back_does_not_start_any_more(desk: Desk) -> None:
    go_on(desk, begun())
    held = desk.inflight.get(*NEXT[:2])
    assert held is not None
    assert desk.inflight.withdraw(held)
    assert desk.inflight.begin(*NEXT[:2]) is None
    assert desk.inflight.withdraw(held), "the errand may have to be run again"


def test_j6_what_has_begun_does_not_start_behind_its_lease(desk: Desk) -> None:
    """A process that was frozen in between: somebody else may have the lane by then."""
    go_on(desk, begun(lease_sec=0.02))
    clock.pause(0.03)
    assert desk.inflight.begin(*NEXT[:2]) is None


def test_a_row_that_has_begun_is_no_body_that_has(desk: Desk) -> None:
    """J8: a hand-over that takes too long is noticed all the same."""
    go_on(desk, begun())
    held = desk.inflight.get(*NEXT[:2])
    assert held is not None
    answer = [(*NEXT[:2], "renewed", 60.0, True)]
    Heartbeat(desk)._correct(answer)
    assert not held.started
    desk.inflight.begin(*NEXT[:2])
    Heartbeat(desk)._correct(answer)
    assert held.started


def test_an_answer_that_was_long_under_way_starts_nothing(tmp_path: object) -> None:
    """The heartbeat may be handing that job back: nobody here has it."""
    desk = Desk(Settings(home=str(tmp_path), handover_timeout_sec=0.02), name="w@h", pool=Pool())
    following = begun()
    clock.pause(0.02)
    go_on(desk, following)
    assert desk.inflight.get(*NEXT[:2]) is None
    what, held = desk.errands.get_nowait()
    assert (what, held.claim, desk.inflight.withdraw(held)) == ("hand_back", NEXT, True)


def test_the_body_that_follows_begins_at_once_only_in_a_slot_that_no_ordinary_task_may_be_in(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.came_round = clock.Stopwatch()
    desk.open.set()
    desk.inflight.add([FIRST])
    monkeypatch.setattr(state, "reserved_requests", {"j"})
    taker = desk.taker()
    assert taker is not None
    assert taker.busy_sec == desk.settings.park_after_sec + desk.settings.request_timeout_sec
    monkeypatch.setattr(state, "reserved_requests", {"j", "an ordinary task"})
    taker = desk.taker()
    assert taker is not None
    assert taker.busy_sec is None


@pytest.mark.parametrize(
    ("row", "handed_back"),
    [
        ({"started": False, "followed": False, "age_sec": 1.0}, None),
        ({"started": False, "followed": False, "age_sec": 99.0}, False),
        ({"started": True, "followed": True, "age_sec": 1.0}, None),
        ({"started": True, "followed": True, "age_sec": 99.0}, True),
    ],
)
def test_j8_a_claim_whose_answer_got_lost_is_handed_back_whether_it_had_begun_or_not(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, row: dict[str, object], handed_back: bool | None
) -> None:
    found = SimpleNamespace(job_id="k", attempt=1, group_key="g", **row)
    assert leftovers(desk, monkeypatch, found) == ([] if handed_back is None else [("k", handed_back)], [])


@pytest.mark.parametrize("followed", [True, False])
def test_j8_a_body_that_ended_without_a_word_is_recovered_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, followed: bool
) -> None:
    go_on(desk, begun())
    if followed:
        desk.inflight.begin(*NEXT[:2])
    desk.inflight.end(*NEXT[:2])
    found = SimpleNamespace(job_id="k", attempt=1, group_key="g", started=True, followed=followed, age_sec=1.0)
    assert leftovers(desk, monkeypatch, found) == ([], ["k"])
    assert leftovers(desk, monkeypatch) == ([], [])
    assert desk.inflight.entered() == set(), "what runs no more is forgotten"


def leftovers(desk: Desk, monkeypatch: pytest.MonkeyPatch, *rows: SimpleNamespace) -> tuple[list[object], list[object]]:
    """Show the heartbeat these rows of its boot; what it hands back (and whether as begun), and what it recovers."""
    back: list[object] = []
    recovered: list[object] = []
    monkeypatch.setattr(desk.ledger, "running_of", lambda _boot: rows)
    monkeypatch.setattr(desk.ledger, "hand_back", lambda job, *_, begun=False: back.append((job, begun)))
    monkeypatch.setattr(desk.reaper, "recover", lambda job, *_: recovered.append(job))
    Heartbeat(desk)._look_for_leftovers()
    return back, recovered


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
