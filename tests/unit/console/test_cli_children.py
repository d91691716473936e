"""Processes that stand by until a command knows what they are to do (rules D1, U1)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.settings import Settings, embedded_broker_url, embedded_database_url
from console.cli.children import Crew, Standby, standing_by
from tests.support.command_line import CommandLine, children_of, is_alive, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = tmp_path / "home"
    return Settings(home=home, database_url=embedded_database_url(home), broker_url=embedded_broker_url(home))


def waiting_pids() -> set[int]:
    return set(children_of(os.getpid(), "--stand-by"))


@pytest.fixture
def before() -> Iterator[set[int]]:
    """The processes that stood by before the test."""
    yield waiting_pids()


def test_nobody_stands_by_after_the_command_and_nothing_was_made(settings: Settings, before: set[int]) -> None:
    with standing_by(settings, 2):
        wait_until(lambda: len(waiting_pids() - before) == 2)
        begun = waiting_pids() - before
    assert not [pid for pid in begun if is_alive(pid)]
    assert not settings.home.exists()


def test_one_that_died_while_it_stood_by_is_replaced_and_said_so(settings: Settings, before: set[int]) -> None:
    said: list[str] = []
    standby = Standby(settings)
    (pid,) = waiting_pids() - before
    os.kill(pid, signal.SIGKILL)
    settings.home.mkdir()
    with Crew(settings, said.append, [standby]) as crew:
        crew.start_workers(1, 1)
        (child,) = crew.children

        def restarted() -> bool:
            crew.look()
            return len(said) > 0 and child.lives

        wait_until(restarted)
        assert "worker-1 died (signal 9), starting it again" in said[0]


def test_a_crawl_of_a_bad_file_leaves_no_process_and_no_home(tmp_path: Path) -> None:
    file = tmp_path / "sites.yaml"
    file.write_text("sites: [{site_code: 3}]\n")
    cli = CommandLine(tmp_path / "home")
    command = cli.start("crawl", str(file))
    seen: set[int] = set()

    def ended() -> bool:
        seen.update(children_of(command.pid))
        return command.poll() is not None

    wait_until(ended)
    command.communicate()
    assert command.returncode == 2
    assert seen
    assert not [pid for pid in seen if is_alive(pid)]
    assert not (tmp_path / "home").exists()
