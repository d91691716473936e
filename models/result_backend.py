"""Celery's result backend on the job's own row (spec, section 3).

What it owns: nothing. It translates Celery's calls into verbs of the ledger, and a job's row into the answer that
`AsyncResult` expects.

Invariants: a result is stored by settling the attempt that this thread runs, so that a late or doubled message, or a
report from another process, changes nothing; a success never becomes a failure because the database was away;
`forget` forgets nothing.

When it dies in the middle: the row still says running, and the reaper takes it over.
"""

from __future__ import annotations

from typing import Any

from celery import states
from celery.backends.base import BaseBackend

from models.attempt import current_attempt
from models.db import get_database
from models.queries.results import celery_meta

#: the states that Celery reports and the ledger writes elsewhere (design, "How each outcome ends in Celery")
_NOT_OURS = frozenset({states.STARTED, states.RETRY, states.REVOKED, states.REJECTED, states.IGNORED})


class RatelaneBackend(BaseBackend):
    """Stores outcomes by settling the attempt that this thread runs; reads them from the job's row."""

    thread_safe = True
    supports_autoexpire = True

    def as_uri(self, include_password: bool = False) -> str:
        """Return a name without secrets for Celery's banner."""
        return "ratelane://"

    def store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **_: Any
    ) -> Any:
        """Settle, report or leave alone; ordinary tasks have no job and keep no result."""
        attempt = current_attempt(task_id)
        if attempt is None or state in _NOT_OURS:
            return result
        if state == states.SUCCESS:
            attempt.finish(result)
        elif state == states.FAILURE:
            attempt.fail()
        else:
            attempt.report(result)
        return result

    def _store_result(self, task_id: str, result: Any, state: str, *args: Any, **kwargs: Any) -> Any:
        return self.store_result(task_id, result, state, *args, **kwargs)

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        with get_database().read() as conn:
            return celery_meta(conn, task_id)

    def get_task_meta(self, task_id: str, cache: bool = True) -> dict[str, Any]:
        """Return the meta of a job's row as it is now; none is ever kept, because a job can be requeued."""
        return self._get_task_meta_for(task_id)

    def _forget(self, task_id: str) -> None:
        """Forget nothing: a job's row is its history."""

    def process_cleanup(self) -> None:
        """Do nothing: connections belong to the process, not to a task."""

    def ensure_chords_allowed(self) -> None:
        """Refuse chords: their polling task would wait in a lane (rule J2)."""
        raise NotImplementedError("a chord of lane jobs is refused: its polling task would wait in a lane")
