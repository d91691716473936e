"""A run's jobs on both databases: stored at once, without locking a lane, one a key (rules S8, J1, J3)."""

from __future__ import annotations

from typing import Any

import pytest

from config import clock
from models.agenda import launching
from models.agenda.fan import Chosen, FanOut
from models.agenda.launching import Launch
from models.db import Database
from models.queries.schedule import chosen_targets, tally_of
from models.statements import fanout
from tests.support.agenda import Beat, fleet
from tests.support.ledger import held_group, in_thread

MANY = {f"g{group:04}": {f"s{group:04}": [f"t{group:04}-{number}" for number in range(10)]} for group in range(1_000)}
RUN = "INSERT INTO runs (run_id, entry, occurrence, try_no, stat_date, source, recorded_at, started_at) VALUES "


@pytest.fixture
def beat(database: Database) -> Beat:
    return fleet(database, "2026-05-01 06:30")


def run(conn: Any, run_id: int = 1) -> int:
    """Store a run."""
    moment = "1" if conn.dialect.name == "sqlite" else "now()"
    conn.exec_driver_sql(RUN + f"({run_id}, 'x', {moment}, {run_id}, '2026-05-01', 'schedule', {moment}, {moment})")
    return run_id


def launch(conn: Any, run_id: int, fan: FanOut) -> int:
    """Store the jobs of a run; returns how many targets it has."""
    return launching.launch(conn, [Launch(run_id, fan, 100, False, 3)])[run_id]


def test_a_job_without_a_site_runs_in_an_internal_lane(beat: Beat) -> None:
    with beat.db.write() as conn:
        assert launch(conn, run(conn), FanOut("snapshot_seed", [Chosen(None, None, "_seed")], "snapshot_seed",
                                              options={"date": "2026-05-01"}, priority=7, max_attempts=1)) == 1
    [job] = beat.jobs()
    assert (job["kind"], job["group_key"], job["site_code"], job["target_code"], job["options"], job["priority"],
            job["max_attempts"], job["source"]) == (
        "snapshot_seed", "_seed", None, None, {"date": "2026-05-01"}, 7, 1, "schedule")
    assert beat.bench.claim().job_id == job["job_id"]


def test_one_key_is_one_job_however_often_it_is_named(beat: Beat) -> None:
    with beat.db.write() as conn:
        assert launch(conn, run(conn), FanOut("crawl", [Chosen("t1", "s1", "g1"), Chosen("t1", "s1", "g1")], "k:{target}")) == 1
    assert len(beat.jobs()) == 1


def test_a_second_run_counts_the_job_that_waits(beat: Beat) -> None:
    with beat.db.write() as conn:
        fan = FanOut("crawl", chosen_targets(conn), "crawl:{target}")
        assert (launch(conn, run(conn), fan), launch(conn, run(conn, 2), fan)) == (4, 4)
    assert len(beat.jobs()) == 4
    with beat.db.read() as conn:
        assert tally_of(conn, 2).open == 4


def test_a_job_that_ended_between_the_statements_is_submitted_again(beat: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
    old = beat.bench.submit("t1", dedupe_key="crawl:t1").job_id
    real = fanout.insert_jobs

    def insert(conn: Any, rows: Any, now: Any) -> int:
        found = real(conn, rows, now)
        conn.exec_driver_sql(f"UPDATE jobs SET status = 'done', finished_at = queue_at WHERE job_id = '{old}'")
        return found

    monkeypatch.setattr(fanout, "insert_jobs", insert)
    with beat.db.write() as conn:
        launch(conn, run(conn), FanOut("crawl", chosen_targets(conn), "crawl:{target}"))
    counted = beat.jobs(1)
    assert [job["target_code"] for job in counted] == ["t1", "t1b", "t2", "t3"]
    assert old not in {job["job_id"] for job in counted}
    assert {job["status"] for job in counted} == {"queued"}


def test_no_lane_is_waited_for(beat: Beat) -> None:
    """Somebody holds a group, as claims and settles do: the fan-out does not wait for it."""
    if beat.db.dialect == "sqlite":
        pytest.skip("one writer at a time")
    with held_group(beat.db, "g1"):
        def work() -> int:
            with beat.db.write() as conn:
                return launch(conn, run(conn), FanOut("crawl", chosen_targets(conn), "crawl:{target}"))

        assert in_thread(work).result(3) == 4


@pytest.mark.slow
@pytest.mark.exclusive
def test_ten_thousand_targets_are_stored_within_three_seconds(database: Database) -> None:
    beat = fleet(database, "2026-05-01 06:30", MANY)
    beat.configure(hourly={"every": "1h"})
    beat.tick()
    watch = clock.Stopwatch()
    assert beat.tick("2026-05-01 07:00").started == 1
    seconds = watch.elapsed()
    [one] = beat.runs()
    assert one["total"] == len(beat.jobs(one["run_id"])) == 10_000
    assert beat.bench.ledger.fold() == 1_000
    print(f"{database.dialect}: 10,000 targets in {seconds:.2f} s")
    assert seconds < 3.0
    beat.finish()
    assert beat.later(seconds=5).ended == 1


@pytest.mark.slow
@pytest.mark.exclusive
def test_a_thousand_entries_due_in_one_second_take_less_than_three_and_an_idle_look_ten_milliseconds(
    database: Database,
) -> None:
    beat = fleet(database, "2026-05-01 06:30", MANY)
    beat.configure(**{f"own-{number}": {"every": "1h", "targets": [f"t{number:04}-1"]} for number in range(1_000)})
    beat.tick()
    watch = clock.Stopwatch()
    assert beat.tick("2026-05-01 07:00").started == 1_000
    seconds = watch.elapsed()
    assert len(beat.jobs()) == 1_000
    waiting = idle_look(beat)
    beat.finish()
    ended = 0
    while (found := beat.later(seconds=1)).look_again:
        ended += found.ended
    assert ended == 1_000
    idle = idle_look(beat)
    print(f"{database.dialect}: 1,000 entries in {seconds:.2f} s, an idle look in {idle * 1e3:.1f} ms "
          f"({waiting * 1e3:.1f} ms with 1,000 open runs)")
    assert seconds < 3.0
    assert idle < 0.010


def idle_look(beat: Beat) -> float:
    """Return how many seconds a look takes at which nothing is due: the median of twenty."""
    taken = []
    for _ in range(20):
        watch = clock.Stopwatch()
        assert beat.later(seconds=1).started == 0
        taken.append(watch.elapsed())
    return sorted(taken)[10]
