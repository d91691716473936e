"""The main job with its own broker and workers, on the demo site (rules U1, D1, D5)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from console.demo import DemoServer
from console.demo.scenario import Scenario, small
from tests.support.command_line import CommandLine, children_of, is_alive, wait_until

pytestmark = pytest.mark.slow

#: a worker learns at its next heartbeat that it is to stop
BRISK = {"RATELANE_HEARTBEAT_SEC": "1"}


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    line = CommandLine(tmp_path / "home")
    yield line
    line.kill()


def serve(scenario: Scenario, folder: Path) -> tuple[DemoServer, str]:
    server = scenario.server().start()
    file = folder / "sites.yaml"
    file.write_text(scenario.sites_yaml())
    return server, str(file)


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[tuple[DemoServer, str]]:
    """A site that is crawled in a second."""
    server, file = serve(small(), tmp_path)
    yield server, file
    server.stop()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[DemoServer, str]]:
    """A site that is crawled in about eight seconds."""
    server, file = serve(replace(small(), intervals={"small": 0.8}), tmp_path)
    yield server, file
    server.stop()


def test_a_crawl_is_one_command_and_the_next_one_finds_nothing_new(
    cli: CommandLine, quick: tuple[DemoServer, str]
) -> None:
    server, file = quick
    first = cli.json("crawl", file)
    assert (first["totals"]["done"], first["totals"]["items_new"], first["totals"]["complete"]) == (1, 6, 1)
    assert [one["outcome"] for one in first["jobs"]] == ["complete"]
    assert first["jobs"][0]["attempts_log"][0]["outcome"] == "done"
    assert cli.json("audit")["requests"] == len(server.log.entries)
    assert len(cli.run("articles").stdout.splitlines()) == 6
    second = cli.run("crawl", file)
    assert second.returncode == 0
    assert "1 of 1 done, 0 failed: 0 new" in second.stdout


def test_only_the_named_targets_are_crawled_and_nothing_means_done(
    cli: CommandLine, quick: tuple[DemoServer, str]
) -> None:
    _, file = quick
    Path(file).write_text(Path(file).read_text().replace("track_checkpoint", "enabled: false\n    track_checkpoint"))
    assert "no target is enabled" in cli.run("crawl", file).stdout
    assert cli.json("crawl", file, "small_news")["totals"]["done"] == 1


def test_a_site_whose_robots_txt_fails_is_waited_for_and_said_so(
    cli: CommandLine, quick: tuple[DemoServer, str]
) -> None:
    server, file = quick
    server.sites[0].fail("/robots.txt", 503, 100)
    done = cli.run("crawl", file, "--for", "6", **BRISK)
    assert done.returncode == 1
    assert "waits 30 min 0 s: robots_unreachable" in done.stderr or "waits 29 min" in done.stderr


def test_a_site_that_is_gone_is_tried_three_times_and_ends_partial(
    cli: CommandLine, quick: tuple[DemoServer, str]
) -> None:
    server, file = quick
    server.stop()
    done = cli.json("crawl", file, code=1, RATELANE_BACKOFF_BASE_SEC="0.1", **BRISK)
    job = done["jobs"][0]
    assert (job["status"], job["outcome"], job["failures"]) == ("done", "partial", 3)
    assert "robots.txt" in job["result"]["reasons"][0]


def test_a_crawl_with_an_interval_beyond_the_parking_limit_reads_everything_once(
    cli: CommandLine, quick: tuple[DemoServer, str]
) -> None:
    server, file = quick
    found = cli.json("crawl", file, RATELANE_PARK_AFTER_SEC="0.01", **BRISK)
    assert (found["totals"]["complete"], found["totals"]["items_new"]) == (1, 6)
    paths = [entry.path for entry in server.log.entries]
    assert len(paths) == len(set(paths)), "nothing was read twice"
    assert found["jobs"][0]["attempt"] > 6 and found["jobs"][0]["failures"] == 0


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[tuple[DemoServer, str]]:
    """A site whose crawl outlasts whatever else a test does."""
    server, file = serve(replace(small(), intervals={"small": 10}), tmp_path)
    yield server, file
    server.stop()


def test_health_is_green_while_a_crawl_runs(cli: CommandLine, lasting: tuple[DemoServer, str]) -> None:
    server, file = lasting
    command = cli.start("crawl", file, **BRISK)
    server.wait_for(lambda log: len(log) >= 1)
    wait_until(lambda: cli.run("health", **BRISK).returncode == 0)
    found = cli.json("health", **BRISK)
    assert (found["ok"], found["database_ok"], found["broker_ok"], found["workers_consuming"]) == (True, True, True, 1)
    assert [one["consuming"] for one in cli.json("workers", **BRISK)] == [True]
    lane = cli.json("lanes", **BRISK)[0]
    assert lane["running_target"] == "small_news"
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=60)
    assert command.returncode == 1


def test_an_interrupt_parks_and_the_same_command_goes_on(cli: CommandLine, slow: tuple[DemoServer, str]) -> None:
    server, file = slow
    command = cli.start("crawl", file, "--json", **BRISK)
    server.wait_for(lambda log: len(log) >= 4)
    command.send_signal(signal.SIGINT)
    out, err = command.communicate(timeout=60)
    assert command.returncode == 1
    assert "interrupt again to stop at once" in err
    left = json.loads(out)
    assert (left["totals"]["left_over"], left["jobs"][0]["status"], left["jobs"][0]["failures"]) == (1, "queued", 0)
    stored = left["totals"]["items_new"]
    assert 1 <= stored < 6
    found = cli.json("crawl", file, **BRISK)
    assert found["jobs"][0]["job_id"] == left["jobs"][0]["job_id"]
    assert found["totals"]["items_new"] == 6
    articles = [entry.path for entry in server.log.entries if "art_" in entry.path]
    assert len(articles) == len(set(articles)) == 6


def test_a_time_limit_parks_like_an_interrupt(cli: CommandLine, slow: tuple[DemoServer, str]) -> None:
    _, file = slow
    done = cli.run("crawl", file, "--for", "4", **BRISK)
    assert done.returncode == 1
    assert "4 s are over" in done.stderr
    assert "1 left over" in done.stdout


def test_the_third_interrupt_kills(cli: CommandLine, slow: tuple[DemoServer, str]) -> None:
    server, file = slow
    command = cli.start("crawl", file, RATELANE_HEARTBEAT_SEC="20")
    server.wait_for(lambda log: len(log) >= 2)
    children = children_of(command.pid)
    assert len(children) == 2
    for said in ("interrupt again to stop at once", "interrupt again to kill", "killed"):
        command.send_signal(signal.SIGINT)
        _read_until(command, said)
    command.communicate(timeout=20)
    assert command.returncode == 1
    wait_until(lambda: not any(is_alive(pid) for pid in children))


def test_nothing_survives_a_killed_command_and_the_next_one_goes_on(
    cli: CommandLine, slow: tuple[DemoServer, str]
) -> None:
    server, file = slow
    command = cli.start("crawl", file)
    server.wait_for(lambda log: len(log) >= 4)
    children = children_of(command.pid)
    assert len(children) == 2
    command.kill()
    command.communicate(timeout=20)
    wait_until(lambda: not any(is_alive(pid) for pid in children))
    found = cli.json("crawl", file)
    assert found["totals"]["items_new"] == 6
    assert found["jobs"][0]["recoveries"] == 1
    assert cli.run("audit").returncode == 0


def test_a_worker_that_dies_is_started_again_and_said_so(cli: CommandLine, slow: tuple[DemoServer, str]) -> None:
    server, file = slow
    command = cli.start("crawl", file)
    server.wait_for(lambda log: len(log) >= 3)
    (worker,) = children_of(command.pid, "worker_process")
    os.kill(worker, signal.SIGKILL)
    _, err = command.communicate(timeout=60)
    assert command.returncode == 0
    assert "worker-1 died (signal 9), starting it again" in err


def test_the_demo_survives_a_cooldown_and_the_site_agrees(cli: CommandLine) -> None:
    done = cli.run("demo", timeout=115)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 overlaps, 0 short gaps" in done.stdout
    assert "cooldown survived by gd-news_news: interval 0.4 s → 1.4 s" in done.stdout


def _read_until(command: subprocess.Popen[str], said: str) -> None:
    assert command.stderr is not None
    for line in command.stderr:
        if said in line:
            return
    raise AssertionError(f"the command ended without saying {said!r}")
