"""Watching who owns the jobs of a test's database, as somebody who looks at it again and again would see it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from config import clock
from models.db import Database
from models.jobs import attempts, jobs

LOOK_EVERY_SEC = 0.02
#: (job, attempt, worker, boot)
Owner = tuple[str, int, str, str]


class Owners:
    """What was seen: by group the owners in order, and every moment at which something had more than one."""

    def __init__(self) -> None:
        self.by_group: dict[str, list[Owner]] = defaultdict(list)
        self.looks = 0
        self.doubled: list[object] = []

    def of(self, job_id: str) -> list[tuple[int, str]]:
        """Return the attempts of a job that were seen running, each with its worker, in the order seen."""
        return [(one[1], one[2]) for seen in self.by_group.values() for one in seen if one[0] == job_id]

    def look(self, db: Database) -> None:
        """Look once."""
        with db.read() as conn:
            running = conn.execute(select(
                jobs.c.group_key, jobs.c.job_id, jobs.c.attempt, jobs.c.worker, jobs.c.boot_id,
            ).where(jobs.c.status == "running")).all()
            unfinished = conn.execute(select(attempts.c.job_id, attempts.c.attempt).where(
                attempts.c.finished_at.is_(None), attempts.c.outcome.is_(None))).all()
        self.looks += 1
        self._one_each("group", [row.group_key for row in running])
        self._one_each("attempts", [row.job_id for row in unfinished])
        for group, *owner in running:
            seen = self.by_group[group]
            found: Owner = tuple(owner)
            if not seen or seen[-1] != found:
                seen.append(found)

    def _one_each(self, what: str, found: list[str]) -> None:
        self.doubled += [(what, one) for one in set(found) if found.count(one) > 1]


@contextmanager
def owners(db: Database) -> Iterator[Owners]:
    """Watch for the length of the block; at its end fail if a group or a job was ever seen with two owners (rule R3)."""
    seen, over = Owners(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            try:
                seen.look(db)
            except OperationalError:  # SQLite: somebody holds the file just now
                pass
            clock.pause(LOOK_EVERY_SEC)

    watcher = threading.Thread(target=watch, name="owners", daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()
    assert seen.looks > 10
    assert not seen.doubled, seen.doubled[:3]
    for group, found in seen.by_group.items():
        for job_id in {one[0] for one in found}:
            numbers = [one[1] for one in found if one[0] == job_id]
            assert numbers == sorted(set(numbers)), (group, job_id, found)
