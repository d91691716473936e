"""Whether what `why` says is so: each reason looked up in the rows themselves, and what a claim would really take.

Nothing here is shared with the code that gives the reasons: plain loops over every row of the store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from models.groups import fleet, rate_groups
from models.jobs import attempts, jobs
from models.sites import sites, targets
from models.workers import workers
from tests.support.ledger import Bench

Row = dict[str, Any]
HEARTBEAT_SEC = 10.0


class Undo(Exception):
    """Ends a transaction without keeping anything of it."""


@dataclass
class World:
    """Every row that a reason can be about, and the moment."""

    now: datetime
    jobs: list[Row]
    groups: dict[str, Row]
    homes: dict[str, str]
    fleet: Row
    workers: list[Row]
    attempts: dict[tuple[str, int], Row]
    targets: dict[str, Row]

    @classmethod
    def of(cls, bench: Bench) -> World:
        """Read it all."""
        return cls(
            bench.clock.now, bench.rows(jobs), {row["key"]: row for row in bench.rows(rate_groups)},
            {row["site_code"]: row["group_key"] for row in bench.rows(sites)}, bench.rows(fleet)[0], bench.rows(workers),
            {(row["job_id"], row["attempt"]): row for row in bench.rows(attempts)},
            {row["target_code"]: row for row in bench.rows(targets)})

    def running(self) -> list[Row]:
        return [row for row in self.jobs if row["status"] == "running"]

    def later(self, moment: datetime | None) -> bool:
        return moment is not None and moment > self.now

    def occupied(self, row: Row) -> int:
        return sum(1 for one in self.running() if one["boot_id"] == row["boot_id"])

    def living(self, key: str) -> list[Row]:
        """Workers that were heard of within three heartbeats and serve the lane."""
        limit = self.now - timedelta(seconds=3 * HEARTBEAT_SEC)
        return [row for row in self.workers if row["stopped_at"] is None and row["heartbeat_at"] >= limit
                and (row["lanes"] is None or any(re.search(lane, key) for lane in row["lanes"]))]

    def working(self, key: str) -> list[Row]:
        """Those of them that look for work."""
        limit = self.now - timedelta(seconds=3 * HEARTBEAT_SEC)
        return [row for row in self.living(key) if row["consuming_at"] >= limit and not row["trouble"]]

    def opens(self, job: Row) -> datetime:
        group = self.groups[job["group_key"]]
        gates = [self.now, job["run_after"], group["pause_until"], group["operator_pause_until"],
                 group["next_request_at"], self.fleet["operator_pause_until"]]
        return max(gate for gate in gates if gate is not None)

    def before(self, job: Row) -> list[Row]:
        """Jobs that stand before one in its lane and are due when it can be taken, in order."""
        def order(row: Row) -> tuple[Any, ...]:
            return row["priority"], row["queue_at"], row["seq"]

        by = self.opens(job)
        return sorted((row for row in self.jobs if row["status"] == "queued" and row["group_key"] == job["group_key"]
                       and order(row) < order(job) and (row["run_after"] is None or row["run_after"] <= by)
                       and (row["expires_at"] is None or row["expires_at"] > self.now)), key=order)


def _not_due(world: World, job: Row, reason: Row) -> bool:
    return world.later(job["run_after"]) and reason["until"] in (job["run_after"], None)


def _parked(world: World, job: Row, reason: Row) -> bool:
    tried = world.attempts[job["job_id"], job["attempt"]]
    return _not_due(world, job, reason) and tried["outcome"] in {"parked", "soft_stop", "paused"}


def _handed_back(world: World, job: Row, reason: Row) -> bool:
    tried = world.attempts[job["job_id"], job["attempt"]]
    return _not_due(world, job, reason) and tried["outcome"] in {"handed_back", "older_body_lives", "worker_lost"} \
        and tried["started_at"] is None


def _behind(world: World, job: Row, reason: Row) -> bool:
    before = world.before(job)
    return bool(before) and reason["by"] == before[0]["job_id"] and f"behind {len(before)} job" in reason["text"]


def _group_running(world: World, job: Row, reason: Row) -> bool:
    return any(row["job_id"] == reason["by"] and row["group_key"] == job["group_key"] for row in world.running())


def _cooldown(world: World, job: Row, reason: Row) -> bool:
    until = world.groups[job["group_key"]]["pause_until"]
    return world.later(until) and reason["until"] == until


def _paused(world: World, job: Row, reason: Row) -> bool:
    both = [world.groups[job["group_key"]]["operator_pause_until"], world.fleet["operator_pause_until"]]
    ends = [until for until in both if world.later(until)]
    return bool(ends) and any(reason["until"] == (None if until.year == 9999 else until) for until in ends)


def _interval(world: World, job: Row, reason: Row) -> bool:
    until = world.groups[job["group_key"]]["next_request_at"]
    return world.later(until) and reason["until"] == until


def _site_busy_elsewhere(world: World, job: Row, reason: Row) -> bool:
    key = job["group_key"]
    if reason["by"] == world.homes.get(job["site_code"]) != key:
        return True
    return any(row["job_id"] == reason["by"] and row["group_key"] != key
               and (row["site_code"] == job["site_code"] or world.homes.get(row["site_code"]) == key)
               for row in world.running())


def _worker_lost(world: World, job: Row, reason: Row) -> bool:
    return any(row["lease_until"] <= world.now and row["worker"] == reason["by"]
               and (row["group_key"] == job["group_key"] or row["site_code"] == job["site_code"]
                    or world.homes.get(row["site_code"]) == job["group_key"]) for row in world.running())


def _no_worker(world: World, job: Row, reason: Row) -> bool:
    living = world.living(job["group_key"])
    return not world.working(job["group_key"]) and not any(row["trouble"] == "broker_down" for row in living)


def _broker_down(world: World, job: Row, reason: Row) -> bool:
    living = world.living(job["group_key"])
    return not world.working(job["group_key"]) and any(row["trouble"] == "broker_down" for row in living)


def _no_free_slot(world: World, job: Row, reason: Row) -> bool:
    working = world.working(job["group_key"])
    free = sum(max(0, row["concurrency"] - world.occupied(row)) for row in working)
    ready = [row for row in world.groups.values() if row["ready_at"] is not None and row["ready_at"] <= world.now]
    return bool(working) and (free == 0 or len(ready) > free)


def _running(world: World, job: Row, reason: Row) -> bool:
    return bool(job["status"] == "running" and reason["by"] == job["worker"])


def _finished(world: World, job: Row, reason: Row) -> bool:
    expired = job["status"] == "queued" and job["expires_at"] is not None and job["expires_at"] <= world.now
    return expired or job["status"] in {"done", "failed", "cancelled"}


def _starting(world: World, job: Row, reason: Row) -> bool:
    return any(row["name"] == reason["by"] for row in world.working(job["group_key"]))


CHECKS: Mapping[str, Callable[[World, Row, Row], bool]] = {
    "not_due": _not_due, "parked": _parked, "handed_back": _handed_back, "behind": _behind,
    "group_running": _group_running, "cooldown": _cooldown, "paused": _paused, "interval": _interval,
    "site_busy_elsewhere": _site_busy_elsewhere, "worker_lost": _worker_lost, "no_worker": _no_worker,
    "broker_down": _broker_down, "no_free_slot": _no_free_slot, "running": _running, "finished": _finished,
    "starting": _starting,
}
#: with these alone nothing keeps a job from being taken
OPEN = frozenset({"starting", "running", "finished"})


def taken_now(bench: Bench, world: World) -> tuple[set[str], set[str]]:
    """Let every worker that looks for work look now, with all its free slots, and take it all back.

    Returns the jobs that they would have got, and the names of those who had no slot left.
    """
    got: set[str] = set()
    full: set[str] = set()
    hot, now = bench.ledger.hot, bench.clock.now
    try:
        with bench.db.write() as conn:
            hot.fold(conn, 1_000, now)
            hot.lock_groups(conn, sorted(world.groups))
            hot.refresh(conn, sorted(world.groups), now)
            for row in sorted(world.workers, key=lambda one: (one["name"], one["started_at"])):
                free = max(0, row["concurrency"] - world.occupied(row)) if looks(world, row) else 0
                for _ in range(8):
                    if free:
                        found = hot.claim(conn, slots=free, worker=row["name"], boot_id=row["boot_id"], lease_sec=60.0,
                                          lanes=row["lanes"], now=now).claims
                        got |= {claim.job_id for claim in found}
                        free -= len(found)
                if not free:
                    full.add(row["name"])
            raise Undo
    except Undo:
        return got, full


def looks(world: World, row: Row) -> bool:
    """Say whether a worker looks for work at all."""
    key = next(iter(world.groups))
    return any(one["boot_id"] == row["boot_id"] for one in World.working(_any_lane(world, row), key))


def _any_lane(world: World, row: Row) -> World:
    return World(world.now, [], {}, {}, world.fleet, [{**row, "lanes": None}], {}, {})


def untrue(world: World, job: Row, reasons: Sequence[Row]) -> list[str]:
    """Return the reasons that are not so."""
    return [f"{one['code']}: {one['text']}" for one in reasons if not CHECKS[one["code"]](world, job, one)]
