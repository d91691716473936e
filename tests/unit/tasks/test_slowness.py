"""A site that becomes slow is left in peace before it objects (rule C1), across attempts, and the log shows it (P5)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from config import clock
from config.settings import use_settings
from models.groups import rate_groups
from models.requests import requests
from tasks.gate import CrawlGate
from tasks.pipeline.latency import Latency
from tasks.pipeline.ports import RequestRecord
from tests.support.crawl_ports import Site, paged_site, rows
from tests.support.misbehave import Answer, Request

INTERVAL = 0.1


@dataclass
class Limiter:
    """nginx's `limit_req` with a burst and no `nodelay`: what comes too soon is answered, but only at the rate."""

    every_sec: float
    free: int
    _next: float = 0.0
    delays: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wrap(self, answer: Answer) -> Answer:
        def answered(conn: socket.socket, request: Request) -> bool:
            with self._lock:
                now = clock.monotonic()
                self.free -= 1
                wait = max(0.0, self._next - now) if self.free < 0 else 0.0
                self._next = now + wait + self.every_sec
                self.delays.append(wait)
            clock.pause(wait)
            return answer(conn, request)

        return answered


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        running.show(rows(*range(1, 13)))
        yield running


@pytest.mark.exclusive
@pytest.mark.timeout(60)
def test_a_limiter_that_delays_is_answered_by_a_slower_pace_and_the_pace_comes_back(bench: Any, site: Site) -> None:
    limiter = Limiter(every_sec=0.9, free=4)
    for path in [path for path in site.routes if path.startswith("/a/")]:
        site.routes[path] = limiter.wrap(site.routes[path])
    use_settings(bench.settings.model_copy(update={"park_after_sec": 30.0}))
    bench.crawls(site.url, interval_sec=INTERVAL, max_pages=1)
    job_id = bench.submit().job_id
    bench.run_job(job_id)
    assert bench.job(job_id)["status"] == "done"
    log = sorted(bench.rows(requests), key=lambda row: row["number"])
    gaps = [row["interval_sec"] for row in log]
    assert gaps[:5] == [INTERVAL] * 5, "nothing is slow yet"
    assert max(gaps) == 1.0
    first_slow = next(at for at, delay in enumerate(limiter.delays) if delay >= 0.5)
    assert max(limiter.delays[first_slow + 1:]) < 0.5, f"one slow answer was enough: {limiter.delays}"
    at = gaps.index(max(gaps))
    assert gaps[at + 1] < gaps[at], "it falls back, as far as the site lets it"
    starts = [request.at for request in site.requests]
    for before, after, gap in zip(starts, starts[1:], gaps[1:], strict=False):
        assert after - before >= gap - 0.005
    assert min(gaps) >= INTERVAL
    assert bench.group()["usual_latency_sec"] < 0.3
    assert bench.target()["grown_interval_sec"] is None, "the interval itself is the firewall's and the operator's"


def test_the_raised_gap_is_handed_on_to_the_next_job_and_worker(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=2.0, max_pages=1)
    bench.change(rate_groups, usual_latency_sec=0.05)
    attempt = _attempt(bench)
    gate = CrawlGate(attempt, attempt.guard, bench.settings, 2.0)
    now = clock.monotonic()
    gate.after_request(RequestRecord("http://h/a", "h", now - 0.6, now, 200, 1, "", 2.0, answered=now - 0.02))
    assert attempt.responded == (now, 4.0)
    gate.after_request(RequestRecord("http://h/a", "h", now - 9.0, now, 200, 1, "", 2.0, answered=now - 8.99))
    assert attempt.responded == (now, 2.0), "a long body is not the site's slowness"
    gate.after_request(RequestRecord("http://h/robots.txt", "h", now - 3.0, now, 200, 1, "", 2.0, answered=now))
    assert attempt.responded == (now, 2.0)


def _attempt(bench: Any) -> Any:
    bench.submit()
    attempt = bench.attempt_on()
    bench.held.append(attempt)
    return attempt


def test_what_is_usual_is_kept_with_the_group_and_written_only_when_it_changes(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0, max_pages=1)
    job_id = bench.submit().job_id
    bench.run_job(job_id)
    usual = bench.group()["usual_latency_sec"]
    assert 0.02 <= usual < 0.5
    bench.change(rate_groups, usual_latency_sec=7.0)
    attempt = _attempt(bench)
    assert attempt.started.usual_latency_sec == 7.0
    gate = CrawlGate(attempt, attempt.guard, bench.settings, 0.0)
    assert gate.take_usual() is None
    gate._latency = Latency(5.0)
    assert (gate.take_usual(), gate.take_usual()) == (5.0, None)
