"""A worker that is told to stop more than once, at once, or as the first process of a container (rule D5)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from config import clock
from console.demo import Site
from routing.kinds import register
from tests.support.command_line import children_of, clean_environment
from tests.support.figures import figure
from tests.support.fleet import Fleet, fleet
from tests.support.servers import wait_until
from tests.support.store import FAST, Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(60)]
SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
#: a response takes longer than a cold stop waits
PATIENT = {"request_timeout_sec": 8.0, "lease_sec": 12.0, "soft_stop_sec": 18.0}


def go_on(store: Store, workers: Workers, site: Fleet, job_id: str) -> None:
    """Start another worker in the same home, which takes over at once and reads nothing twice but what was cut off."""
    workers.start("two", **PATIENT)
    job = store.wait_for(job_id, "done")
    assert (job["failures"], job["cooldown_retries"], job["outcome"]) == (0, 0, "complete")
    site.assert_whole(store)


@SQLITE
@pytest.mark.parametrize(("pool", "signals", "within"), [
    ("threads", "QUIT", 4.0), ("threads", "INT INT", 4.0), ("solo", "TERM QUIT", 4.0), ("prefork", "TERM QUIT", 7.0),
])
def test_a_cold_stop_waits_for_no_response_and_spends_one_recovery(
    store: Store, workers: Workers, pool: str, signals: str, within: float
) -> None:
    """D5, U1: whatever the pool; the row is taken over like that of a killed worker, and no failure is counted."""
    sites = [Site("gd-one", columns={"news": 12}, per_page=4)]
    (first,) = workers.start("one", pool=pool, **PATIENT)
    with fleet(store, sites) as site:
        hold = sites[0].hold("/news/art_6.html")
        job_id = store.submit("gd-one_news")
        site.server.log.wait_for_arrival("/news/art_6.html")
        asked = clock.monotonic()
        for name in signals.split():
            os.kill(first.pid, getattr(signal, f"SIG{name}"))
            clock.pause(0.3)
        first.wait_end(within + 5)
        took = clock.monotonic() - asked
        figure(f"{signals} {pool}: worker ended after {took:.2f} s in the middle of a response")
        hold.release()
        assert took <= within
        assert "Traceback" not in first.log
        go_on(store, workers, site, job_id)
        assert store.job(job_id)["recoveries"] == 1


@SQLITE
@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_a_second_term_changes_nothing_and_solo_gives_its_job_back_too(
    store: Store, workers: Workers, pool: str
) -> None:
    """D5: the job is handed back before the worker is gone, with nothing spent, whoever insists."""
    (first,) = workers.start("one", pool=pool)
    with fleet(store) as site:
        job_id = store.submit("gd-one_news")
        site.server.wait_for(lambda log: len(log) >= 7)
        asked = clock.monotonic()
        first.terminate()
        clock.pause(0.1)
        first.terminate()
        assert first.wait_end(FAST["soft_stop_sec"] + 5) == 0
        took = clock.monotonic() - asked
        figure(f"TERM TERM {pool}: worker ended after {took:.2f} s")
        assert took <= FAST["soft_stop_sec"]
        row = store.row(job_id)
        assert (row.status, row.wait_reason, row.failures, row.recoveries) == ("queued", "soft_stop", 0, 0)
        assert row.last_completed_page >= 1


@SQLITE
def test_a_body_that_never_comes_to_a_stop_point_does_not_keep_its_worker(store: Store, workers: Workers) -> None:
    """D5: the worker is gone when its soft stop is over; the job is recovered."""
    (first,) = workers.start("one", app="tests.support.odd_tasks", soft_stop_sec=2.0)
    register("sleeps", "odd.sleeps")
    with fleet(store):
        job_id = store.submit("gd-one_news", kind="sleeps")
        store.wait_attempt(job_id, 1)
        asked = clock.monotonic()
        first.terminate()
        assert first.wait_end(10) == 1
        took = clock.monotonic() - asked
        figure(f"TERM with a deaf body: worker ended after {took:.2f} s of 2 s")
        assert 2.0 <= took <= 3.5
        assert store.row(job_id).status == "running"


@SQLITE
def test_w74_term_to_the_first_process_of_a_container_hands_the_job_back(
    store: Store, workers: Workers, tmp_path: Path
) -> None:
    """W74, D5: the command becomes the worker, so that TERM reaches it; all is over before a KILL after ten seconds."""
    unshare = shutil.which("unshare")
    argv = [sys.executable, "-m", "console.entry", "--home", str(store.settings().home), "worker", "--pool", "threads",
            "--concurrency", "4", "-n", "first@test", "--loglevel", "INFO", "--without-mingle", "--without-gossip"]
    alone = [unshare, "--pid", "--fork", "--kill-child"] if unshare is not None and _may_unshare(unshare) else []
    log_path = tmp_path / "first.log"
    with fleet(store) as site, log_path.open("wb") as log:
        outer = subprocess.Popen([*alone, *argv], cwd=tmp_path, stdout=log, stderr=log, start_new_session=True,
                                 env=clean_environment(**store.environment(soft_stop_sec=4.0)))
        try:
            job_id = store.submit("gd-one_news")
            site.server.wait_for(lambda log: len(log) >= 7, 30)
            first = next(iter(children_of(outer.pid, "celery"))) if alone else outer.pid
            asked = clock.monotonic()
            os.kill(first, signal.SIGTERM)
            wait_until(lambda: outer.poll() is not None, "the end of the worker", 10)
            took = clock.monotonic() - asked
        finally:
            outer.kill()
            outer.wait()
        figure(f"W74: TERM to {'process 1' if alone else 'the command'}: over after {took:.2f} s, exit {outer.returncode}")
        row = store.row(job_id)
        assert (outer.returncode, row.status, row.wait_reason) == (0, "queued", "soft_stop"), log_path.read_text()[-3000:]
        assert row.last_completed_page >= 1
        assert row.lease_until is None
        workers.start("two")
        job = store.wait_for(job_id, "done")
        assert (job["failures"], job["recoveries"], job["attempt"]) == (0, 0, 2)
        assert job["attempts_log"][1]["from_page"] == row.last_completed_page
        site.assert_whole(store)


def _may_unshare(unshare: str) -> bool:
    return subprocess.run([unshare, "--pid", "--fork", "true"], capture_output=True, check=False).returncode == 0
