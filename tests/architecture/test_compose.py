"""compose.yaml says what rule D2 asks for, and what it starts exists."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from dotenv import dotenv_values
from typer.main import get_command

from config.settings import Settings
from console.cli.app import app
from tests.support.command_line import ROOT, clean_environment

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
RABBIT: dict[str, Any] = yaml.safe_load((ROOT / "compose.rabbitmq.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("migrate", "worker", "maintenance", "beat", "flower")
_VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)")


def seconds(span: str) -> float:
    """Return a span of time as compose writes it, such as ``1m30s``, in seconds."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)([hms])", span))


def test_the_services_are_those_of_a_whole_installation() -> None:
    assert set(SERVICES) == {"postgres", "redis", *OURS}


@pytest.mark.parametrize("name", ["worker", "maintenance", "beat", "flower"])
def test_celery_understands_the_command_of(name: str, tmp_path: Path) -> None:
    program, *arguments = SERVICES[name]["command"]
    assert program == "celery"

    # --help is looked at after all options are understood; an unknown one is refused before
    done = subprocess.run([sys.executable, "-m", "celery", *arguments, "--help"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=60, check=False, env=clean_environment(RATELANE_HOME=str(tmp_path)))

    assert done.returncode == 0, done.stderr


def test_every_command_of_ours_exists() -> None:
    tests = [["ratelane", *shlex.split(SERVICES[name]["healthcheck"]["test"][1])[1:]] for name in ("worker", "maintenance")]
    used = {words[1] for words in [SERVICES["migrate"]["command"], *tests] if words[0] == "ratelane"}

    assert used == {"migrate", "health"}
    assert used <= set(getattr(get_command(app), "commands"))  # noqa: B009


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"migrate"}))
def test_what_stays_up_has_a_health_check_and_is_restarted(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_workers_are_healthy_only_if_work_is_consumed() -> None:
    for name in ("worker", "maintenance"):
        command, check = SERVICES[name]["command"], SERVICES[name]["healthcheck"]["test"]
        called = command[command.index("-n") + 1].replace("%h", "$$HOSTNAME")
        # of its own: a living worker must not answer for a dead one
        assert check == ["CMD-SHELL", f'ratelane health --worker "{called}"']


def test_beat_answers_the_name_that_its_health_check_asks_for() -> None:
    command, check = SERVICES["beat"]["command"], SERVICES["beat"]["healthcheck"]["test"][1]

    assert command[command.index("-n") + 1].replace("%h", "$$HOSTNAME") in check
    assert "--enable-remote-control" in command


def test_crawls_cannot_hold_up_maintenance() -> None:
    command = SERVICES["maintenance"]["command"]

    assert command[command.index("-Q") + 1] == "inbox,rg._*"
    assert "-Q" not in SERVICES["worker"]["command"]


def test_workers_can_be_scaled() -> None:
    assert not {"container_name", "ports"} & set(SERVICES["worker"])
    assert "worker@%h" in SERVICES["worker"]["command"]


@pytest.mark.parametrize("name", OURS)
def test_the_grace_period_is_longer_than_the_soft_stop(name: str) -> None:
    assert seconds(SERVICES[name]["stop_grace_period"]) > Settings(home=Path("/nowhere")).soft_stop_sec + 10


@pytest.mark.parametrize("name", OURS)
def test_nothing_of_ours_runs_as_root_or_may_become_it(name: str) -> None:
    assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]
    assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert SERVICES[name].get("user") is None  # the image's own, which is not root
    assert not SERVICES[name].get("privileged")


def test_nothing_is_published_beyond_this_machine() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert published
    assert all(isinstance(port, str) and port.startswith("127.0.0.1:") for port in published)


def test_no_work_starts_before_the_schema_is_there() -> None:
    for name in ("worker", "maintenance", "beat", "flower"):
        assert SERVICES[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert SERVICES["migrate"]["restart"] == "no"


def test_what_must_survive_is_on_named_volumes() -> None:
    mounted = {name: [one.partition(":")[0] for one in service["volumes"]] for name, service in SERVICES.items()}

    assert {volume for used in mounted.values() for volume in used} == set(COMPOSE["volumes"])
    assert mounted["postgres"] == ["database"]
    assert mounted["redis"] == ["broker"]
    # by the lock files in the home they all share, a worker knows that another one is certainly dead
    assert mounted["worker"] == mounted["maintenance"] == ["home"]


def test_every_variable_has_an_example_that_nobody_would_use() -> None:
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("compose.yaml", "compose.rabbitmq.yaml"))
    example = dotenv_values(ROOT / ".env.example")

    assert set(_VARIABLE.findall(text)) == set(example)
    assert all("example" in str(value) for value in example.values())
    assert {name for name in example if name.startswith("RATELANE_")} <= {
        f"RATELANE_{name.upper()}" for name in Settings.model_fields}


def test_the_example_credentials_fit_together() -> None:
    example = dotenv_values(ROOT / ".env.example")

    assert f":{example['POSTGRES_PASSWORD']}@postgres:" in str(example["RATELANE_DATABASE_URL"])
    assert f":{example['REDIS_PASSWORD']}@redis:" in str(example["RATELANE_BROKER_URL"])


def test_no_container_port_is_reached_with_an_empty_password() -> None:
    assert "--requirepass" in SERVICES["redis"]["command"]
    assert "FLOWER_BASIC_AUTH" in SERVICES["flower"]["environment"]
    assert ":?" in SERVICES["flower"]["environment"]["FLOWER_BASIC_AUTH"]


def test_rabbitmq_comes_as_an_addition_that_workers_wait_for() -> None:
    server = RABBIT["services"]["rabbitmq"]

    assert set(RABBIT["services"]) == {"rabbitmq", *OURS} - {"migrate"}
    assert "ports" not in server
    assert server["healthcheck"]["test"][0] == "CMD"
    assert ":?" in server["environment"]["RABBITMQ_DEFAULT_PASS"]
    assert {volume.partition(":")[0] for volume in server["volumes"]} == set(RABBIT["volumes"])
    for name in set(OURS) - {"migrate"}:
        assert RABBIT["services"][name] == {"depends_on": {"rabbitmq": {"condition": "service_healthy"}}}
