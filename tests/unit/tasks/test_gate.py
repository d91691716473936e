"""The gate of a crawl: where it waits, where it parks, and what it tells the database meanwhile (rules R6, R8, J6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from config import clock
from config.errors import Cancelled, Parked, StaleClaim
from models.groups import rate_groups
from models.jobs import jobs
from models.outcome import Ended
from tasks.gate import BUSY_SLACK_SEC, CrawlGate
from tasks.pipeline.ports import RequestRecord

MakeGate = Callable[..., CrawlGate]


@pytest.fixture
def gate_of(bench: Any) -> MakeGate:
    """Make the gate of a fresh attempt; `ago` is how long ago the group's last response ended."""

    def made(interval_sec: float = 0.0, *, ago: float | None = None, last: float = 0.0, **settings: Any) -> CrawlGate:
        if ago is not None:
            bench.change(rate_groups, last_response_at=bench.clock.now - timedelta(seconds=ago), last_interval_sec=last)
        bench.submit()
        attempt = bench.attempt_on()
        bench.held.append(attempt)
        return CrawlGate(attempt, attempt.guard, bench.settings.model_copy(update={"park_after_sec": 30.0} | settings), interval_sec)

    return made


def answer(gate: CrawlGate) -> float:
    """Make a request that is answered at once; returns the moment of the answer."""
    gap, at = gate.before_request("h"), clock.monotonic()
    gate.after_request(RequestRecord("http://h/", "h", at, at, 200, 1, "", gap))
    return at


def delay(gate: CrawlGate) -> float:
    """The delay of the Parked that a stop point raises."""
    with pytest.raises(Parked) as caught:
        gate.stop_point()
    assert caught.value.reason == "parked"
    return caught.value.delay_sec


def test_a_long_wait_parks_at_a_stop_point_in_front_of_a_request_and_nowhere_else(gate_of: MakeGate) -> None:
    gate = gate_of(0.3, park_after_sec=0.1)
    gate.stop_point()
    at = answer(gate)
    assert 0.1 < delay(gate) <= 0.3
    gate.stop_point(sends=False)
    assert gate.before_request("h") == 0.3
    assert clock.monotonic() - at >= 0.3


def test_a_short_wait_parks_nowhere(gate_of: MakeGate) -> None:
    gate = gate_of(25.0)
    answer(gate)
    gate.stop_point()


def test_a_request_to_stop_ends_a_long_wait(bench: Any, gate_of: MakeGate) -> None:
    gate = gate_of(600.0)
    answer(gate)
    bench.change(jobs, stop_requested=True)
    with pytest.raises(Cancelled):
        gate.before_request("h")


@pytest.mark.parametrize(("interval", "last", "gap"), [(50, 70, 70), (70, 50, 70)])
def test_the_first_gap_is_the_largest_of_the_last_interval_and_this_one(
    gate_of: MakeGate, interval: float, last: float, gap: float
) -> None:
    assert delay(gate_of(interval, ago=10, last=last)) == pytest.approx(gap - 10, abs=1)


def test_a_crawl_delay_that_is_learned_before_the_first_request_holds_for_that_request(gate_of: MakeGate) -> None:
    gate = gate_of(20.0, ago=10)
    gate.stop_point()
    gate.require_delay("h", 100.0)
    assert delay(gate) == pytest.approx(90, abs=1)
    assert gate.new_delay == 100.0


def test_a_crawl_delay_that_is_learned_before_the_first_request_is_the_gap_of_its_row(gate_of: MakeGate) -> None:
    gate = gate_of(0.0, ago=10)
    gate.require_delay("h", 5.0)
    assert gate.before_request("h") == 5.0


def test_a_crawl_delay_that_is_learned_later_holds_from_the_next_request_on(gate_of: MakeGate) -> None:
    gate = gate_of(1.0)
    answer(gate)
    gate.require_delay("h", 100.0)
    gate.require_delay("h", 50.0)
    assert delay(gate) == pytest.approx(100, abs=1)


def busy_for(bench: Any) -> float:
    (job,) = bench.rows(jobs)
    return float((job["busy_until"] - bench.clock.now).total_seconds())


def test_a_wait_is_announced_with_the_request_behind_it(bench: Any, gate_of: MakeGate) -> None:
    gate = gate_of(0.4, park_after_sec=0.0, request_timeout_sec=0.2)
    answer(gate)
    gate.committed(clock.monotonic() - 60)
    answer(gate)
    assert busy_for(bench) == pytest.approx(0.4 + 0.2 + BUSY_SLACK_SEC, abs=0.1)


def test_every_further_request_of_a_long_unit_is_announced(bench: Any, gate_of: MakeGate) -> None:
    gate = gate_of(park_after_sec=0.0, request_timeout_sec=0.2)
    gate.committed(clock.monotonic() - 60)
    bench.change(jobs, busy_until=bench.clock.now)
    answer(gate)
    assert busy_for(bench) >= 0.2


def test_what_the_row_says_already_is_not_written_again(bench: Any, gate_of: MakeGate) -> None:
    gate = gate_of()
    before = bench.rows(jobs)
    for _ in range(3):
        answer(gate)
    assert bench.rows(jobs) == before
    gate.committed(clock.monotonic() - 60)
    answer(gate)
    after = bench.rows(jobs)
    assert after != before
    answer(gate)
    assert bench.rows(jobs) == after


def test_an_attempt_that_is_over_announces_nothing(bench: Any, gate_of: MakeGate) -> None:
    gate = gate_of()
    bench.change(jobs, attempt=jobs.c.attempt + 1)
    with pytest.raises(StaleClaim):
        bench.held[0].ledger.busy(bench.held[0].claim.job_id, 1, 5.0)
    gate.committed(clock.monotonic() - 60)
    with pytest.raises(StaleClaim):
        gate.before_request("h")


def test_a_step_of_the_wall_clock_makes_no_response_older(
    bench: Any, gate_of: MakeGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(gate_of(30.0))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    (attempt,) = bench.held
    attempt.decide(Ended(result={}))
    assert attempt.settle()
    age = bench.clock.now - bench.group()["last_response_at"]
    assert timedelta(0) <= age < timedelta(seconds=5)
    assert bench.group()["next_request_at"] - bench.clock.now > timedelta(seconds=25)
