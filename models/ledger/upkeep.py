"""Expiry and retention: what happens to jobs because time has passed.

Each portion is a short transaction of its own. A worker that dies between two of them has left nothing half done: what
it did not come to is found again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from config.logs import log_event
from models.ledger.books import Books, log
from models.statements import queueing, schedules, snapshots, upkeep

EXPIRE_AT_ONCE = 200
JOBS_AT_ONCE, RUNS_AT_ONCE, ROWS_AT_ONCE = 500, 500, 2_000
DAY_SEC = 86_400.0
#: robots.txt is used for a day, a worker that is away for one is still listed, and a notice must outlive what it tells of
_ROBOTS_DAYS, _WORKER_DAYS, _NOTICE_DAYS = 2, 1, 2
PRUNED = ("jobs", "attempts", "requests", "cooldowns", "runs", "run_job", "interval_history", "operations", "notices",
          "robots_copies", "workers", "lane_wake", "snapshots", "snapshot_items", "vitals")


@dataclass(frozen=True)
class Pruned:
    """How many rows were deleted, by table; `finished` is false if some that are no longer kept are left."""

    rows: dict[str, int]
    finished: bool


class Upkeep(Books):
    """The verbs of time that has passed."""

    def expire(self) -> int:
        """Cancel queued jobs past their `expires_at`, a bounded number at once; returns how many (rule J1).

        A look without a lock comes first. A group that somebody holds just now is left for the next time.
        """
        with self.db.read() as conn:
            found = conn.execute(upkeep.expirable(EXPIRE_AT_ONCE, self.db.dialect), self.at()).all()
        if not found:
            return 0
        keys = sorted({row.group_key for row in found})
        with self.db.write() as conn:
            held = set(conn.scalars(upkeep.lock_free(keys)))
            # a job in a group without a row can neither be claimed nor held up by anybody
            free = sorted(held | (set(keys) - set(conn.scalars(upkeep.there(keys)))))
            mine = conn.scalars(upkeep.lock_jobs([row.job_id for row in found])).all()
            ended = conn.execute(upkeep.expire(mine, free), self.at()).all()
            self.hot.refresh(conn, sorted({row.group_key for row in ended} & held), self._now())
        for row in ended:
            log_event(log, "job.expire", job=row.job_id, group=row.group_key)
        return len(ended)

    def prune(self, portions: int | None = None) -> Pruned:
        """Delete what is older than it is kept (rule J17), at most so many portions; articles, queued and running never.

        A job goes with its attempts, by when it finished, unless its callbacks are still to be sent; a run of the schedule
        with the rows of its jobs, by when it ended.
        """
        rows, left = dict.fromkeys(PRUNED, 0), portions
        for step in self._steps():
            for numbers in step:
                for name, number in numbers.items():
                    rows[name] += number
                left = None if left is None else left - 1
                if left is not None and left <= 0:
                    return Pruned(rows, finished=False)
        return Pruned(rows, finished=True)

    def _steps(self) -> Iterator[Iterator[dict[str, int]]]:
        history, log_days = self.settings.retention_days, self.settings.request_log_days
        for status in ("done", "failed", "cancelled"):
            yield self._prune_jobs(status, history)
        yield self._prune_runs(history)
        yield self._prune_by_id("requests", log_days)
        for name in ("cooldowns", "interval_history", "operations"):
            yield self._prune_by_id(name, history)
        yield self._prune_by_time("notices", max(history, _NOTICE_DAYS))
        yield self._prune_by_time("robots_copies", max(log_days, _ROBOTS_DAYS))
        yield self._prune_by_time("workers", max(history, _WORKER_DAYS))
        yield self._prune_by_time("vitals", history)
        yield self._prune_wakes()
        yield self._prune_snapshots(self.settings.snapshot_days)

    def _before(self, days: float) -> datetime:
        with self.db.read() as conn:
            found: datetime = conn.execute(upkeep.moment_before(days * DAY_SEC), self.at()).scalar_one()
            return found

    def _prune_jobs(self, status: str, days: float) -> Iterator[dict[str, int]]:
        before = {"b_before": self._before(days)}
        while True:
            # an idle look must take no lock on SQLite
            with self.db.read() as conn:
                if not conn.scalars(upkeep.old_jobs(status, 1), before).all():
                    return
            with self.db.write() as conn:
                found = conn.scalars(upkeep.old_jobs(status, JOBS_AT_ONCE), before).all()
                gone = conn.scalars(upkeep.delete_jobs(found), before).all()
                tried = conn.execute(upkeep.delete_attempts(gone)).rowcount
            if not gone:
                return  # whoever holds them has a reason
            yield {"jobs": len(gone), "attempts": tried}

    def _prune_runs(self, days: float) -> Iterator[dict[str, int]]:
        """A run goes behind the rows of its jobs: ten thousand targets are no single portion."""
        before = self._before(days)
        while True:
            with self.db.read() as conn:
                if not conn.scalars(schedules.old_runs(before, 1)).all():
                    return
            with self.db.write() as conn:
                found = conn.scalars(schedules.old_runs(before, RUNS_AT_ONCE)).all()
                counted = conn.execute(schedules.drop_run_jobs(found, ROWS_AT_ONCE)).rowcount
                gone = conn.execute(schedules.drop_runs(found)).rowcount if counted < ROWS_AT_ONCE else 0
            if not found:
                return  # somebody has them in hand
            yield {"runs": gone, "run_job": counted}

    def _prune_by_id(self, name: str, days: float) -> Iterator[dict[str, int]]:
        before, behind = self._before(days), 0
        while True:
            with self.db.read() as conn:
                part = conn.execute(upkeep.portion(name, behind, ROWS_AT_ONCE)).one()
            if part.last is None or part.earliest >= before:
                return
            with self.db.write() as conn:
                gone = conn.execute(upkeep.delete_portion(name, behind, part.last), {"b_before": before}).rowcount
            behind = part.last
            yield {name: gone}

    def _prune_by_time(self, name: str, days: float) -> Iterator[dict[str, int]]:
        before = self._before(days)
        with self.db.write() as conn:
            gone = conn.execute(upkeep.delete_old(name), {"b_before": before}).rowcount
        if gone:
            yield {name: gone}

    def _prune_snapshots(self, days: float) -> Iterator[dict[str, int]]:
        before = self._before(days).date()
        while True:
            with self.db.read() as conn:
                day = snapshots.oldest_day(conn, before)
                if day is None:
                    return
                last, _ = snapshots.key_after(conn, day, ("", ""), ROWS_AT_ONCE)
            name, statement = ("snapshots", snapshots.drop_day(day)) if last is None else (
                "snapshot_items", snapshots.drop_items(day, last))
            with self.db.write() as conn:
                gone = conn.execute(statement).rowcount
            yield {name: gone}

    def _prune_wakes(self) -> Iterator[dict[str, int]]:
        with self.db.write() as conn:
            gone = conn.execute(queueing.DROP_LOST_WAKES, self.at()).rowcount
        if gone:
            yield {"lane_wake": gone}
