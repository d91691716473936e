"""Which Celery task runs which kind of job.

A kind is a word of the specification; its task is named by string, because tasks live a floor above.
"""

from __future__ import annotations

_TASKS: dict[str, str] = {
    "crawl": "ratelane.crawl", "export": "ratelane.export", "check": "ratelane.check", "discovery": "ratelane.discovery",
    "vitals": "ratelane.vitals", "snapshot_seed": "ratelane.snapshot_seed",
    "candidate_cleanup": "ratelane.candidate_cleanup", "call": "ratelane.call"}

#: kinds whose jobs send no request to a site: the lane that they run in, which has no interval (spec, section 1)
INTERNAL_LANES: dict[str, str] = {
    "export": "_export", "snapshot_seed": "_seed", "candidate_cleanup": "_cleanup", "call": "_tasks"}


def register(kind: str, task: str) -> None:
    """Say that jobs of `kind` are run by the Celery task of this name."""
    _TASKS[kind] = task


def task_of(kind: str) -> str:
    """Return the name of the Celery task that runs `kind`; raises LookupError for an unknown one."""
    try:
        return _TASKS[kind]
    except KeyError:
        raise LookupError(f"no task runs jobs of kind {kind!r}") from None


def kind_of(task: str) -> str | None:
    """Return the kind of jobs that the Celery task of this name runs, None if it is an ordinary task."""
    return next((kind for kind, name in _TASKS.items() if name == task), None)
