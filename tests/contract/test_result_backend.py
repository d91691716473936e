"""`AsyncResult` reads the job's own row in every state, and a result is stored by settling (spec 3, rules J9, J12, J18)."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, states
from celery.exceptions import TaskRevokedError
from celery.exceptions import TimeoutError as CeleryTimeout
from celery.result import AsyncResult
from sqlalchemy.exc import OperationalError

from config.clock import Stopwatch
from config.errors import Cancelled, JobFailed, JobWaits, Parked, PermanentJobError
from config.settings import Settings, clear_settings, use_settings
from models import db, queries
from models.attempt import Attempt, current_attempt, enter
from models.claim import Commit
from models.db import Database
from models.ledger import no_clock
from models.outcome import Ended
from models.result_backend import RatelaneBackend
from tests.support.ledger import SMALL, Bench, Clock, objection, seed


@pytest.fixture
def bench(database: Database, tmp_path: Path) -> Iterator[Bench]:
    settings = use_settings(Settings(home=tmp_path, database_url=database.url, broker_url="memory://"))
    db.after_fork()
    seed(database, SMALL)
    yield Bench(database, settings)
    enter(None)
    db.get_database().dispose()
    db.after_fork()
    clear_settings()


@pytest.fixture
def app(bench: Bench) -> Celery:
    from config.celery import app

    return app


def queued(bench: Bench) -> str:
    return bench.submit("t1").job_id


def handed_back(bench: Bench) -> str:
    bench.submit("t1")
    claim = bench.claim()
    bench.ledger.hand_back(*claim[:2], "g1")
    return claim.job_id


def running(bench: Bench) -> str:
    return bench.begin("t1").claim.job_id


def progressing(bench: Bench) -> str:
    claim = bench.begin("t1").claim
    bench.ledger.commit(*claim[:2], "g1", Commit(progress={"page": 2, "of": 9}))
    return claim.job_id


def ended(error: BaseException | None = None, **more: Any) -> Callable[[Bench], str]:
    def end(bench: Bench) -> str:
        started = bench.begin("t1", **more)
        bench.settle(started, error, result={"items": 3})
        return started.claim.job_id

    return end


def lost(bench: Bench) -> str:
    started = bench.begin("t1")
    bench.clock.advance(61)
    bench.reaper.reap()
    return started.claim.job_id


def cancelled(bench: Bench) -> str:
    made = bench.submit("t1")
    bench.ledger.cancel(made.job_id)
    return made.job_id


STATES: dict[str, tuple[Callable[[Bench], str], str, Any]] = {
    "an unknown id": (lambda bench: "nowhere", "PENDING", None),
    "queued": (queued, "PENDING", None),
    "handed back": (handed_back, "PENDING", None),
    "running": (running, "STARTED", None),
    "running with progress": (progressing, "PROGRESS", {"page": 2, "of": 9}),
    "after a failure": (ended(ValueError("no")), "RETRY", JobWaits("ValueError: no")),
    "cooling": (ended(objection()), "RETRY", JobWaits("cooldown_abort; auto_retry 1/12")),
    "parked": (ended(Parked("quiet_window", 9.0)), "RETRY", JobWaits("quiet_window")),
    "after a lost worker": (lost, "RETRY", JobWaits("restart_during_run (recovery attempt 1/3)")),
    "done": (ended(), "SUCCESS", {"items": 3}),
    "failed": (ended(PermanentJobError("gone")), "FAILURE", JobFailed("PermanentJobError: gone")),
    "failed in the end": (ended(ValueError("no"), max_attempts=1), "FAILURE", JobFailed("ValueError: no")),
    "cancelled in the queue": (cancelled, "REVOKED", TaskRevokedError("cancelled")),
    "cancelled while it ran": (ended(Cancelled()), "REVOKED", TaskRevokedError("cancelled")),
}


def test_w71_waiting_is_told_apart_from_unknown_and_an_end_never_expires(app: Celery, bench: Bench) -> None:
    """W71: PENDING may be an unknown id; the job's own document says which, and a result is true as long as it is kept."""
    job_id = ended()(bench)
    bench.clock.advance(25 * 86_400)
    assert app.AsyncResult(job_id).state == "SUCCESS"
    assert app.AsyncResult("0123456789ab").state == "PENDING"
    with bench.db.look() as conn:
        assert queries.job(conn, "0123456789ab") is None
        found = queries.job(conn, job_id)
    assert found is not None and found["status"] == "done"


@pytest.mark.parametrize("name", list(STATES))
def test_an_async_result_tells_every_state(app: Celery, bench: Bench, name: str) -> None:
    reach, state, expected = STATES[name]
    job_id = reach(bench)
    found = AsyncResult(job_id, app=app)
    assert (found.state, found.id) == (state, job_id)
    result = found.result
    if isinstance(expected, Exception):
        assert (type(result), str(result)) == (type(expected), str(expected))
        again = pickle.loads(pickle.dumps(result))
        assert (type(again), str(again)) == (type(expected), str(expected))
    else:
        assert result == expected
    assert found.ready() == (state in states.READY_STATES)
    assert (found.date_done is not None) == found.ready()


def test_get_answers_the_result_and_raises_the_failure(app: Celery, bench: Bench) -> None:
    assert AsyncResult(ended()(bench), app=app).get(timeout=5) == {"items": 3}
    with pytest.raises(JobFailed, match="PermanentJobError: gone"):
        AsyncResult(ended(PermanentJobError("gone"))(bench), app=app).get(timeout=5)
    with pytest.raises(TaskRevokedError):
        AsyncResult(cancelled(bench), app=app).get(timeout=5)


def test_get_waits_for_the_end_and_asks_twice_a_second(
    app: Celery, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, looks = bench.begin("t1"), []
    look = app.backend.get_task_meta

    def look_then_settle(job_id: str) -> dict[str, Any]:
        looks.append(look(job_id))
        if len(looks) == 3:
            bench.settle(started, result={"items": 3})
        return looks[-1]

    monkeypatch.setattr(app.backend, "get_task_meta", look_then_settle)
    waiting = Stopwatch()
    assert AsyncResult(started.claim.job_id, app=app).get(timeout=10) == {"items": 3}
    assert (len(looks), waiting.elapsed() >= 1.5) == (4, True)
    with pytest.raises(CeleryTimeout):
        AsyncResult(queued(bench), app=app).get(timeout=0.1)


def test_a_failed_job_has_its_traceback(app: Celery, bench: Bench) -> None:
    found = AsyncResult(ended(PermanentJobError("gone"))(bench), app=app)
    assert found.traceback == "Traceback"
    assert AsyncResult(ended()(bench), app=app).traceback is None


def test_forgetting_forgets_nothing(app: Celery, bench: Bench) -> None:
    job_id = ended()(bench)
    AsyncResult(job_id, app=app).forget()
    assert AsyncResult(job_id, app=app).result == {"items": 3}


def test_nothing_is_kept_between_two_looks(app: Celery, bench: Bench) -> None:
    started = bench.begin("t1")
    assert AsyncResult(started.claim.job_id, app=app).state == "STARTED"
    bench.settle(started)
    assert AsyncResult(started.claim.job_id, app=app).state == "SUCCESS"


def test_a_chord_of_lane_jobs_is_refused_with_a_sentence(app: Celery) -> None:
    with pytest.raises(NotImplementedError, match="its polling task would wait in a lane"):
        app.backend.ensure_chords_allowed()


def test_the_backends_name_has_no_secrets(app: Celery) -> None:
    assert isinstance(app.backend, RatelaneBackend)
    assert app.backend.as_uri() == "ratelane://"


def attempt_of(bench: Bench) -> Attempt:
    """Start an attempt in this thread, as a task's body would have it."""
    found = Attempt(bench.ledger, bench.begin("t1"))
    enter(found)
    return found


def test_a_success_settles_the_attempt_that_this_thread_runs(app: Celery, bench: Bench) -> None:
    attempt = attempt_of(bench)
    app.backend.store_result(attempt.claim.job_id, "no dict", states.SUCCESS)
    row = bench.job(attempt.claim.job_id)
    assert (row["status"], row["result"], attempt.settled) == ("done", {"ok": True}, True)


def test_a_failure_settles_what_the_body_decided(app: Celery, bench: Bench) -> None:
    attempt = attempt_of(bench)
    error = PermanentJobError("gone")
    attempt.decide(Ended(error=error))
    app.backend.store_result(attempt.claim.job_id, error, states.FAILURE)
    assert bench.job(attempt.claim.job_id)["status"] == "failed"


@pytest.mark.parametrize("state", ["STARTED", "RETRY", "REVOKED", "REJECTED", "IGNORED"])
def test_what_the_ledger_writes_elsewhere_is_left_alone(app: Celery, bench: Bench, state: str) -> None:
    attempt = attempt_of(bench)
    before = bench.everything()
    app.backend.store_result(attempt.claim.job_id, {"pid": 7, "hostname": "w"}, state)
    assert bench.everything() == before


@pytest.mark.parametrize("state", ["SUCCESS", "FAILURE", "PROGRESS"])
def test_a_result_of_another_job_or_without_a_claim_changes_nothing(app: Celery, bench: Bench, state: str) -> None:
    attempt_of(bench)
    other = bench.begin("t2").claim.job_id
    before = bench.everything()
    app.backend.store_result(other, {"n": 1}, state)
    enter(None)
    assert current_attempt() is None
    app.backend.store_result(other, {"n": 1}, state)
    assert bench.everything() == before


def test_j12_update_state_is_progress(app: Celery, bench: Bench) -> None:
    attempt = attempt_of(bench)
    app.backend.store_result(attempt.claim.job_id, {"page": 3}, "PROGRESS")
    assert AsyncResult(attempt.claim.job_id, app=app).info == {"page": 3}


def test_j7_a_late_success_changes_nothing_and_does_not_raise(app: Celery, bench: Bench) -> None:
    attempt = attempt_of(bench)
    bench.clock.advance(61)
    bench.reaper.reap()
    before = bench.everything()
    app.backend.store_result(attempt.claim.job_id, {"late": True}, states.SUCCESS)
    assert bench.everything() == before
    assert (attempt.settled, attempt.stale) == (False, True)


class Outage:
    """Stands before a ledger's settle: the connection breaks a number of times, before or after the write arrived."""

    def __init__(self, bench: Bench, times: int, *, arrives: bool) -> None:
        self.settle, self.left, self.arrives = bench.ledger.settle, times, arrives

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.left == 0:
            return self.settle(*args, **kwargs)
        self.left -= 1
        if self.arrives:
            self.settle(*args, **kwargs)
        raise OperationalError("settle", {}, ConnectionError("server closed the connection"))


@pytest.mark.parametrize("arrives", [False, True])
def test_j18_a_success_is_repeated_until_the_database_has_answered(
    app: Celery, bench: Bench, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("models.attempt.clock.pause", waits.append)
    attempt = attempt_of(bench)
    monkeypatch.setattr(bench.ledger, "settle", Outage(bench, 1 if arrives else 5, arrives=arrives))
    app.backend.store_result(attempt.claim.job_id, {"n": 1}, states.SUCCESS)
    row = bench.job(attempt.claim.job_id)
    assert (row["status"], row["result"], row["attempt"], attempt.settled) == ("done", {"n": 1}, 1, True)
    assert waits
    assert all(0 < wait <= 2 for wait in waits)


def test_a_job_read_by_the_real_clock_has_the_same_meta(app: Celery, database: Database, bench: Bench) -> None:
    real = Bench(database, bench.settings, no_clock)
    started = real.begin("t3")
    real.settle(started, result={"n": 1})
    assert isinstance(bench.clock, Clock)
    assert AsyncResult(started.claim.job_id, app=app).date_done == real.job(started.claim.job_id)["finished_at"]
