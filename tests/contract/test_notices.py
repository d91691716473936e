"""J15: dead letters and long pauses are told to a webhook, each once, and again if nobody said that it arrived."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any

import pytest

from config import clock
from config.errors import Evidence, HostCooldown
from config.settings import Settings
from models.base import FAR
from models.db import Database
from models.groups import fleet, rate_groups
from models.jobs import jobs
from models.notices import Notice, Notices
from models.operations import Operator, notices
from models.outcome import Ended, Tally, judge
from models.pacing import OperatorPacing
from models.statements import pauses
from routing.lanes.webhook import SIGNATURE, send
from tests.support.ledger import SMALL, Bench, in_thread, seed
from tests.support.receiver import receiver

ANN = Operator("ann@desk", "cli", "works")
URL = "https://hooks.example.org/T000/secret-part"


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database, Settings(webhook_url=URL, webhook_timeout_sec=10, webhook_retry_sec=30))


@pytest.fixture
def told(bench: Bench) -> Notices:
    """The notices of a worker that has seen the webhook for the first time just now."""
    found = Notices(bench.db, bench.settings, now=bench.clock)
    assert found.find() == 0
    return found


def fail(bench: Bench, target: str = "t1", error: Exception | None = None, **more: Any) -> str:
    started = bench.begin(target, max_attempts=1, **more)
    bench.settle(started, error or RuntimeError("no such host"))
    return started.claim.job_id


def test_a_dead_letter_is_told_once_with_its_facts(bench: Bench, told: Notices) -> None:
    bench.clock.advance(1)
    job_id = fail(bench, "t1")
    assert (told.find(), told.find()) == (1, 0)
    found = told.take()
    assert found is not None
    assert found.key == f"dead_letter:{job_id}:1"
    assert {name: found.document[name] for name in ("kind", "key", "job_id", "target_code", "group", "attempt", "error")} == {
        "kind": "dead_letter", "key": found.key, "job_id": job_id, "target_code": "t1", "group": "g1", "attempt": 1,
        "error": "RuntimeError: no such host"}
    assert found.document["text"] == f"crawl job {job_id} of t1 failed: RuntimeError: no such host"
    assert json.dumps(found.document)
    told.sent(found)
    bench.clock.advance(80_000)
    assert (told.find(), told.take()) == (0, None)


@pytest.mark.parametrize("fraction", [0.0, 0.4, 0.6, 0.9])
def test_what_fails_in_the_second_of_the_first_look_is_told(bench: Bench, fraction: float) -> None:
    bench.clock.advance(fraction)
    first = Notices(bench.db, bench.settings, now=bench.clock)
    assert first.find() == 0
    bench.clock.advance(0.05)
    fail(bench)
    assert first.find() == 1


def test_every_path_to_failed_is_covered(bench: Bench, told: Notices) -> None:
    """The reaper wrote this end, not a body; and a challenge that needs a person is a kind of its own."""
    bench.clock.advance(1)
    started = bench.begin("t1")
    bench.change(jobs, recoveries_row=2, recoveries=2)
    bench.clock.advance(61)
    bench.reaper.reap()
    challenged = bench.begin("t2")
    bench.change(jobs, jobs.c.job_id == challenged.claim.job_id, js_challenges=3)
    tally = {**vars(challenged.tally), "js_challenges": 3}
    error = HostCooldown(Evidence("js_challenge", 503, "http://s2.example.org/"))
    bench.ledger.settle(challenged.claim, judge(Ended(error=error), Tally(**tally), bench.limits), site_code="s2")
    assert told.find() == 2
    keys = {row["key"]: row["document"] for row in bench.rows(notices)}
    assert set(keys) == {f"dead_letter:{started.claim.job_id}:1", f"needs_operator:{challenged.claim.job_id}:1"}
    assert "abandoned after 3 restart recoveries" in keys[f"dead_letter:{started.claim.job_id}:1"]["error"]


def test_what_failed_before_the_webhook_was_set_is_not_told(bench: Bench) -> None:
    fail(bench)
    bench.clock.advance(600)
    first = Notices(bench.db, bench.settings, now=bench.clock)
    assert first.find() == 0
    bench.clock.advance(60)
    fail(bench, "t2")
    again = Notices(bench.db, bench.settings, now=bench.clock)  # a restart changes nothing
    assert again.find() == 1
    other = Notices(bench.db, bench.settings.model_copy(update={"webhook_url": URL + "/other"}), now=bench.clock)
    assert other.find() == 0


def test_what_is_older_than_a_day_is_neither_found_nor_sent(bench: Bench, told: Notices) -> None:
    bench.clock.advance(1)
    fail(bench)
    bench.clock.advance(86_401)
    assert told.find() == 0
    fail(bench, "t2")
    assert told.find() == 1
    bench.clock.advance(86_401)
    assert told.take() is None


def test_a_group_paused_for_over_an_hour_is_told_while_it_still_is(bench: Bench, told: Notices) -> None:
    now = bench.clock.now
    bench.change(rate_groups, rate_groups.c.key == "g1", paused_at=now, pause_until=now + timedelta(hours=6), pause_reason="405")
    bench.change(rate_groups, rate_groups.c.key == "g2", operator_paused_at=now, operator_pause_until=FAR,
                 operator_pause_reason="works")
    bench.change(rate_groups, rate_groups.c.key == "g3", paused_at=now, pause_until=now + timedelta(minutes=50))
    bench.change(fleet, fleet.c.id == 1, operator_paused_at=now, operator_pause_until=FAR, operator_pause_reason="move")
    bench.clock.advance(3_599)
    assert told.find() == 0
    bench.clock.advance(2)
    assert (told.find(), told.find()) == (3, 0)
    found = {}
    while (notice := told.take()) is not None:
        found[notice.document["group"]] = notice.document
    assert found["g1"]["pause_kind"] == "cooldown"
    assert found["g1"]["paused_until"].startswith("2026-11-30T20:00:00")
    assert "group g1 is paused since" in found["g1"]["text"]
    assert found["g2"]["paused_until"] is None
    assert "until somebody resumes (operator): works" in found["g2"]["text"]
    assert found["*"]["text"].startswith("all groups are paused")


def test_r9_a_pause_that_is_renewed_before_its_end_is_told_after_an_hour_and_once(bench: Bench, told: Notices) -> None:
    pacing = OperatorPacing(bench.db, bench.clock)
    began, found = bench.clock.now, []
    for _ in range(6):
        pacing.pause("g1", ANN, for_sec=3_000.0)
        pacing.pause_all(ANN, for_sec=3_000.0)
        found.append(told.find())
        bench.clock.advance(1_800)
    assert sum(found) == 2, "the group's and that of all"
    assert bench.group()["operator_paused_at"] == began
    bench.clock.advance(7_200)
    pacing.pause("g1", ANN, for_sec=3_000.0)
    assert bench.group()["operator_paused_at"] == bench.clock.now, "a pause after the end of another is a new one"


def test_c3_a_cooldown_on_top_of_another_began_with_the_first(bench: Bench) -> None:
    began = bench.clock.now
    bench.change(rate_groups, rate_groups.c.key == "g1", paused_at=began, pause_until=began + timedelta(seconds=30))
    bench.clock.advance(20)
    with bench.db.write() as conn:
        pauses.pause(conn, group="g1", delay_sec=60.0, kind="rate", reason="429", level=2, p_now=bench.clock.now)
    assert bench.group()["paused_at"] == began
    later = bench.clock.advance(61)
    with bench.db.write() as conn:
        pauses.pause(conn, group="g1", delay_sec=60.0, kind="rate", reason="429", level=3, p_now=later)
    assert bench.group()["paused_at"] == later


def test_a_try_that_did_not_arrive_is_repeated_with_growing_pauses(bench: Bench, told: Notices) -> None:
    bench.clock.advance(1)
    fail(bench)
    told.find()
    pauses = []
    for _ in range(9):
        assert told.take() is not None
        assert told.take() is None
        (row,) = bench.rows(notices)
        pauses.append((row["next_try_at"] - bench.clock.now).total_seconds())
        bench.clock.advance(pauses[-1])
    assert pauses[:5] == [40, 80, 160, 320, 640]
    assert max(pauses) <= 3_600


def test_two_workers_never_try_the_same_notice_at_once(bench: Bench, told: Notices) -> None:
    bench.clock.advance(1)
    fail(bench)
    fail(bench, "t2")
    asked = [in_thread(lambda: Notices(bench.db, bench.settings, now=bench.clock).find()) for _ in range(4)]
    assert sum(one.result(20) for one in asked) == 2
    taken = [in_thread(lambda: Notices(bench.db, bench.settings, now=bench.clock).take()) for _ in range(6)]
    found = [one.result(20) for one in taken]
    keys = [one.key for one in found if one is not None]
    assert len(keys) == len(set(keys))
    while (more := told.take()) is not None:  # a claim that met another one came back empty
        keys.append(more.key)
    assert sorted(keys) == sorted(set(keys))
    assert len(keys) == 2


def test_a_late_word_of_an_older_try_marks_nothing(bench: Bench, told: Notices) -> None:
    bench.clock.advance(1)
    fail(bench)
    told.find()
    first = told.take()
    bench.clock.advance(40)
    second = told.take()
    assert first is not None
    assert second is not None
    assert (first.tries, second.tries) == (1, 2)
    told.sent(first)
    assert bench.rows(notices)[0]["sent_at"] is None
    told.sent(second)
    assert bench.rows(notices)[0]["sent_at"] == bench.clock.now


def test_no_password_in_an_error_leaves_the_house(bench: Bench, told: Notices) -> None:
    bench.clock.advance(1)
    fail(bench, error=RuntimeError("cannot reach http://me:hush@proxy.example.org/"))
    told.find()
    found = told.take()
    assert found is not None
    assert "hush" not in json.dumps(found.document)


NOTICE = Notice("dead_letter:j:1", 1, {"kind": "dead_letter", "key": "dead_letter:j:1", "text": "公告 failed"})


def test_a_notice_is_a_signed_post_with_its_key() -> None:
    with receiver() as there:
        url = there.url("/hook?token=t", user="me:h%40sh@")
        assert send(url, NOTICE, secret="s3", limit_sec=5) is None
        ((path, headers, body),) = there.got
    assert path == "/hook?token=t"
    assert headers["idempotency-key"] == NOTICE.key
    assert headers["content-type"].startswith("application/json")
    assert headers["authorization"] == "Basic bWU6aEBzaA=="
    assert headers[SIGNATURE.lower()] == "sha256=" + hmac.new(b"s3", body, hashlib.sha256).hexdigest()
    assert json.loads(body) == NOTICE.document
    assert "公告" in body.decode()


@pytest.mark.parametrize("answer", [302, 400, 500])
def test_whatever_is_no_2xx_did_not_arrive_and_a_redirect_is_not_followed(answer: int) -> None:
    with receiver(answer) as there:
        assert send(there.url(), NOTICE, secret=None, limit_sec=5) == f"status {answer}"
        assert len(there.got) == 1
        assert SIGNATURE.lower() not in there.got[0][1]


def test_a_server_that_drips_its_answer_is_cut_off_at_the_limit() -> None:
    with receiver("drip") as there:
        taken = clock.Stopwatch()
        assert send(there.url(), NOTICE, secret=None, limit_sec=0.5) == "no answer within 0.5 s"
        assert taken.elapsed() < 5


def test_nobody_there_is_a_word_without_the_address() -> None:
    with receiver() as there:
        url = there.url("/secret-part")
    assert send(url, NOTICE, secret=None, limit_sec=2) == "ConnectionRefusedError"
