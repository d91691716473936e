"""Ctrl-C as a terminal sends it, to the command's whole process group (rules U1, D5): nothing is left running."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from config import clock
from console.demo.scenario import small
from tests.support.command_line import CommandLine, is_alive, wait_until
from tests.support.figures import figure
from tests.support.processes import descendants

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.timeout(90)]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    line = CommandLine(tmp_path / "home")
    yield line
    line.kill()


def press(command: subprocess.Popen[str]) -> None:
    """Press Ctrl-C: every process of the foreground group gets the signal."""
    os.killpg(command.pid, signal.SIGINT)


def read_until(command: subprocess.Popen[str], said: str) -> None:
    assert command.stderr is not None
    assert any(said in line for line in command.stderr), f"the command ended without saying {said!r}"


def assert_gone(children: list[int]) -> None:
    """Fail if one of the processes that a command had started still runs a moment after its end."""
    wait_until(lambda: not any(is_alive(pid) for pid in children), 3)


def test_the_second_ctrl_c_waits_for_no_response_and_the_same_command_goes_on(cli: CommandLine, tmp_path: Path) -> None:
    scenario = replace(small(), intervals={"small": 0.2})
    with scenario.server() as server:
        file = tmp_path / "sites.yaml"
        file.write_text(scenario.sites_yaml())
        hold = server.sites[0].hold("/news/art_3.html")
        command = cli.start("crawl", str(file), own_group=True, RATELANE_HEARTBEAT_SEC="1")
        server.log.wait_for_arrival("/news/art_3.html", timeout=30)
        children = descendants(command.pid)
        press(command)
        read_until(command, "interrupt again to stop at once")
        clock.pause(0.5)
        assert command.poll() is None, "the first one waits for the response"
        asked = clock.monotonic()
        press(command)
        read_until(command, "interrupt again to kill")
        command.communicate(timeout=20)
        took = clock.monotonic() - asked
        figure(f"second Ctrl-C in the middle of a response: over after {took:.2f} s")
        assert took < 6
        assert command.returncode == 1
        assert_gone(children)
        hold.release()
        found = cli.json("crawl", str(file))
        assert (found["totals"]["items_new"], found["jobs"][0]["failures"], found["jobs"][0]["recoveries"]) == (6, 0, 1)
        assert cli.run("audit").returncode == 0


def test_ctrl_c_ends_the_demo_and_it_tells_no_tales(cli: CommandLine) -> None:
    command = cli.start("demo", own_group=True)
    read_until(command, "page 0")
    children = descendants(command.pid)
    assert len(children) >= 3
    press(command)
    out, err = command.communicate(timeout=30)
    assert command.returncode == 1
    assert "interrupt again to stop at once" in err
    assert "the demo was stopped before its end" in out
    assert "no cooldown happened" not in out
    assert "the same command goes on" not in out
    assert_gone(children)


def test_ctrl_c_ends_the_whole_stack(cli: CommandLine) -> None:
    command = cli.start("up", "--no-flower", own_group=True)
    read_until(command, "Ctrl-C stops")
    wait_until(lambda: len(descendants(command.pid)) >= 3)
    children = descendants(command.pid)
    press(command)
    read_until(command, "interrupt again to stop at once")
    command.communicate(timeout=30)
    assert command.returncode == 0
    assert_gone(children)


def test_ctrl_c_before_anything_has_started_is_silent(cli: CommandLine) -> None:
    command = cli.start("demo", own_group=True)
    wait_until(lambda: "console.demo" in "".join(_arguments(pid) for pid in descendants(command.pid)))
    press(command)
    _, err = command.communicate(timeout=20)
    assert command.returncode in (1, 130)
    assert "Traceback" not in err


def _arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""
