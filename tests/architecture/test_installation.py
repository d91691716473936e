"""What compose.yaml starts works together: its own command lines, on a PostgreSQL and a Valkey server of this machine."""

from __future__ import annotations

import base64
import json
import shlex
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.devstack.processes import spawn, stop_process
from tests.support.command_line import ROOT, CommandLine, clean_environment
from tests.support.servers import PostgresServer, ValkeyServer, free_port, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
LOGIN = "operator:example"


@dataclass(frozen=True)
class Installation:
    """The running stack: `environment` is what its containers would have."""

    environment: dict[str, str]
    command_line: CommandLine
    flower_port: int

    def celery(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a Celery command to its end, in a folder without a package called config."""
        return subprocess.run([sys.executable, "-m", "celery", "-A", "config", *words], capture_output=True, text=True,
                              cwd=self.command_line.home, env=self.environment, timeout=60, check=False)

    def healthy(self) -> bool:
        """Say whether the health checks of both kinds of workers pass, and those of all work together."""
        own = [shlex.split(SERVICES[name]["healthcheck"]["test"][1].replace("$$HOSTNAME", self.environment["HOSTNAME"]))[1:]
               for name in ("worker", "maintenance")]
        return all(self.ratelane(*words).returncode == 0 for words in (["health"], *own))

    def ratelane(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ours to its end."""
        return self.command_line.run(*words, **self.environment)

    def status(self, path: str, login: str = "") -> int:
        """Return the status of a page of Flower."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.flower_port}{path}")
        if login:
            request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code
        except OSError:
            return 0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The services of compose.yaml but the two servers, which are the tests' own."""
    home = tmp_path_factory.mktemp("installation") / "home"
    home.mkdir()
    postgres, valkey, port = PostgresServer().start(), ValkeyServer().start(), free_port()
    processes: list[subprocess.Popen[bytes]] = []
    environment = clean_environment(
        RATELANE_DATABASE_URL=postgres.create_database(), RATELANE_BROKER_URL=valkey.url, RATELANE_HOME=str(home),
        RATELANE_HEARTBEAT_SEC="1", FLOWER_BASIC_AUTH=LOGIN, HOSTNAME=socket.gethostname())
    try:
        found = Installation(environment, CommandLine(home), port)
        assert found.ratelane(*SERVICES["migrate"]["command"][1:]).returncode == 0
        for name in ("worker", "maintenance", "beat", "flower"):
            _, *words = SERVICES[name]["command"]
            here = {"--address=0.0.0.0": "--address=127.0.0.1", "--port=5555": f"--port={port}",
                    "/tmp/beat-schedule": str(home / "beat-schedule")}
            argv = [sys.executable, "-m", "celery", *(here.get(word, word) for word in words)]
            processes.append(spawn(argv, environment, home / "logs" / f"{name}.log", cwd=home))
        wait_until(found.healthy, "a healthy installation", 60)
        wait_until(lambda: found.status("/healthcheck") == 200, "Flower's answer", 30)
        yield found
    finally:
        for process in processes:
            stop_process(process, 20)
        valkey.remove()
        postgres.remove()


def test_workers_live_under_their_names(stack: Installation) -> None:
    def names() -> set[str]:
        return {one["name"].partition("@")[0] for one in json.loads(stack.ratelane("workers", "--json").stdout)}

    wait_until(lambda: names() == {"worker", "maintenance"}, "both workers", 30)


def test_the_maintenance_worker_serves_the_internal_lanes_alone(stack: Installation) -> None:
    found = {one["name"].partition("@")[0]: one["lanes"]
             for one in json.loads(stack.ratelane("workers", "--json").stdout)}

    assert found["worker"] is None
    assert found["maintenance"], "it serves every lane: -Q rg._* was not taken for a filter"


def test_the_workers_say_where_waiting_jobs_are(stack: Installation) -> None:
    done = stack.celery("inspect", "--timeout", "5", "lanes")

    assert done.returncode == 0, done.stderr
    assert "ratelane lanes" in done.stdout


def test_beat_passes_its_health_check(stack: Installation) -> None:
    check = SERVICES["beat"]["healthcheck"]["test"][1].replace("$$HOSTNAME", stack.environment["HOSTNAME"])
    program, _, application, *words = check.replace('"', "").split()
    assert (program, application) == ("celery", "config")

    wait_until(lambda: stack.celery(*words).returncode == 0, "beat's answer", 30)


def test_flower_shows_nothing_without_the_login(stack: Installation) -> None:
    assert stack.status("/healthcheck") == 200
    assert stack.status("/workers") == 401
    assert stack.status("/api/workers") == 401
    assert stack.status("/workers", LOGIN) == 200


def test_no_file_is_written_outside_the_home(stack: Installation) -> None:
    assert sorted(path.name for path in Path(stack.command_line.home).parent.iterdir()) == ["home"]
