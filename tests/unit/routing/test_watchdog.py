"""What the watchdog sees of the other threads, and what it does (D2, W33, W76)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from celery.worker import state

from config.settings import Settings
from routing.lanes.consumption import Verdict
from routing.lanes.desk import Desk
from routing.lanes.watchdog import Silence, Watchdog


class Pool:
    """A pool of a size."""

    num_processes = 4


class Scout:
    """A scout that does what a test says."""

    def __init__(self) -> None:
        self.looks, self.content, self.lacks_database, self.alive = 0, True, False, True

    def is_alive(self) -> bool:
        return self.alive


class Scene:
    """A desk with a scout, an event loop and a broker that answer as long as they are let."""

    def __init__(self, home: Path) -> None:
        settings = Settings(home=home, heartbeat_sec=10, watchdog_sec=60, soft_stop_sec=0)
        self.desk, self.scout = Desk(settings, name="w@h", pool=Pool()), Scout()
        self.hub_answers = self.beats = True
        self.other = Scout()
        self.broker: str | None = None
        self.tried, self.ended = 0, list[int]()
        self.dog = Watchdog(self.desk, self.scout, self._ask, try_broker=self._try, apart=lambda work: work(),
                            end=self.ended.append, others=[self.other])
        self.desk.open.set()
        self.watch(2)

    def _ask(self, answer: Callable[[], None]) -> None:
        if self.hub_answers:
            answer()

    def _try(self, _: Settings) -> str | None:
        self.tried += 1
        return self.broker

    def watch(self, seconds: int) -> Verdict:
        """Let so many seconds pass, a round each, and return the last verdict."""
        for _ in range(seconds):
            self.desk.beats += self.beats
            verdict = self.dog.look(1.0)
        return verdict


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    yield Scene(tmp_path)
    state.should_stop = None


def test_a_worker_in_which_everything_moves_consumes(scene: Scene) -> None:
    assert scene.watch(500) == Verdict()
    assert scene.tried == 0


def test_w76_a_scout_that_neither_looks_nor_waits_is_stuck(scene: Scene) -> None:
    scene.scout.content = False
    assert scene.watch(20) == Verdict()
    assert scene.watch(2) == Verdict("scout_stuck")
    assert scene.desk.trouble == "scout_stuck"
    assert scene.watch(38) == Verdict("scout_stuck", leave=True)
    scene.scout.looks += 1
    assert scene.watch(1) == Verdict()


def test_w76_a_dead_scout_is_stuck_whatever_it_said_last(scene: Scene) -> None:
    scene.scout.alive = False
    assert scene.watch(60) == Verdict("scout_stuck", leave=True)


def test_d2_a_dead_heartbeat_is_no_database_that_is_away(scene: Scene) -> None:
    scene.other.alive = scene.beats = False
    assert scene.watch(2) == Verdict("thread_dead")
    assert scene.watch(59) == Verdict("thread_dead", leave=True)


def test_d2_an_event_loop_that_does_not_answer_is_named_and_in_the_end_left(scene: Scene) -> None:
    scene.hub_answers = False
    assert scene.watch(22) == Verdict("hub_stuck")
    assert scene.watch(54) == Verdict("hub_stuck", leave=True)
    scene.hub_answers = True
    assert scene.watch(2) == Verdict()


def test_w33_an_event_loop_that_waits_for_a_dead_broker_is_given_time_when_it_is_back(scene: Scene) -> None:
    scene.hub_answers, scene.broker = False, "TimeoutError"
    assert scene.watch(500) == Verdict("broker_down")
    scene.broker = None
    assert scene.watch(50) == Verdict("hub_stuck")
    scene.hub_answers = True
    assert scene.watch(2) == Verdict()


def test_d4_a_solo_pool_whose_body_runs_on_the_event_loop_is_no_stuck_worker(scene: Scene) -> None:
    scene.hub_answers = False
    Desk.runs_on_hub, kept = lambda _desk: True, Desk.runs_on_hub  # type: ignore[method-assign]
    try:
        assert scene.watch(500) == Verdict()
    finally:
        Desk.runs_on_hub = kept  # type: ignore[method-assign]
    assert scene.watch(20) == Verdict(), "between two bodies it counts from the end of the first"


def test_w33_a_broker_that_is_away_ends_no_worker_and_one_that_answers_others_does(scene: Scene) -> None:
    scene.desk.open.clear()
    scene.hub_answers, scene.broker = False, "ConnectionError"
    assert scene.watch(3) == Verdict()
    assert scene.watch(500) == Verdict("broker_down")
    assert 90 <= scene.tried <= 110
    scene.broker = None
    assert scene.watch(50) == Verdict("broker_down")
    assert scene.watch(20) == Verdict("broker_down", leave=True)
    scene.desk.open.set()
    scene.hub_answers = True
    assert scene.watch(1) == Verdict()


def test_a_database_that_is_away_ends_no_worker(scene: Scene) -> None:
    scene.beats, scene.scout.content = False, False
    assert scene.watch(500) == Verdict("database_down")
    scene.beats = True
    scene.scout.lacks_database = True
    assert scene.watch(2) == Verdict("database_down")
    scene.scout.lacks_database, scene.scout.content = False, True
    assert scene.watch(2) == Verdict()


def test_time_in_which_the_whole_process_stood_still_counts_for_two_rounds() -> None:
    silence = Silence()
    assert [silence.note(1.0, mark=1), silence.note(1.0, mark=1), silence.note(1.0, mark=2)] == [0, 1, 0]
    assert silence.note(2.0, mark=2, moved=True) == 0


def test_d2_it_asks_the_worker_to_stop_and_ends_it_if_that_does_not_help(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.dog.leave(Verdict("hub_stuck", leave=True))
    assert state.should_stop == 1
    assert scene.ended == [1]
    assert "worker.watchdog worker=w@h reason=hub_stuck" in caplog.text
