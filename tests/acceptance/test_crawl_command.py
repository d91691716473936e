"""``ratelane crawl`` survives the death of everything that it started, and leaves nobody behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from config import clock
from config.settings import embedded_broker_url
from console.demo import Site
from tests.support.command_line import CommandLine, clean_environment
from tests.support.figures import figure
from tests.support.fleet import Fleet, fleet
from tests.support.processes import descendants, is_alive, signal_all
from tests.support.servers import wait_until
from tests.support.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.paired, pytest.mark.timeout(60)]


@dataclass
class Command:
    """One run of ``ratelane crawl`` and everything that it started."""

    store: Store
    process: subprocess.Popen[str] = field(init=False)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        settings = self.store.settings("home")
        line = CommandLine(settings.home).command("crawl", str(self.store.folder / "sites.yaml"), "--json")
        self.started = clock.monotonic()
        self.process = subprocess.Popen(
            line, cwd=self.store.folder, env=clean_environment(**self.store.environment("home")), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def everybody(self) -> list[int]:
        """Return the ids of the command and all that it has started."""
        return [self.process.pid, *descendants(self.process.pid)]

    def end(self) -> None:
        """Kill what is left of it."""
        if self.process.poll() is None:
            signal_all(self.everybody(), signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def commands(store: Store) -> Iterator[list[Command]]:
    """The commands of a test; what is left of them is killed at its end."""
    made: list[Command] = []
    yield made
    for command in made:
        command.end()


@pytest.fixture
def embedded(store: Store) -> Store:
    """The store with the broker of its own home where the database is of its home too."""
    if store.shares_home:
        store.broker_url = embedded_broker_url(store.settings().home)
    return store


def test_a_crawl_goes_on_after_everything_was_killed(embedded: Store, commands: list[Command]) -> None:
    """J8, D1: the command, its workers and its broker; the same command again loses and repeats next to nothing."""
    sites = [Site("gd-one", columns={"news": 12}, per_page=4), Site("gd-two", columns={"news": 4})]
    with fleet(embedded, sites) as site:
        commands.append(Command(embedded))
        site.server.wait_for(lambda log: len(log) >= 10, 20)
        everybody = commands[0].everybody()
        assert len(everybody) >= (3 if embedded.shares_home else 2)
        signal_all(everybody, signal.SIGKILL)
        _wait_gone(commands[0], everybody, 5)

        commands.append(Command(embedded))
        site.server.wait_for(lambda log: any(one.started > commands[1].started for one in log), 15)
        took = min(one.started for one in site.log if one.started > commands[1].started) - commands[1].started
        started = commands[1].everybody()
        out, err = commands[1].process.communicate(timeout=30)
        assert commands[1].process.returncode == 0, err
        figure(f"crawl again {embedded.db.dialect}: first request {took:.2f} s after its start")
        assert took <= 3 + site.interval_sec
        _assert_nothing_lost(site, embedded, json.loads(out))
        assert not [pid for pid in started if is_alive(pid)]


def test_nobody_outlives_a_killed_command(embedded: Store, commands: list[Command]) -> None:
    """D1: the kill of the command alone takes its workers and its broker along."""
    with fleet(embedded) as site:
        commands.append(Command(embedded))
        site.server.wait_for(lambda log: len(log) >= 2, 20)
        everybody = commands[0].everybody()
        assert len(everybody) >= (3 if embedded.shares_home else 2)
        os.kill(commands[0].process.pid, signal.SIGKILL)
        _wait_gone(commands[0], everybody, 3)


def _wait_gone(command: Command, pids: list[int], timeout: float) -> None:
    command.process.wait(timeout)
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "the end of all processes", timeout)


def _assert_nothing_lost(site: Fleet, store: Store, document: dict) -> None:  # type: ignore[type-arg]
    assert [job["status"] for job in document["jobs"]] == ["done", "done"]
    assert [job["outcome"] for job in document["jobs"]] == ["complete", "complete"]
    assert sum(job["recoveries"] for job in document["jobs"]) == 1
    assert sum(job["failures"] for job in document["jobs"]) == 0
    site.assert_whole(store)
    site.assert_polite()
