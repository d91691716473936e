"""Three beats and three workers, of which one beat is killed anywhere and one stops inside its turn (rules S1, S2, S8; W58)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from config import clock
from models.jobs import jobs
from models.schedules import run_job, runs
from tests.support.beats import BeatProcess, offset_at
from tests.support.figures import figure
from tests.support.nights import Nights
from tests.support.servers import wait_until
from tests.support.site import sites_yaml
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.acceptance, pytest.mark.exclusive, pytest.mark.timeout(240)]
ENTRIES = [f"own-{number:03}" for number in range(1_000)]
#: how long a beat that stops inside its turn may hold up others, the look of another one included
HELD_SEC, LOOK_SEC = 15.0, 5.0
BUILT_IN = ("snapshot", "snapshot_recent", "snapshot_seed", "discovery", "candidate_cleanup", "vitals")


@pytest.fixture
def notes(store: Store) -> Path:
    """A file into which each of a thousand entries of noon writes its name."""
    path = store.folder / "notes"
    own: dict[str, Any] = {name: {"task": "tests.support.scheduled_tasks.noted", "args": [str(path), name], "at": "12:00"}
                           for name in ENTRIES}
    off = {name: {"enabled": False} for name in BUILT_IN}
    store.load(sites_yaml([], schedule={"entries": own | off}))
    return path


@pytest.fixture
def beats(store: Store) -> Iterator[list[BeatProcess]]:
    """Three of them, not started yet, whose clock stands eight seconds before noon."""
    environment = store.environment(clock_offset_sec=offset_at("2026-05-01 11:59:52"), testing=True)
    made = [BeatProcess(f"beat-{number}", store.folder, environment) for number in (1, 2, 3)]
    yield made
    for beat in made:
        if beat.lives:
            beat.thaw()
            beat.kill()
        print(f"-- {beat.name}\n{beat.log[-2000:]}")


def count(store: Store, statement: Any) -> int:
    with store.db.read() as conn:
        return int(conn.execute(statement).scalar_one())


def test_w58_a_thousand_entries_of_one_second_are_run_once_each_whatever_becomes_of_two_beats(
    store: Store, workers: Workers, notes: Path, beats: list[BeatProcess]
) -> None:
    """The first stops inside its turn, with a hundred entries written and not committed: frozen, or on SQLite, where that
    would hold up the home (rule D3), killed. The second is killed wherever it stands. The third takes over.
    """
    Nights(store).plan("2026-05-01 11:00")
    workers.start("one", "two", "three")
    frozen, killed, last = beats
    frozen.probes.order("turn_written", "kill" if store.shares_home else "freeze")
    for beat in beats:
        beat.start()
    for beat in beats:
        beat.wait_started()
    began = select(func.count()).select_from(runs)
    frozen.probes.wait_taken("turn_written", timeout=60)
    stopped = clock.Stopwatch()
    killed.probes.wait_for("turn_taken", timeout=30)
    clock.pause(random.Random(store.db.dialect).uniform(0.0, 0.3))
    killed.kill()

    wait_until(lambda: count(store, began) == len(ENTRIES), "all runs", 60)

    held = stopped.elapsed()
    figure(f"1,000 entries with two of three beats lost {store.db.dialect}: {held:.1f} s")
    assert held < HELD_SEC
    ended = began.where(runs.c.outcome == "success", runs.c.try_no == 1)
    wait_until(lambda: count(store, ended) == len(ENTRIES), "all ends", 90)
    if frozen.lives:
        frozen.thaw()
        clock.pause(LOOK_SEC + 1.0)  # it finds its transaction gone, and looks again
        assert frozen.lives, "a lost transaction ended beat"
    assert last.lives
    with store.db.read() as conn:
        of_entry = Counter(conn.scalars(select(runs.c.entry)))
        of_run = Counter(conn.scalars(select(run_job.c.run_id)))
    assert of_entry == dict.fromkeys(ENTRIES, 1)
    assert len(of_run) == count(store, select(func.count()).select_from(jobs)) == len(ENTRIES)
    assert Counter(notes.read_text(encoding="utf-8").split()) == dict.fromkeys(ENTRIES, 1)
