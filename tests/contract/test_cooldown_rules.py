"""What a cooldown leaves behind, on both databases: levels, blocks that bodies only tell of, decay (rules C3, C4, C5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from config.errors import PartialCrawl, PermanentJobError
from config.settings import Settings
from models.claim import Commit, Started
from models.db import Database
from models.groups import cooldowns
from models.jobs import INTERVAL, jobs
from models.ledger import NewJob
from models.pacing import Pacing
from models.reaper import Reaper
from models.sites import interval_history, targets
from tests.support.ledger import Bench, objection, seed

SHAPE = {"gd": {"gd_site": ["gd_news", "gd_other"]}, "hn": {"hn_site": ["hn_news"]}}
MARKED = "host_cooldown: rate 429 http://gd.example.org/list"


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SHAPE)
    return Bench(database)


def asked(bench: Bench, started: Started, *answers: tuple[float, int | None]) -> None:
    """Commit requests of an attempt: how many seconds ago each ended, and with which status."""
    rows = tuple(
        {"b_number": number, "b_host": "gd", "b_url": "http://gd/x", "b_started": age, "b_ended": age, "b_status": status,
         "b_bytes": 1, "b_error": "", "b_interval": 1.0} for number, (age, status) in enumerate(answers, 1))
    bench.ledger.commit(started.claim.job_id, started.claim.attempt, started.claim.group,
                        Commit(requests=rows, response_age_sec=answers[-1][0], response_interval_sec=1.0))


# --- C3: levels -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wait", "answers", "level"), [
    # behind the pause, by so many seconds; then what this attempt was answered, as ages before the objection
    (0, [(0, 429)], 2),
    (7_200, [(0, 429)], 2),  # silence proves nothing: the objection itself is no answer
    (7_200, [(5_401, 200), (0, 429)], 2),  # answered, but not for half an hour
    (7_200, [(5_399, 200), (0, 429)], 1),
    (7_200, [(10, 404), (0, 429)], 1),
    (7_200, [(10, 503), (5, None), (0, 429)], 2),  # errors are no answers
])
def test_c3_half_an_hour_of_answered_requests_forgets_the_level(
    database: Database, wait: float, answers: list[tuple[float, int | None]], level: int
) -> None:
    seed(database, SHAPE)
    bench = Bench(database, Settings(cooldown_repeat_factor=2.0))
    bench.settle(bench.begin("gd_news"), objection())
    bench.clock.advance(600 + wait)
    started = bench.start(bench.claim())
    asked(bench, started, *answers)
    bench.settle(started, objection(), response_age_sec=0.0, response_interval_sec=1.0)
    row = bench.group("gd")
    assert row["cooldown_level"] == level
    assert row["pause_until"] == bench.clock.now + timedelta(seconds=600 * 2 ** (level - 1))


def test_c3_answers_of_earlier_attempts_forget_the_level_too(database: Database) -> None:
    seed(database, SHAPE)
    bench = Bench(database, Settings(cooldown_repeat_factor=2.0))
    bench.settle(bench.begin("gd_news"), objection())
    bench.clock.advance(600 + 1_900)
    bench.settle(bench.start(bench.claim()), result={}, response_age_sec=0.0, response_interval_sec=1.0)
    bench.clock.advance(86_400)
    bench.settle(bench.begin("gd_other"), objection())
    assert bench.group("gd")["cooldown_level"] == 1


def test_c3_the_third_challenge_pauses_and_the_fourth_needs_an_operator(bench: Bench) -> None:
    job_id = bench.submit("gd_news").job_id
    for number in range(4):
        started = bench.start(bench.claim())
        settled = bench.settle(started, objection("js_challenge", 412))
        assert settled.status == ("failed" if number == 3 else "queued")
        assert bench.group("gd")["pause_until"] == bench.clock.now + timedelta(hours=6)
        bench.clock.advance(6 * 3_600)
    row = bench.job(job_id)
    assert row["error_msg"] == "needs_operator | host_cooldown: js_challenge 412 http://s1.example.org/list"
    assert [step["new_interval_sec"] for step in bench.rows(interval_history)] == [11, 13, 15, 17]
    assert row["result"]["cooldown_interval_adjustment"]["new_interval_sec"] == 17


# --- C4: blocks that a body only tells of ---------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "status"), [
    ({"result": {"steps": [{"note": f"page 3: {MARKED}"}], "outcome": "truncated"}}, "done"),
    ({"result": MARKED}, "done"),
    ({"result": {"status": "aborted", "abort_reason": "cooldown", "last_completed_page": 4}}, "done"),
    ({"error": PermanentJobError(f"gave up | {MARKED}")}, "failed"),
    ({"error": ValueError(MARKED)}, "queued"),
    ({"error": PartialCrawl("page 2", {"reasons": [MARKED]})}, "queued"),
])
def test_c4_a_block_that_a_body_tells_of_pauses_and_grows_without_a_retry(
    bench: Bench, ending: dict[str, Any], status: str
) -> None:
    started = bench.begin("gd_news")
    bench.clock.advance(3)
    settled = bench.settle(started, ending.get("error"), result=ending.get("result"))
    row = bench.job(started.claim.job_id)
    assert settled.status == row["status"] == status
    assert (row["cooldown_retries"], row["failures"]) == (0, 1 if status == "queued" else 0)
    assert bench.group("gd")["pause_until"] == bench.clock.now + timedelta(seconds=600)
    assert bench.target("gd_news")["grown_interval_sec"] == 11
    assert "auto_retry" not in row["result"]
    assert row["result"]["cooldown_interval_adjustment"] == {
        "target_code": "gd_news", "old_interval_sec": 10, "new_interval_sec": 11, "status": "updated"}
    (logged,) = bench.rows(cooldowns)
    assert logged["job_id"] == started.claim.job_id


def test_c4_an_aborted_result_keeps_the_page_that_it_names_under_either_name(bench: Bench) -> None:
    started = bench.begin("gd_news")
    bench.settle(started, result={"status": "aborted", "abort_reason": "cooldown", "last_completed_page": 4, "n": 1})
    found = bench.job(started.claim.job_id)["result"]
    assert (found["status"], found["reason"], found["checkpoint_page"], found["n"]) == ("aborted", "cooldown", 4, 1)


def test_c4_a_done_job_keeps_its_own_result_beside_what_the_block_did(bench: Bench) -> None:
    started = bench.begin("hn_news")
    loop: dict[str, Any] = {"outcome": "complete", "note": MARKED, "rate": float("nan")}
    loop["again"] = [loop]
    bench.settle(started, result=loop)
    row = bench.job(started.claim.job_id)
    assert (row["status"], row["outcome"]) == ("done", "complete")
    assert row["result"] | {"again": None} == {
        "outcome": "complete", "note": MARKED, "rate": None, "again": None, "host_cooldown": MARKED}
    assert "…" in str(row["result"]["again"]), "what contains itself ends somewhere"


def test_c4_texts_of_items_pause_nothing(bench: Bench) -> None:
    started = bench.begin("gd_news")
    bench.settle(started, result={"items": [{"title": MARKED}], "last": {"text": MARKED, "title": MARKED}})
    assert bench.group("gd")["pause_until"] is None
    assert bench.rows(cooldowns) == []


# --- C5: decay ------------------------------------------------------------------------------------------------------


def decaying(database: Database, days: int = 2) -> Bench:
    """Return a bench whose targets gd_news and gd_other stand at 13 s, over a baseline of 10 s."""
    seed(database, SHAPE)
    bench = Bench(database, Settings(interval_decay_after_days=days))
    for target in ("gd_news", "gd_news", "gd_other", "gd_other"):
        bench.settle(bench.begin(target), error=PermanentJobError(MARKED))
        bench.clock.advance(600)
    return bench


def test_c5_a_grown_interval_walks_back_after_clean_days_and_is_cleared_at_the_baseline(database: Database) -> None:
    bench = decaying(database)
    bench.clock.advance(2 * 86_400 - 1_200)
    bench.reaper.sweep()
    assert bench.target("gd_news")["grown_interval_sec"] == 13, "its group was blocked since, by another target"
    bench.clock.advance(1_200)
    steps = []
    for _ in range(3):
        Reaper(bench.ledger, bench.limits).sweep()
        Reaper(bench.ledger, bench.limits).sweep()  # another worker's: nothing is left for it
        steps.append((bench.target("gd_news")["grown_interval_sec"], bench.target("gd_other")["grown_interval_sec"]))
        bench.clock.advance(2 * 86_400 + 1)
    assert steps == [(11, 11), (None, None), (None, None)]
    rows = [row for row in bench.rows(interval_history) if row["target_code"] == "gd_news"][2:]
    assert [(row["old_interval_sec"], row["new_interval_sec"], row["cause"], row["job_id"]) for row in rows] == [
        (13, 11, "decay", None), (11, 10, "decay", None)]


def test_c5_a_cooldown_within_the_clean_days_stops_the_decay(database: Database) -> None:
    bench = decaying(database)
    bench.clock.advance(86_400)
    bench.settle(bench.begin("gd_other"), objection())
    bench.clock.advance(86_400 + 3_600)
    bench.reaper.sweep()
    assert bench.target("gd_news")["grown_interval_sec"] == 13


def test_c5_without_the_setting_an_interval_never_walks_back(database: Database) -> None:
    bench = decaying(database, days=0)
    bench.clock.advance(365 * 86_400)
    bench.reaper.sweep()
    assert bench.target("gd_news")["grown_interval_sec"] == 13


def test_c5_of_two_workers_that_found_the_same_target_one_takes_the_step(database: Database) -> None:
    bench = decaying(database)
    bench.clock.advance(3 * 86_400)
    pacing, at = Pacing(bench.settings), bench.ledger.at()
    with bench.db.read() as conn:
        assert pacing.clean(conn, **at) == ["gd_news", "gd_other"]
    taken = []
    for _ in range(2):
        with bench.db.write() as conn:
            taken.append(pacing.decay(conn, "gd_news", **at))
    assert taken == [True, False]


def test_c5_a_step_back_ends_at_a_baseline_that_was_raised_meanwhile(database: Database) -> None:
    bench = decaying(database)
    bench.change(targets, targets.c.target_code == "gd_news", interval_sec=12.0)
    assert bench.target("gd_news")["grown_interval_sec"] == 13
    bench.clock.advance(3 * 86_400)
    bench.reaper.sweep()
    assert bench.target("gd_news")["grown_interval_sec"] is None, "one step back is the new baseline"


def test_r8_a_job_without_a_target_keeps_the_largest_interval_of_its_site(bench: Bench) -> None:
    bench.change(targets, targets.c.target_code == "gd_other", grown_interval_sec=13.0)
    bench.change(targets, targets.c.target_code == "hn_news", interval_sec=99.0)
    for site in ("gd_site", "hn_site", "gone"):
        bench.ledger.submit(None, NewJob(kind="ping", site_code=site, group="_tasks", job_id=site))
    with bench.db.read() as conn:
        assert dict(conn.execute(select(jobs.c.job_id, INTERVAL)).all()) == {"gd_site": 13, "hn_site": 99, "gone": 0}
