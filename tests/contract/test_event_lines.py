"""A job's life in the log: fixed names, with job, attempt and group, and no secret (rule U6)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from config.errors import PermanentJobError
from config.logs import configure
from config.settings import Settings
from models.db import Database
from tests.support.ledger import SMALL, Bench, seed


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    configure(Settings.model_validate({"log_format": "json"}), stream)
    yield stream
    root.handlers[:], root.level = handlers, level


def test_a_dead_letter_has_its_line_without_the_password_in_its_error(database: Database, lines: io.StringIO) -> None:
    seed(database, SMALL)
    bench = Bench(database)
    started = bench.begin("t1")
    bench.settle(started, PermanentJobError("no answer from http://eve:sesame@host/x?token=open-sesame\nand more"))
    found = {line["event"]: line for line in map(json.loads, lines.getvalue().splitlines())}
    job = started.claim.job_id
    assert (found["job.submit"]["job"], found["job.submit"]["group"], found["job.submit"]["target"]) == (job, "g1", "t1")
    failure = found["job.failure"]
    assert (failure["job"], failure["attempt"], failure["group"], failure["level"]) == (job, 1, "g1", "warning")
    assert failure["error"] == "PermanentJobError: no answer from http://eve:***@host/x?token=***"
    assert "sesame" not in lines.getvalue()
