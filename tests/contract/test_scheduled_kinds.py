"""What the built-in entries start and when they count as done, on both databases (rules S7, S8)."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, update

from config import clock
from models.db import Database
from models.groups import rate_groups
from models.jobs import jobs
from models.operations import acting
from models.queries.reading import db_moment
from models.requests import requests
from models.schedules import entries
from models.sites import sites, targets
from models.snapshots import snapshots, vitals
from tasks.schedule.by_hand import run_by_hand
from tests.support.agenda import FLEET, SHANGHAI, Beat, at, fleet

DAY = date(2026, 5, 1)
ALL = ["t1", "t1b", "t2", "t3"]


def beating(database: Database, now: str, name: str, document: dict[str, Any] | None = None, **settings: Any) -> Beat:
    """A beat with one of the built-in entries."""
    beat = fleet(database, now, **settings)
    beat.configure(**{name: document or {}})
    beat.tick()
    return beat


def by_the_clock(database: Database, **settings: Any) -> Beat:
    """A beat at the present moment, for runs by hand; the evening is half a day away."""
    beat = fleet(database, "2026-05-01 22:00", **settings)
    beat.now = clock.now()
    beat.configure(snapshot={"at": f"{(beat.now + timedelta(hours=12)).astimezone(SHANGHAI):%H:%M}"})
    beat.tick()
    return beat


def days(beat: Beat) -> dict[date, dict[str, Any]]:
    return {row["stat_date"]: row for row in beat.bench.rows(snapshots)}


def complete(beat: Beat, day: date, **more: Any) -> None:
    with beat.db.write() as conn:
        conn.execute(insert(snapshots).values(stat_date=day, completed_at=beat.now, completed_run=7, updated_at=beat.now, **more))


# -- snapshot ---------------------------------------------------------------------------------------------------------


def test_s7_a_snapshot_walks_every_target_beside_the_crawls_that_there_are(database: Database) -> None:
    beat = beating(database, "2026-05-01 22:00", "snapshot")
    beat.bench.submit("t1", dedupe_key="crawl:t1")
    running = beat.bench.begin("t2", dedupe_key="crawl:t2").claim.job_id
    parked = beat.bench.submit("t3", dedupe_key="crawl:t3").job_id
    with beat.db.write() as conn:
        conn.execute(update(jobs).where(jobs.c.job_id == parked).values(wait_reason="cooldown"))
    beat.tick("2026-05-01 23:15")
    [run] = beat.runs("snapshot")
    made = beat.jobs(run["run_id"])
    assert [job["target_code"] for job in made] == ALL and running not in {job["job_id"] for job in made}
    assert {(job["kind"], job["force"], job["hold_from"], job["dedupe_key"] == f"snapshot:{job['target_code']}") for job in made} == {
        ("crawl", True, None, True)}
    assert all(job["options"] == {"snapshot": "2026-05-01", "refetch": False} for job in made)
    beat.finish()
    beat.later(minutes=1)
    assert beat.told("snapshot") == ["23:15 success"]
    assert (days(beat)[DAY]["completed_run"], days(beat)[DAY]["completed_run_started_at"]) == (run["run_id"], at("2026-05-01 23:15"))


def test_s8_a_further_try_submits_what_is_missing_for_the_date(database: Database) -> None:
    beat = beating(database, "2026-05-01 23:00", "snapshot")
    beat.tick("2026-05-01 23:15")
    beat.finish("t1", outcome="truncated")
    beat.finish("t2", status="failed", result={"error_type": "PermanentJobError", "error": "gone"})
    beat.finish("t1b", outcome="partial")
    beat.finish("t3", status="failed", result={"error_type": "TimeoutError"})
    beat.later(minutes=5)
    assert beat.told("snapshot") == ["23:15 failed(2 of 4 targets are done, 0.9 of them are needed)"] and DAY not in days(beat)
    beat.later(minutes=5)
    first, second = beat.runs("snapshot")
    assert [job["target_code"] for job in beat.jobs(second["run_id"])] == ["t1b", "t3"]
    beat.finish()
    beat.later(minutes=5)
    assert [run["outcome"] for run in beat.runs("snapshot")] == ["failed", "success"]
    assert beat.entry("snapshot")["progress"] == {"done": 3, "failed": 1, "total": 4, "settled": ["t2"]}
    assert days(beat)[DAY]["completed_run"] == second["run_id"] != first["run_id"]


def test_s7_a_day_that_a_run_completed_behind_its_last_seed_is_already_completed(database: Database) -> None:
    beat = beating(database, "2026-05-01 22:00", "snapshot")
    complete(beat, DAY, seeded_at=at("2026-05-01 00:05"), completed_run_started_at=at("2026-05-01 10:00"))
    beat.tick("2026-05-01 23:15")
    [run] = beat.runs("snapshot")
    assert (run["outcome"], run["reason"], run["by_run"], beat.jobs()) == ("success", "already_completed", 7, [])
    assert days(beat)[DAY]["completed_run"] == 7


def test_s7_a_day_that_was_seeded_behind_its_completion_is_walked_again(database: Database) -> None:
    beat = beating(database, "2026-05-01 22:00", "snapshot")
    complete(beat, DAY, seeded_at=at("2026-05-01 10:05"), completed_run_started_at=at("2026-05-01 10:00"))
    beat.tick("2026-05-01 23:15")
    assert beat.told("snapshot") == ["23:15 running"] and len(beat.jobs()) == 4


def test_s7_a_run_works_on_what_another_of_the_same_date_has_left(database: Database) -> None:
    beat = by_the_clock(database, ok_ratio=0.7)
    now = beat.now
    run_id = run_by_hand(beat.db, beat.settings, "snapshot", acting(beat.settings, "test"), date=DAY)
    assert isinstance(run_id, int)
    beat.finish("t1", "t2")
    beat.finish("t1b", "t3", outcome="partial")
    beat.tick(now + timedelta(seconds=10))
    assert beat.runs("snapshot")[-1]["outcome"] == "failed"
    again = run_by_hand(beat.db, beat.settings, "snapshot", acting(beat.settings, "test"), date=DAY)
    assert isinstance(again, int) and again != run_id
    assert [job["target_code"] for job in beat.jobs(again)] == ["t1b", "t3"]
    beat.finish("t1b")
    beat.finish("t3", outcome="partial")
    beat.tick(now + timedelta(minutes=7))
    # three of all four are done for the date, by whichever of its runs
    assert (beat.runs("snapshot")[-1]["outcome"], beat.runs("snapshot")[-1]["progress"]["done"]) == ("success", 3)


def test_s7_a_forced_run_reads_everything_again(database: Database) -> None:
    beat = by_the_clock(database)
    now = beat.now
    by = acting(beat.settings, "test")
    first = run_by_hand(beat.db, beat.settings, "snapshot", by, date=DAY)
    beat.finish()
    beat.tick(now + timedelta(minutes=1))
    forced = run_by_hand(beat.db, beat.settings, "snapshot", by, force=True, date=DAY)
    assert isinstance(forced, int) and forced != first
    made = beat.jobs(forced)
    assert [job["target_code"] for job in made] == ALL and all(job["options"]["refetch"] and job["force"] for job in made)


def test_s7_an_entry_of_its_own_for_some_targets_completes_no_day(database: Database) -> None:
    beat = fleet(database, "2026-05-01 22:00")
    beat.configure(part={"at": "22:30", "task": "snapshot", "targets": "t1*"})
    beat.tick()
    beat.tick("2026-05-01 22:30")
    assert [job["target_code"] for job in beat.jobs()] == ["t1", "t1b"]
    beat.finish()
    beat.later(minutes=1)
    assert beat.told("part") == ["22:30 success"] and days(beat) == {}


# -- seed -------------------------------------------------------------------------------------------------------------


def test_s7_without_a_source_the_seed_is_skipped_every_ten_minutes_and_after_six_times_hourly(database: Database) -> None:
    beat = beating(database, "2026-05-01 00:00", "snapshot_seed")
    dues = []
    beat.tick("2026-05-01 00:05")
    for _ in range(8):
        due = beat.entry("snapshot_seed")["due_at"]
        dues.append(f"{due - at('2026-05-01 00:00')}"[:-3])
        beat.tick(due)
    assert dues == ["0:15", "0:25", "0:35", "0:45", "0:55", "1:55", "2:55", "3:55"]
    assert set(beat.told("snapshot_seed")) == {"00:05 skipped(no_source)"} and beat.jobs() == []
    assert (beat.entry("snapshot_seed")["status"], beat.entry("snapshot_seed")["last_success_at"]) == ("deferred", None)


def test_s7_the_seed_waits_for_a_running_snapshot_and_is_then_one_job_in_its_lane(database: Database) -> None:
    beat = fleet(database, "2026-04-30 23:00")
    beat.configure(snapshot={}, snapshot_seed={})
    beat.tick()
    beat.tick("2026-04-30 23:15")
    beat.tick("2026-05-01 00:05")
    assert beat.told("snapshot_seed") == ["00:05 deferred(snapshot_running)"]
    assert beat.entry("snapshot_seed")["due_at"] == at("2026-05-01 00:15")
    beat.finish()
    beat.tick("2026-05-01 00:15")
    [job] = [job for job in beat.jobs() if job["kind"] == "snapshot_seed"]
    assert (job["group_key"], job["site_code"], job["target_code"], job["dedupe_key"]) == (
        "_seed", None, None, "snapshot_seed:2026-05-01")
    assert job["options"] == {"stat_date": "2026-05-01", "entry": "snapshot_seed"}
    beat.finish(outcome="success", result={"outcome": "success", "reason": "", "again_in": None, "progress": {"total": 3}})
    with beat.db.write() as conn:
        conn.execute(update(entries).where(entries.c.name == "snapshot").values(status="failed"))
    beat.later(minutes=1)
    assert beat.told("snapshot_seed")[-1] == "00:05 success" and beat.entry("snapshot_seed")["progress"] == {"total": 3}
    row = beat.entry("snapshot")
    assert (row["status"], row["due_at"]) == ("pending", at("2026-05-01 23:15"))
    assert len([run for run in beat.runs("snapshot") if run["outcome"] is None]) == 0


def test_s7_a_completed_day_makes_the_seed_a_success_at_once(database: Database) -> None:
    beat = beating(database, "2026-05-01 00:00", "snapshot_seed")
    complete(beat, DAY)
    beat.tick("2026-05-01 00:05")
    [run] = beat.runs("snapshot_seed")
    assert (run["outcome"], run["reason"], run["by_run"], beat.jobs()) == ("success", "already_completed", 7, [])


def test_s7_what_the_seeds_job_says_counts_a_deferral_too(database: Database) -> None:
    beat = beating(database, "2026-05-01 00:00", "snapshot_seed")
    complete(beat, DAY - timedelta(days=1))
    beat.tick("2026-05-01 00:05")
    beat.finish(outcome="deferred", result={"outcome": "deferred", "reason": "snapshot_running", "again_in": 600})
    beat.later(minutes=1)
    assert beat.told("snapshot_seed") == ["00:05 deferred(snapshot_running)"]
    assert beat.entry("snapshot_seed")["due_at"] == at("2026-05-01 00:16")


# -- the others -------------------------------------------------------------------------------------------------------


def test_s7_discovery_is_a_job_in_the_lane_of_each_site(database: Database) -> None:
    beat = beating(database, "2026-05-01 05:00", "discovery")
    beat.tick("2026-05-01 06:00")
    made = sorted((job["site_code"], job["group_key"], job["kind"], job["dedupe_key"], job["target_code"]) for job in beat.jobs())
    assert made == [(f"s{n}", f"g{n}", "discovery", f"discovery:s{n}", None) for n in (1, 2, 3)]
    with beat.db.write() as conn:
        conn.execute(update(jobs).where(jobs.c.site_code == "s2").values(status="failed", finished_at=beat.now, error_msg="no"))
    beat.finish(outcome="success")
    beat.later(minutes=1)
    beat.later(minutes=6)
    assert [job["site_code"] for job in beat.jobs(beat.runs("discovery")[-1]["run_id"])] == ["s2"]


def test_s7_the_cleanup_is_one_job_in_its_lane_and_a_failure_is_repeated_in_five_minutes(database: Database) -> None:
    beat = beating(database, "2026-05-01 03:00", "candidate_cleanup")
    beat.tick("2026-05-01 03:30")
    [job] = beat.jobs()
    assert (job["group_key"], job["site_code"], job["kind"]) == ("_cleanup", None, "candidate_cleanup")
    beat.finish(status="failed", error_msg="OSError: disk")
    beat.later(seconds=10)
    assert beat.told("candidate_cleanup") == ["03:30 failed(OSError: disk)"]
    assert beat.entry("candidate_cleanup")["due_at"] == at("2026-05-01 03:35:10")


def test_s7_vitals_ask_only_whom_they_must(database: Database) -> None:
    beat = beating(database, "2026-05-01 05:00", "vitals")
    with beat.db.write() as conn:
        now = db_moment(conn)
        conn.execute(update(rate_groups).where(rate_groups.c.key == "g1").values(pause_until=now + timedelta(hours=1)))
        conn.execute(insert(requests), [
            {"group_key": f"g{n}", "host": f"s{n}.example.org", "job_id": "j", "attempt": 1, "number": n, "url": "u", "status": 200,
             "started_at": now - timedelta(minutes=20), "ended_at": now - timedelta(minutes=20) + timedelta(seconds=1)}
            for n in (1, 2)])
    beat.tick("2026-05-01 05:30")
    [job] = beat.jobs()
    assert (job["site_code"], job["group_key"], job["kind"], job["priority"], job["hold_from"]) == ("s3", "g3", "vitals", 10, None)
    assert timedelta(minutes=29) < job["expires_at"] - job["enqueued_at"] <= timedelta(minutes=30)
    told = {row["site_code"]: (row["state"], row["reason"], row["status"], row["latency_sec"]) for row in beat.bench.rows(vitals)}
    assert told == {"s1": ("unknown", "paused", None, None), "s2": ("reachable", "", 200, 1.0)}
    beat.finish(outcome="success")
    beat.later(minutes=1)
    assert beat.told("vitals") == ["05:30 success"]


@pytest.mark.parametrize("pause", ["operator", "fleet"])
def test_s7_if_nothing_may_be_asked_vitals_need_no_job_at_all(database: Database, pause: str) -> None:
    beat = beating(database, "2026-05-01 05:00", "vitals")
    with beat.db.write() as conn:
        until = db_moment(conn) + timedelta(hours=1)
        if pause == "operator":
            conn.execute(update(rate_groups).values(operator_pause_until=until))
        else:
            conn.exec_driver_sql("DELETE FROM fleet")
            conn.execute(insert(rate_groups.metadata.tables["fleet"]).values(id=1, operator_pause_until=until))
    beat.tick("2026-05-01 05:30")
    assert (beat.told("vitals"), beat.jobs(), len(beat.bench.rows(vitals))) == (["05:30 success"], [], 3)


def test_s7_a_lane_that_is_busy_all_the_time_is_told_as_unknown(database: Database) -> None:
    beat = beating(database, "2026-05-01 05:00", "vitals")
    beat.tick("2026-05-01 05:30")
    with beat.db.write() as conn:
        conn.execute(update(jobs).where(jobs.c.site_code == "s1").values(expires_at=beat.now - timedelta(days=9)))
    assert beat.bench.ledger.expire() == 1
    beat.finish(outcome="success")
    beat.later(minutes=1)
    assert beat.told("vitals") == ["05:30 success"]
    assert [(row["site_code"], row["state"], row["reason"]) for row in beat.bench.rows(vitals)] == [("s1", "unknown", "busy")]


def test_sites_without_an_enabled_target_are_left_alone(database: Database) -> None:
    beat = beating(database, "2026-05-01 05:00", "vitals")
    with beat.db.write() as conn:
        conn.execute(update(targets).where(targets.c.site_code == "s1").values(enabled=False))
        conn.execute(update(sites).where(sites.c.site_code == "s2").values(base_url="not an address"))
    beat.tick("2026-05-01 05:30")
    assert sorted(job["site_code"] for job in beat.jobs()) == ["s2", "s3"]
    assert len(FLEET) == 3
