"""The schedule as it stands: entries, runs, and how far the targets of a run are (rules S8, S9)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select

from models.agenda.fan import Tally


def run(conn: Connection, run_id: int) -> dict[str, Any] | None:
    """Return the document of one run, None for an unknown id.

    ``run_id entry occurrence try_no stat_date source force started_at ended_at elapsed_sec outcome ok skipped reason
    until by_run progress{done,failed,total}``.
    """
    raise NotImplementedError


def runs(conn: Connection, name: str | None = None, limit: int = 200) -> list[dict[str, Any]]:
    """Return the documents of runs, newest first; of one entry or of all."""
    raise NotImplementedError


def tally_of(conn: Connection, run_id: int) -> Tally:
    """Return how far the targets of a run are, over all tries of its occurrence."""
    raise NotImplementedError


def result_of(conn: Connection, run_id: int) -> tuple[str | None, Mapping[str, Any] | None, str]:
    """Return status, result document and error of the run's only (or last) job; status None if it has none."""
    raise NotImplementedError


def done_in(entry: str, occurrence: datetime, try_no: int) -> Select[Any]:
    """Select the codes of targets that an earlier try of the occurrence did whole or settled: leave these out.

    One column ``target_code``; use it as ``targets.c.target_code.not_in(done_in(…))``.
    """
    raise NotImplementedError
