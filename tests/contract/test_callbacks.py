"""The row of a job is the outbox of its callbacks (J2): every end is told at least once, whoever ended it."""

from __future__ import annotations

import threading

import pytest

from models.db import Database
from models.jobs import jobs
from models.ledger.telling import TURN_SEC, Ended
from tests.support.ledger import SMALL, Bench, seed

CALLBACKS = {"link": [{"task": "t"}], "link_error": [{"task": "e"}]}


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


def told(bench: Bench) -> list[tuple[str, int, str]]:
    """Tell everything once; return job, attempt and state of each."""
    found: list[Ended] = []
    bench.ledger.tell(10, found.append)
    return [(one.job_id, one.attempt, one.status) for one in found]


def test_every_way_to_end_is_told_once(bench: Bench) -> None:
    done = bench.begin("t1", callbacks=CALLBACKS)
    bench.settle(done, result={"n": 1})
    assert bench.ledger.has_callbacks_to_send()
    failed = bench.begin("t2", callbacks=CALLBACKS, max_attempts=1)
    bench.settle(failed, RuntimeError("x"))
    cancelled = bench.submit("t3", callbacks=CALLBACKS).job_id
    bench.ledger.cancel(cancelled)
    bench.submit("t3", callbacks=CALLBACKS)
    bench.settle(bench.begin("t1b"))
    assert told(bench) == [
        (done.claim.job_id, 1, "done"), (failed.claim.job_id, 1, "failed"), (cancelled, 0, "cancelled")]
    assert told(bench) == []
    assert not bench.ledger.has_callbacks_to_send()


def test_what_was_sent_is_noted_although_the_next_one_cannot_be(bench: Bench) -> None:
    ids = []
    for target in ("t1", "t2"):
        started = bench.begin(target, callbacks=CALLBACKS)
        bench.settle(started)
        ids.append(started.claim.job_id)

    def broker_away(ended: Ended) -> None:
        if ended.job_id == ids[1]:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        bench.ledger.tell(10, broker_away)
    assert told(bench) == [(ids[1], 1, "done")], "nobody waits for a turn that has ended"


def test_a_job_that_lives_again_meanwhile_is_told_its_next_end(bench: Bench) -> None:
    started = bench.begin("t1", callbacks=CALLBACKS)
    bench.settle(started)
    job_id = started.claim.job_id

    def requeued_meanwhile(ended: Ended) -> None:
        bench.change(jobs, jobs.c.job_id == job_id, status="queued", finished_at=None)
        bench.change(jobs, jobs.c.job_id == job_id, status="done", finished_at=bench.clock.now, attempt=2)

    bench.ledger.tell(10, requeued_meanwhile)
    assert told(bench) == [(job_id, 2, "done")]


def test_one_sender_at_a_time_has_its_turn_and_a_dead_one_loses_it(bench: Bench) -> None:
    started = bench.begin("t1", callbacks=CALLBACKS)
    bench.settle(started)
    seen = []

    def meanwhile(ended: Ended) -> None:
        seen.append(told(bench))

    bench.ledger.tell(10, meanwhile)
    assert seen == [[]]
    assert bench.ledger.take_turn("callbacks", TURN_SEC) is not None
    assert bench.ledger.take_turn("callbacks", TURN_SEC) is None
    bench.clock.advance(TURN_SEC)
    assert bench.ledger.take_turn("callbacks", TURN_SEC) is not None


def test_a_turn_is_taken_by_one_of_many(bench: Bench) -> None:
    answers: list[int | None] = []
    gate = threading.Barrier(4)

    def ask() -> None:
        gate.wait()
        answers.append(bench.ledger.take_turn("chore", 5))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(answer is not None for answer in answers) == 1
