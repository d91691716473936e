"""Beats that run, die and freeze: an occurrence is one run with its jobs, and one outcome (rules S1, S2, S8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from config import clock
from console.demo import Site
from models.jobs import jobs
from models.schedules import entries, run_job, runs
from tasks.schedule.ticking import tick
from tests.support.beats import BeatProcess, offset_before_noon
from tests.support.servers import wait_until
from tests.support.site import one_site, sites_yaml
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.paired]
TARGETS = 2_000
#: how long a beat that is frozen may hold up the others, the look of another one included
HELD_SEC = 15.0
#: what else is due at noon
ALONE = "".join(f"    {name}: {{enabled: false}}\n" for name in ("discovery", "vitals"))
ALONE = f"schedule:\n  entries:\n{ALONE}"


class Stage:
    """A store, its schedule shortly before noon, and the beats that a test starts."""

    def __init__(self, store: Store, seconds: float) -> None:
        self.store, self.beats = store, dict[str, BeatProcess]()
        self.other: dict[str, Any] = {"clock_offset_sec": offset_before_noon(seconds), "testing": True}

    def load(self, text: str) -> None:
        """Load a sites.yaml, and let the entries be planned: a beat that starts late makes noon up."""
        self.store.load(text)
        now = datetime.now(UTC) + timedelta(seconds=self.other["clock_offset_sec"])
        assert tick(self.store.db, self.store.settings(), now).started == 0

    def beat(self, name: str) -> BeatProcess:
        """Return the beat of this name, not started yet."""
        self.beats[name] = BeatProcess(name, self.store.folder, self.store.environment(**self.other))
        return self.beats[name]

    def runs(self, entry: str = "snapshot_recent") -> list[Any]:
        """Return an entry's runs."""
        with self.store.db.read() as conn:
            return list(conn.execute(select(runs).where(runs.c.entry == entry).order_by(runs.c.run_id)))

    def wait_outcome(self, timeout: float = 60.0) -> list[Any]:
        """Return the runs once all of them have ended and there is one."""
        wait_until(lambda: (found := self.runs()) and all(run.outcome for run in found), "the end of the run", timeout)
        return self.runs()

    def jobs(self) -> list[Any]:
        """Return the crawls."""
        with self.store.db.read() as conn:
            return list(conn.execute(select(jobs).where(jobs.c.kind == "crawl")))

    def counted(self) -> int:
        """Return how many crawls the runs count."""
        crawls = select(func.count()).select_from(run_job.join(jobs, jobs.c.job_id == run_job.c.job_id)).where(
            jobs.c.kind == "crawl")
        with self.store.db.read() as conn:
            return int(conn.execute(crawls).scalar_one())

    def entry(self) -> Any:
        """Return the entry's row."""
        with self.store.db.read() as conn:
            return conn.execute(select(entries).where(entries.c.name == "snapshot_recent")).one()


@pytest.fixture
def stage(store: Store) -> Iterator[Stage]:
    made = Stage(store, 12.0)
    yield made
    for beat in made.beats.values():
        if beat.lives:
            beat.thaw()
            beat.kill()
        print(f"-- {beat.name}\n{beat.log[-4000:]}")




def test_two_beats_and_a_worker_crawl_the_hour_once(stage: Stage, workers: Workers) -> None:
    with one_site(articles=3) as site:
        stage.load(site.yaml)
        beats = [stage.beat(name).start() for name in ("one", "two")]
        workers.start("w")
        for beat in beats:
            beat.wait_started()
        [run] = stage.wait_outcome()
        assert (run.outcome, run.try_no, run.progress) == ("success", 1, {"done": 1, "failed": 0, "total": 1})
        assert f"{run.occurrence:%Y-%m-%d %H:%M}" == "2026-05-01 04:00"
        [job] = stage.jobs()
        assert (job.status, job.outcome, job.run_id, job.source) == ("done", "complete", run.run_id, "schedule")
        assert len(stage.store.stored(site.target_code)) == 3
        row = stage.entry()
        assert (row.status, f"{row.due_at:%H:%M}", row.run_id) == ("done", "05:00", None)
        said = sum(beat.log.count("event=scheduler.task_ok entry=snapshot_recent") for beat in beats)
        assert said == 1
        assert [beat.terminate() for beat in beats] == [0, 0]


@pytest.mark.parametrize("line", ["turn_taken", "turn_written", "turn_committed"])
def test_a_beat_that_dies_in_its_turn_leaves_it_to_the_next_one(stage: Stage, line: str) -> None:
    with one_site() as site:
        stage.load(site.yaml)
        first = stage.beat("first")
        first.probes.order(line, "kill")
        first.start().wait_end(60)
        assert len(stage.jobs()) == (line == "turn_committed")
        stage.beat("second").start()
        wait_until(lambda: stage.runs() and stage.jobs(), "the run", 40)
        clock.pause(6.0)  # a look of the second beat at its longest distance: it must find nothing more to do
        assert len(stage.runs()) == len(stage.jobs()) == 1


@pytest.mark.parametrize("line", ["jobs_stored", "turn_written"])
def test_a_beat_that_dies_in_the_middle_of_a_fan_out_leaves_nothing_of_it_and_the_next_one_makes_it_whole(
    stage: Stage, line: str
) -> None:
    """Two thousand targets: nothing is doubled and nothing missing, neither among the jobs nor among what the run counts."""
    site = Site("wide", columns={f"c{number}": 0 for number in range(TARGETS)})
    stage.load(sites_yaml([site]))
    first = stage.beat("first")
    first.probes.order(line, "kill")
    first.start().wait_end(60)
    assert first.probes.taken(line), "it did not get there"
    assert (stage.runs(), stage.jobs(), stage.counted()) == ([], [], 0)
    stage.beat("second").start()
    wait_until(stage.runs, "the run", 40)
    [run] = stage.runs()
    found = stage.jobs()
    assert run.total == len(found) == len({job.target_code for job in found}) == stage.counted() == TARGETS
    assert {job.run_id for job in found} == {run.run_id}


@pytest.mark.parametrize("line", ["run_ending", "run_ended"])
def test_a_beat_that_dies_while_it_ends_a_run_leaves_one_end(stage: Stage, workers: Workers, line: str) -> None:
    """Before its commit nothing has happened, and behind it all has but the line of its log."""
    with one_site(articles=3) as site:
        stage.load(site.yaml + ALONE)
        workers.start("w")
        first = stage.beat("first")
        first.probes.order(line, "kill")
        first.start().wait_end(60)
        assert first.probes.taken(line), "it did not get there"
        [run] = stage.runs()
        ended = line == "run_ended"
        assert (run.outcome, stage.entry().run_id) == (("success", None) if ended else (None, run.run_id))
        ended_at = run.ended_at
        second = stage.beat("second").start()
        second.wait_started()
        [run] = stage.wait_outcome()
        clock.pause(6.0)  # a look of the second beat at its longest distance: it must find nothing more to do
        assert (run.outcome, run.try_no, run.progress) == ("success", 1, {"done": 1, "failed": 0, "total": 1})
        assert [found.ended_at for found in stage.runs()] == [run.ended_at] == [ended_at or run.ended_at]
        row = stage.entry()
        assert (row.status, f"{row.due_at:%H:%M}", row.run_id, row.last_success_at) == ("done", "05:00", None, run.ended_at)
        assert len(stage.jobs()) == stage.counted() == 1
        assert second.log.count("event=scheduler.task_ok entry=snapshot_recent") == (not ended)


def held_up_by_a_frozen_beat(stage: Stage, line: str, is_over: Callable[[], object]) -> float:
    """Return for how many seconds a beat that is frozen at this line holds up another one, until `is_over` says so."""
    first = stage.beat("first")
    first.probes.order(line, "freeze")
    first.start()
    first.probes.wait_taken(line, timeout=60)
    watch = clock.Stopwatch()
    first.wait_frozen()
    stage.beat("second").start().wait_started()
    wait_until(is_over, "the same by another beat", 40)
    held = watch.elapsed()
    print(f"{line}: held up for {held:.1f} s")
    first.thaw()
    clock.pause(6.0)  # the first one finds its transaction gone, and looks again
    assert len(stage.runs()) == len(stage.jobs()) == 1
    assert first.lives, "a lost transaction ended beat"
    return held


def test_a_beat_that_is_frozen_in_its_turn_holds_up_nobody_for_longer_than_fifteen_seconds(stage: Stage) -> None:
    """From the moment at which it stands still to the commit of another one, whose start and looks are included."""
    if stage.store.db.dialect == "sqlite":
        pytest.skip("a process that is stopped in a write holds up its home (rule D3)")
    with one_site() as site:
        stage.load(site.yaml)
        assert held_up_by_a_frozen_beat(stage, "turn_written", stage.runs) < HELD_SEC


def test_a_beat_that_is_frozen_while_it_ends_a_run_holds_up_nobody_for_longer_than_that(
    stage: Stage, workers: Workers
) -> None:
    if stage.store.db.dialect == "sqlite":
        pytest.skip("a process that is stopped in a write holds up its home (rule D3)")
    with one_site() as site:
        stage.load(site.yaml + ALONE)
        workers.start("w")
        assert held_up_by_a_frozen_beat(stage, "run_ending", lambda: (found := stage.runs()) and found[0].outcome) < HELD_SEC
