"""The lane benchmark runs as a program: Ratelane and a rival, from the same PostgreSQL in the same run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
ROOT = Path(__file__).resolve().parents[2]


def test_a_tiny_shape_is_measured_beside_locks(postgres: PostgresServer) -> None:
    """Every body of each side ran once, never two of a lane at once, and each has a rate and a hand-over."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.lanes", "--json", "--runs", "1", "--only", "3x4", "--beside", "procrastinate"],
        cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["shape"], row["runs"]) == ("3x4", 1)
    assert set(row["jobs_per_sec"]) == set(row["handover_p99_ms"]) == {"ratelane", "procrastinate"}
    assert all(rate > 0 for rate in row["jobs_per_sec"].values())
    assert row["overlaps"] == {"ratelane": 0, "procrastinate": 0}
    ratio = row["jobs_per_sec"]["ratelane"] / row["jobs_per_sec"]["procrastinate"]
    assert row["ratio"] == {"procrastinate": pytest.approx(ratio, abs=0.02)}
