"""What a run submits: one job for each of what is chosen. A value; storing it is the agenda's business."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select


@dataclass(frozen=True)
class Chosen:
    """What one job of a run is for: a target with its site and group, a site with its group, or a lane alone."""

    target_code: str | None
    site_code: str | None
    group_key: str


@dataclass(frozen=True)
class FanOut:
    """The jobs that a run starts (rule S8).

    `among` says what for: a select with the columns ``target_code``, ``site_code`` and ``group_key`` (any of the first
    two may be NULL), or the rows themselves. A job in an internal lane (``_seed``) has neither target nor site.

    `key` is the dedupe key, with ``{target}`` and ``{site}`` filled in: a job of that key that is queued or running
    answers for the run instead of a new one. `priority` None is the entry's, `force` None the run's. `options` are those
    of every job; one that is still queued `expires_sec` from now is cancelled; `holds` false lets the jobs run
    inside the entry's quiet window.
    """

    kind: str
    among: Select[Any] | Sequence[Chosen]
    key: str
    priority: int | None = None
    force: bool | None = None
    options: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    deadline_sec: float | None = None
    expires_sec: float | None = None
    holds: bool = True


@dataclass(frozen=True)
class Tally:
    """How far the targets of a run are, over all tries of its occurrence; a target counts once, by its best job.

    `done`: done whole (complete or truncated, or a kind that knows no outcome); `settled`: failed for good or its target
    was disabled meanwhile; `partial`, `failed` (tries used up, cancelled) are missing; `open` is queued or running.
    """

    total: int = 0
    done: int = 0
    settled: int = 0
    partial: int = 0
    failed: int = 0
    open: int = 0
    #: codes of what is settled, at most a hundred of them
    listed: tuple[str, ...] = field(default=())

    @property
    def progress(self) -> dict[str, int]:
        """Return the document of it: numbers of targets."""
        return {"done": self.done, "failed": self.settled + self.partial + self.failed, "total": self.total}
