"""The benchmark of the schedule runs as a program, with real beats and few entries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
ROOT = Path(__file__).resolve().parents[2]
SMALLEST = ("--entries", "60", "--over", "20", "--span", "3", "--burst", "20", "--runs", "1", "--looks", "20",
            "--targets", "100", "--lead", "2")


def test_a_small_timetable_is_measured_beside_its_limits(postgres: PostgresServer) -> None:
    """What was due has fired, with all its jobs, and every limit stands beside a figure; how fast is not asked here."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.schedule", "--json", *SMALLEST],
                          cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["holds"] else 1)
    limits = [(each["measure"], each["what"], each["limit"], each["unit"]) for each in found["figures"] if each["limit"]]
    assert [limit for limit in limits if limit[0] != "fanout"] == [
        ("spread", "due to committed, p99 of 9", 1.0, "s"), ("burst", "20 due to the last committed", 3.0, "s"),
        ("idle", "look, median of 20", 10.0, "ms"), ("idle", "look, p99", 10.0, "ms")]
    assert [(limit, unit) for measure, _, limit, unit in limits if measure == "fanout"] == [(3.0, "s"), (100.0, "ms")]
    assert all(each["value"] > 0 for each in found["figures"])
    assert len(found["load"]) == 5
