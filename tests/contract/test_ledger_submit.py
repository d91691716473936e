"""Submitting on both databases: what is stored, what is refused, whose transaction it is (rules J1, J3)."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from config.errors import BadInput
from config.settings import Settings
from models.db import Database
from models.groups import lane_wake
from models.jobs import jobs
from models.ledger import NewJob
from models.sites import targets
from routing import dispatch
from tests.support.ledger import SMALL, START, Bench, held_group, in_thread, seed


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def test_j1_a_job_is_queued_in_the_lane_of_its_targets_site(bench: Bench) -> None:
    made = bench.submit("t2", priority=7, force=True, options={"max_pages": 3}, deadline_sec=60.0)
    row = bench.job(made.job_id)
    assert (made.created, made.group, made.warnings) == (True, "g2", ())
    assert re.fullmatch(r"[0-9a-f]{12}", made.job_id)
    expected = {
        "status": "queued", "group_key": "g2", "site_code": "s2", "target_code": "t2", "priority": 7, "force": True,
        "options": {"max_pages": 3}, "deadline_sec": 60.0, "source": "manual", "kind": "crawl", "attempt": 0,
        "queue_at": START, "enqueued_at": START, "run_after": None, "max_attempts": 3, "error_msg": ""}
    assert {name: row[name] for name in expected} == expected


def test_j1_an_unknown_target_stores_nothing(bench: Bench) -> None:
    before = bench.everything()
    with pytest.raises(BadInput, match="unknown target 'nowhere'"):
        bench.submit("nowhere")
    assert bench.everything() == before


def test_j1_an_unknown_target_is_told_the_nearest_one(bench: Bench) -> None:
    with pytest.raises(BadInput, match="unknown target 't1c'; did you mean 't1"):
        dispatch.submit(bench.db, bench.settings, "t1c")
    assert bench.rows(jobs) == []


@pytest.mark.parametrize("given", [
    {"priority": 2_000_000}, {"max_attempts": 0}, {"job_id": ""}, {"job_id": "x" * 65}, {"run_after_sec": 1e12},
])
def test_j1_a_value_out_of_range_stores_nothing(bench: Bench, given: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        dispatch.submit(bench.db, bench.settings, "t1", **given)  # type: ignore[arg-type]
    assert bench.rows(jobs) == []


def test_j1_a_given_id_is_kept_and_an_id_that_exists_answers_its_job(bench: Bench) -> None:
    first = bench.submit("t1", job_id="x" * 64)
    again = bench.submit("t2", job_id="x" * 64)
    assert (first.job_id, first.created) == ("x" * 64, True)
    assert (again.job_id, again.created, again.group) == ("x" * 64, False, "g1")
    assert len(bench.rows(jobs)) == 1


def test_j1_a_finished_job_answers_for_its_id_too(bench: Bench) -> None:
    started = bench.begin("t1", job_id="kept")
    bench.settle(started)
    assert bench.submit("t1", job_id="kept").created is False
    assert bench.job("kept")["status"] == "done"


@pytest.mark.parametrize("seconds", [0.0, -5.0])
def test_j1_negative_pages_and_delays_count_as_nothing(bench: Bench, seconds: float) -> None:
    made = bench.submit("t1", resume_from_page=-3, delay_sec=seconds)
    row = bench.job(made.job_id)
    assert (row["resume_from_page"], row["last_completed_page"]) == (0, 0)
    assert bench.claim().job_id == made.job_id


def test_j1_a_delay_counts_from_the_databases_now(bench: Bench) -> None:
    made = bench.submit("t1", delay_sec=90.0, expires_sec=300.0)
    row = bench.job(made.job_id)
    assert row["run_after"] == START + timedelta(seconds=90)
    assert row["expires_at"] == START + timedelta(seconds=300)
    assert bench.submit("t1", run_after=START + timedelta(hours=1)).created


def test_j1_a_job_that_resumes_behind_a_page_starts_there(bench: Bench) -> None:
    started = bench.begin("t1", resume_from_page=4)
    assert (started.resume_from_page, started.last_completed_page) == (4, 4)
    assert bench.attempt(started.claim.job_id)["from_page"] == 4


def test_j1_a_disabled_target_is_accepted_with_a_warning(bench: Bench) -> None:
    bench.change(targets, targets.c.target_code == "t1", enabled=False)
    made = bench.submit("t1")
    assert (made.created, made.warnings) == (True, ("target t1 is disabled",))


def test_j1_a_job_needs_a_target_or_a_group(bench: Bench) -> None:
    with pytest.raises(BadInput, match="target or a group"):
        bench.ledger.submit(None, NewJob(kind="export"))


def test_j1_a_submit_inside_a_transaction_is_stored_only_with_it(bench: Bench) -> None:
    class Rolled(Exception):
        pass

    with pytest.raises(Rolled), bench.db.write() as conn:
        bench.submit("t1", conn=conn)
        raise Rolled
    assert (bench.rows(jobs), bench.rows(lane_wake)) == ([], [])
    with bench.db.write() as conn:
        made = bench.submit("t1", conn=conn)
    assert bench.claim().job_id == made.job_id


def test_j1_several_submits_can_share_a_transaction(bench: Bench) -> None:
    with bench.db.write() as conn:
        made = [bench.submit(code, conn=conn).job_id for code in ("t1", "t2", "t3")]
    assert {claim.job_id for claim in bench.claims()} == set(made)


def test_j1_a_submit_needs_no_lock_that_others_hold(bench: Bench) -> None:
    if bench.db.dialect == "sqlite":
        pytest.skip("SQLite has one writer at a time (rule D3)")
    with held_group(bench.db, "g1"):
        made = in_thread(lambda: bench.submit("t1")).result(timeout=3)
    assert made.created


def test_j1_a_lane_of_its_own_needs_no_target(bench: Bench) -> None:
    made = bench.ledger.submit(None, NewJob(kind="export", group="_export"))
    claim = bench.claim()
    assert (claim.job_id, claim.group, claim.kind, claim.target_code) == (made.job_id, "_export", "export", None)


def test_j3_a_second_submit_answers_with_the_queued_job(bench: Bench) -> None:
    first = bench.submit("t1", dedupe_key="crawl:t1")
    before = bench.everything()
    again = bench.submit("t1", dedupe_key="crawl:t1", priority=1)
    assert (again.job_id, again.created, again.group) == (first.job_id, False, "g1")
    assert bench.everything() == before, "a submit that stored nothing wakes nobody"


def test_j3_a_second_submit_answers_with_the_running_job(bench: Bench) -> None:
    started = bench.begin("t1", dedupe_key="crawl:t1")
    assert bench.submit("t1", dedupe_key="crawl:t1").job_id == started.claim.job_id


@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
def test_j3_a_finished_job_does_not_answer_for_its_key(bench: Bench, end: str) -> None:
    started = bench.begin("t1", dedupe_key="crawl:t1", max_attempts=1)
    if end == "cancelled":
        bench.ledger.cancel(started.claim.job_id)
    bench.settle(started, None if end == "done" else ValueError("x"))
    again = bench.submit("t1", dedupe_key="crawl:t1")
    assert again.created
    assert again.job_id != started.claim.job_id


def test_j3_jobs_without_a_key_never_answer_for_each_other(bench: Bench) -> None:
    assert bench.submit("t1").job_id != bench.submit("t1").job_id


def test_j3_again_leaves_the_key_out(bench: Bench) -> None:
    made = [dispatch.submit(bench.db, bench.settings, "t1", dedupe_key="crawl:t1", again=again).created
            for again in (False, True, False)]
    assert made == [True, True, False]


def test_j3_the_id_answers_before_the_key(bench: Bench) -> None:
    by_key = bench.submit("t1", dedupe_key="crawl:t1")
    by_id = bench.submit("t2", job_id="mine")
    assert bench.submit("t1", dedupe_key="crawl:t1", job_id="mine").job_id == by_id.job_id
    assert bench.submit("t1", dedupe_key="crawl:t1", job_id="other").job_id == by_key.job_id


@pytest.mark.parametrize(("kind", "force", "key"), [
    ("crawl", False, "crawl:t1"), ("crawl", True, "crawl:t1:force"), ("snapshot", True, "snapshot:t1"),
])
def test_j3_the_keys_that_surfaces_use(kind: str, force: bool, key: str) -> None:
    assert dispatch.default_key(kind, "t1", force=force) == key


def test_j3_of_many_submits_at_once_one_is_stored(bench: Bench) -> None:
    asked = [in_thread(lambda: bench.submit("t1", dedupe_key="crawl:t1")) for _ in range(8)]
    made = [each.result(timeout=20) for each in asked]
    assert sum(each.created for each in made) == 1
    assert len({each.job_id for each in made}) == 1
    assert len(bench.rows(jobs)) == 1


@pytest.mark.parametrize(("target", "more"), [
    ("t1", {"resume_from_page": 2**31}), ("t1", {"resume_from_page": 10**20}), ("t1", {"max_attempts": 2**31}),
    ("t1", {"deadline_sec": float("inf")}), ("t1", {"deadline_sec": float("nan")}), ("t1", {"deadline_sec": 1e300}),
    ("t\0", {}), ("\ud800", {}),
])
def test_j1_what_no_column_holds_is_refused_with_a_sentence(bench: Bench, target: str, more: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"out of range|at most|unknown target"):
        dispatch.submit(bench.db, bench.settings, target, **more)
    assert bench.rows(jobs) == []


def test_the_settings_say_how_many_attempts_a_job_has(database: Database) -> None:
    seed(database, SMALL)
    bench = Bench(database, Settings(max_attempts=5))
    assert bench.job(bench.submit("t1").job_id)["max_attempts"] == 5
    assert bench.job(bench.submit("t1", max_attempts=2).job_id)["max_attempts"] == 2
