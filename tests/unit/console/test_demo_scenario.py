from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from console.demo import Site, read_log
from console.demo.scenario import SCENARIOS, demo
from tests.support.servers import wait_until
from tests.support.site import sites_yaml, status, write_sites_yaml

ROOT = Path(__file__).parents[3]

def test_the_demo_has_four_targets_in_three_groups_of_which_one_has_two_hosts() -> None:
    scenario = demo()
    server = scenario.server().start()
    try:
        document = yaml.safe_load(scenario.sites_yaml())
        groups = scenario.group_of_host()
    finally:
        server.stop()
    assert sum(len(site["targets"]) for site in document["sites"]) == 4
    assert sorted(map(list(groups.values()).count, set(groups.values()))) == [1, 1, 2]
    assert [rule["host"] for rule in document["rate_groups"]] == ["127.0.1.1", "127.0.1.2"]
    assert [site["site_code"].startswith("gd") for site in document["sites"]] == [True, True, False, False]
    assert all(0.2 <= seconds <= 0.5 for seconds in scenario.intervals.values())


def test_on_a_machine_with_one_address_the_group_is_declared_by_site() -> None:
    scenario = demo()
    for site in scenario.sites:
        site.host = "203.0.113.7"
    with scenario.server():
        document = yaml.safe_load(scenario.sites_yaml())
    assert [rule["site"] for rule in document["rate_groups"]] == ["gd-news", "gd-notices"]


def test_the_firewall_of_the_demo_objects_once_in_the_middle_of_a_column() -> None:
    scenario = demo()
    waf = scenario.wafs[0]
    pages = [f"/news/index_{1 + n // 7}.html" if n % 7 == 0 else f"/news/art_{n}.html" for n in range(20)]
    answers = [waf.objects("gd-news", path) for path in ["/robots.txt", *pages]]
    assert answers.index(True) == 12 and pages[11].startswith("/news/art")
    assert waf.tripped == 1


def test_the_yaml_for_tests_names_every_column(tmp_path: Path) -> None:
    site = Site("one", "127.0.0.9", {"a": 1, "b": 1})
    document = yaml.safe_load(write_sites_yaml(tmp_path, [site], interval_sec=0.5).read_text(encoding="utf-8"))
    assert [target["target_code"] for target in document["sites"][0]["targets"]] == ["one_a", "one_b"]
    assert document["sites"][0]["targets"][0]["interval_sec"] == 0.5
    extra = yaml.safe_load(sites_yaml([site], rate_groups=[{"key": "g", "host": "*"}], schedule={"timezone": "UTC"}))
    assert extra["rate_groups"] == [{"key": "g", "host": "*"}] and extra["schedule"] == {"timezone": "UTC"}


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, "-m", "console.demo", "--scenario", "small", "--log", str(tmp_path / "log")],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )
    yield started
    started.kill()
    started.communicate()


def test_the_site_runs_as_a_process_of_its_own(program: subprocess.Popen[str], tmp_path: Path) -> None:
    assert program.stdout is not None
    ready = json.loads(program.stdout.readline())
    url = ready["sites"][0]["base_url"]
    assert status(url, "/news/index_1.html") == 200
    assert yaml.safe_load(ready["sites_yaml"])["sites"][0]["base_url"] == url
    assert all(name.startswith("RATELANE_") for name in ready["settings"]) and set(SCENARIOS) >= {"demo", "small"}
    wait_until((tmp_path / "log").read_text, "the log line")
    assert [entry.path for entry in read_log(tmp_path / "log")] == ["/news/index_1.html"]
    program.send_signal(signal.SIGTERM)
    assert program.wait(5) == 0


def test_the_process_dies_with_a_killed_parent(tmp_path: Path) -> None:
    script = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-m', 'console.demo', '--scenario', 'small']).wait()"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ)
    assert parent.stdout is not None
    site = json.loads(parent.stdout.readline())["sites"][0]
    parent.kill()
    parent.communicate(timeout=5)  # its output ends when the site's process, which has it too, is gone
    address, _, port = site["host"].partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, int(port)), timeout=1)
