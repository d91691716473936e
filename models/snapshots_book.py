"""The only writer of what is known of stat dates as a whole, of candidates that are gone, and of vitals without a job.

What it owns: the rows of `snapshots`, the seeded ones of `snapshot_items`. What an attempt finds (listed items,
candidates, vitals) travels in its own fenced commits (see `models.ledger.running`); what is older than it is kept, the
ledger's upkeep deletes.

Invariants: a portion that belongs to a job is fenced by it: the transaction writes on the running row first. A seed never
touches what was really seen on its day. When it dies in the middle: whole portions are there; doing it again repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from config.errors import StaleClaim
from models.ledger.books import Books
from models.statements import running, snapshots, upkeep

SEED_AT_ONCE, DROP_AT_ONCE = 5_000, 1_000
#: before every key (target, URL)
FIRST = ("", "")


class Fence(NamedTuple):
    """The attempt that does the work, and for how long it may be silent behind each write."""

    job_id: str
    attempt: int
    busy_sec: float


def completed(conn: Connection, day: date, run_id: int, run_started_at: datetime, at: datetime) -> None:
    """Note, in the caller's transaction, that a run has completed the snapshot of `day` (the schedule's clock)."""
    snapshots.set_completed(conn, day, run_id, run_started_at, at)


def keep_vitals(conn: Connection, rows: Sequence[Mapping[str, Any]], **at: Any) -> None:
    """Note, in the caller's transaction, how sites answered, as far as that needs no job.

    Each of `rows` is ``{"site_code", "state", "reason", "status", "latency_sec"}``.
    """
    if rows:
        snapshots.keep_vitals(conn, rows, **at)


class SnapshotBook(Books):
    """The verbs that jobs do in portions: each is a transaction of its own."""

    def unseen_targets(self, day: date) -> list[str]:
        """Return the targets of a stat date of which nothing was really seen that day."""
        with self.db.read() as conn:
            return snapshots.unseen_targets(conn, day)

    def seed(
        self, day: date, source: date, behind: tuple[str, str], unseen: Sequence[str], fence: Fence | None = None
    ) -> tuple[tuple[str, str] | None, int]:
        """Clone the next portion of the items of `source` into `day`; returns its last key, None at the end, and how many
        items it covered. Raises StaleClaim.
        """
        with self.db.read() as conn:
            last, count = snapshots.key_after(conn, source, behind, SEED_AT_ONCE)
        if last is None:
            return None, 0
        with self.db.write() as conn:
            self._hold(conn, fence)
            snapshots.seed(conn, day, source, behind, last, unseen)
        return last, count

    def seeded(self, day: date, source: date, at: datetime, fence: Fence | None = None) -> None:
        """Note that `day` is seeded from `source`, at a moment of the schedule's clock; raises StaleClaim."""
        with self.db.write() as conn:
            self._hold(conn, fence)
            snapshots.set_seeded(conn, day, source, at)

    def drop_candidates(self, unseen_sec: float, fence: Fence | None = None) -> int:
        """Delete a portion of the candidates that were not seen for so long; returns how many. Raises StaleClaim."""
        with self.db.write() as conn:
            self._hold(conn, fence)
            before = conn.execute(upkeep.moment_before(unseen_sec), self.at()).scalar_one()
            return int(conn.execute(snapshots.drop_candidates(DROP_AT_ONCE), {"b_before": before}).rowcount)

    def _hold(self, conn: Connection, fence: Fence | None) -> None:
        if fence is None:
            return
        held = {"b_job": fence.job_id, "b_attempt": fence.attempt, "b_busy": fence.busy_sec}
        found = conn.execute(running.BUSY, {**held, **self.at()})
        if not found.rowcount:
            raise StaleClaim(fence.job_id, fence.attempt)

