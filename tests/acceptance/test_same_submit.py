"""The same submit several times within a second is one job (J3, W48)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from console import actions
from tests.support.callers import in_process
from tests.support.command_line import CommandLine
from tests.support.fleet import fleet
from tests.support.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.timeout(60)]


def test_w48_five_submits_at_once_are_one_job_and_plain_celery_makes_its_own(store: Store) -> None:
    """Command line and dashboard share the default key; `delay` has none."""
    line = CommandLine(store.folder / "home")
    with fleet(store), ThreadPoolExecutor(2) as both, in_process(store) as crawl:
        commands = [line.start("submit", "gd-one_news", "--json", **store.environment()) for _ in range(3)]
        found = list(both.map(lambda _: actions.submit(store.db, store.settings(), "gd-one_news"), range(2)))
        for command in commands:
            out, err = command.communicate(timeout=40)
            assert command.returncode == 0, err
            found.append(json.loads(out))
        assert len({one["job_id"] for one in found}) == 1
        assert sum(one["created"] for one in found) == 1
        own = [crawl.delay("gd-one_news").id for _ in range(2)]
        assert len({*own, found[0]["job_id"]}) == 3
