"""A store with groups, sites and targets, a clock that a test moves by hand, and short words for a job's life."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

from sqlalchemy import Connection, Table, insert, select, update

from config.errors import Evidence, HostCooldown
from config.settings import Settings
from models.attempt import limits_of
from models.claim import Claim, Started
from models.db import Database
from models.groups import cooldowns, lane_wake, rate_groups
from models.jobs import attempts, jobs
from models.ledger import Ledger, NewJob, Settled, Submitted
from models.outcome import Ended, Tally, Verdict, judge
from models.reaper import Reaper
from models.sites import interval_history, sites, targets
from models.workers import counters
from tests.support.servers import wait_until

START = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
#: groups, their sites, and the targets of these: enough for most tests
SMALL: dict[str, dict[str, list[str]]] = {"g1": {"s1": ["t1", "t1b"]}, "g2": {"s2": ["t2"]}, "g3": {"s3": ["t3"]}}


@dataclass
class Clock:
    """The moment that a ledger hands to its statements; it moves only when a test says so."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> datetime:
        """Move the clock and return the new moment."""
        self.now += timedelta(seconds=seconds)
        return self.now


def seed(
    db: Database, shape: Mapping[str, Mapping[str, Sequence[str]]], *, interval_sec: float = 10.0,
    now: datetime = START,
) -> None:
    """Store groups with their sites and targets: ``{group: {site: [target, …]}}``."""
    times = {"created_at": now, "updated_at": now}
    all_sites = [(key, site, codes) for key, homes in shape.items() for site, codes in homes.items()]
    with db.write() as conn:
        conn.execute(insert(rate_groups), [{"key": key, "created_at": now} for key in sorted(shape)])
        for key, site, _ in all_sites:
            conn.execute(insert(sites).values(
                site_code=site, base_url=f"http://{site}.example.org/", cms_adapter="list", group_key=key,
                group_rule="test", options={}, **times))
        rows = [
            {"target_code": code, "site_code": site, "interval_sec": interval_sec, "track_checkpoint": True,
             "enabled": True, "options": {}, "options_hash": "h", **times} for _, site, codes in all_sites
            for code in codes]
        if rows:
            conn.execute(insert(targets), rows)


def objection(kind: str = "rate", status: int | None = 429, retry_after_sec: float | None = None) -> HostCooldown:
    """Return what a body raises when its site's firewall objects."""
    evidence = Evidence(kind, status, "http://s1.example.org/list", signs=("status",), headers={"Server": "waf"},
                        body="slow down", retry_after_raw=None if retry_after_sec is None else str(retry_after_sec))
    return HostCooldown(evidence, retry_after_sec)


@dataclass
class Bench:
    """A ledger under a test's clock, and what the tests ask it for."""

    db: Database
    settings: Settings = field(default_factory=Settings)
    #: `models.ledger.no_clock` leaves the time to the database
    clock: Any = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.db, self.settings, now=self.clock)
        self.limits = limits_of(self.settings)
        self.reaper = Reaper(self.ledger, self.limits)

    def submit(self, target: str = "t1", conn: Connection | None = None, **more: Any) -> Submitted:
        """Submit a job of `target`."""
        return self.ledger.submit(conn, NewJob(target_code=target, **more))

    def claims(self, slots: int = 10, *, worker: str = "w", lanes: list[str] | None = None) -> list[Claim]:
        """Fold, then claim once with `slots` free slots."""
        self.ledger.fold()
        return self.ledger.claim(slots, worker, f"boot-{worker}", lanes).claims

    def claim(self, *, worker: str = "w", lanes: list[str] | None = None) -> Claim:
        """Claim exactly one job."""
        found = self.claims(1, worker=worker, lanes=lanes)
        assert len(found) == 1, f"one claim was expected, not {found}"
        return found[0]

    def begin(self, target: str = "t1", **more: Any) -> Started:
        """Submit a job of `target`, claim what comes first in its lane and start it."""
        group = self.submit(target, **more).group
        return self.start(self.claim(lanes=[f"^{re.escape(group)}$"]))

    def start(self, claim: Claim) -> Started:
        """Write that the body of `claim` begins."""
        return self.ledger.start(claim.job_id, claim.attempt)

    def verdict(self, started: Started, ended: Ended, *, page: int | None = None, backoff_sec: float = 5.0) -> Verdict:
        """Decide about the end of an attempt as its own process would; `page` is the last page that it completed."""
        values = {**vars(started.tally), "last_completed_page": page or started.tally.last_completed_page}
        return judge(ended, Tally(**values), self.limits, backoff_sec=backoff_sec)

    def settle(
        self, started: Started, error: BaseException | None = None, *, result: Any = None, page: int | None = None,
        **more: Any,
    ) -> Settled:
        """End an attempt as if its body had returned `result` or raised `error`."""
        verdict = self.verdict(started, Ended(result=result, error=error, traceback="" if error is None else "Traceback"),
                               page=page)
        return self.ledger.settle(started.claim, verdict, site_code=started.site_code, **more)

    def job(self, job_id: str) -> dict[str, Any]:
        """Return a job's row."""
        return self._one(jobs, jobs.c.job_id == job_id)

    def attempt(self, job_id: str, number: int = 1) -> dict[str, Any]:
        """Return the history row of an attempt."""
        return self._one(attempts, attempts.c.job_id == job_id, attempts.c.attempt == number)

    def group(self, key: str = "g1") -> dict[str, Any]:
        """Return a group's row."""
        return self._one(rate_groups, rate_groups.c.key == key)

    def target(self, code: str = "t1") -> dict[str, Any]:
        """Return a target's row."""
        return self._one(targets, targets.c.target_code == code)

    def count(self, name: str) -> int:
        """Return a counter of what was refused or repaired."""
        with self.db.read() as conn:
            return int(conn.execute(select(counters.c.value).where(counters.c.name == name)).scalar() or 0)

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """Return all rows of a table, in the order of its first column."""
        with self.db.read() as conn:
            return [dict(row) for row in conn.execute(select(table).order_by(next(iter(table.c)))).mappings()]

    def change(self, table: Table, *where: Any, **values: Any) -> None:
        """Overwrite columns of rows behind the ledger's back."""
        with self.db.write() as conn:
            conn.execute(update(table).where(*where).values(**values))

    def everything(self) -> dict[str, list[dict[str, Any]]]:
        """Return every row that a job's life touches, for "nothing was changed"."""
        return {table.name: self.rows(table) for table in (
            jobs, attempts, rate_groups, lane_wake, cooldowns, interval_history, targets)}

    def _one(self, table: Table, *where: Any) -> dict[str, Any]:
        with self.db.read() as conn:
            return dict(conn.execute(select(table).where(*where)).mappings().one())


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    """Run `work` in a thread of its own; its answer or exception is in the future."""
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer


def wait_until_blocked(db: Database, *, number: int = 1, timeout: float = 10.0) -> None:
    """Return once `number` connections of this PostgreSQL database wait for a lock that another one holds."""

    def blocked() -> bool:
        with db.read() as conn:
            found = conn.exec_driver_sql(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
                "AND cardinality(pg_blocking_pids(pid)) > 0").scalar_one()
        return int(found) >= number

    wait_until(blocked, f"{number} waiting for a lock", timeout)


@contextmanager
def held_group(db: Database, key: str) -> Iterator[Connection]:
    """Hold a group's row, as a claim or a settle would, until the block ends."""
    with db.write() as conn:
        conn.exec_driver_sql("SELECT key FROM rate_groups WHERE key = %s FOR NO KEY UPDATE", (key,)).one()
        yield conn


@contextmanager
def held_gate(db: Database, number: int) -> Iterator[None]:
    """Hold the advisory lock `number`, at which a function made by `gated_copy` waits, until the block ends."""
    with db.write() as conn:
        conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({number})")
        yield


def gated_copy(db: Database, name: str, anchor: str, gate: str, rename: Mapping[str, str] | None = None) -> str:
    """Install a copy of a stored function that runs `gate` directly before the line `anchor`; return the copy's name.

    The text is that of `functions.sql` but for `gate` and, with `rename`, the functions that it calls.
    """
    script = files("models").joinpath("statements", "functions.sql").read_text(encoding="utf-8")
    found = re.search(rf"CREATE OR REPLACE FUNCTION {name}\(.*?\nEND \$\$;", script, re.DOTALL)
    assert found is not None, f"no function {name}"
    text = found.group().replace(name, f"{name}_gated")
    assert text.count(anchor) == 1, f"{anchor!r} stands {text.count(anchor)} times in {name}"
    text = text.replace(anchor, f"{gate}{anchor}")
    for old, new in (rename or {}).items():
        assert old in text, f"{name} does not call {old}"
        text = text.replace(old, new)
    with db.write() as conn:
        cursor = conn.connection.cursor()
        cursor.execute(text)
        cursor.close()
    return f"{name}_gated"
