"""The documents of the schedule, as `shapes` has the others."""

from __future__ import annotations

from typing import Any, Literal

from console.flower.api.shapes import Document, Moment


class Entry(Document):
    """An entry of the schedule (rule S9)."""

    name: str
    status: Literal["pending", "running", "done", "failed", "deferred"]
    due_at: Moment | None
    next_runs: list[Moment]
    stat_date: str | None
    progress: dict[str, Any] | None
    last_run_at: Moment | None
    last_outcome: dict[str, Any] | None
    last_success_at: Moment | None
    quiet_window: list[str] | None
    paused: bool


class Occurrence(Document):
    """What would become of one due moment."""

    name: str
    due_at: Moment
    action: Literal["run", "defer", "make_up", "skip"]
    until: Moment | None
    reason: str
    stat_date: str


class Run(Document):
    """The work done for an occurrence, or what was decided about it without any."""

    run_id: int
    entry: str
    occurrence: Moment
    try_no: int
    stat_date: str
    source: str
    force: bool
    started_at: Moment | None
    ended_at: Moment | None
    elapsed_sec: float | None
    outcome: str | None
    ok: bool | None
    skipped: bool | None
    reason: str
    until: Moment | None
    by_run: int | None
    progress: dict[str, Any] | None


class System(Document):
    """When each entry is due next."""

    next_runs: dict[str, Moment | None]
