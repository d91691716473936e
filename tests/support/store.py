"""A fresh, migrated database of a test, with what a user does to it: load a file, submit, cancel, look."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select

from config.settings import Settings, environment
from console.sites_file import read_sites_file
from models import queries
from models.articles import articles
from models.catalogue import Catalogue
from models.db import Database
from models.groups import cooldowns, rate_groups
from models.jobs import attempts, jobs
from models.ledger import Answer, Ledger
from models.migrate import migrate
from models.sites import interval_history
from models.workers import counters, marks
from routing import dispatch, resolver
from tests.support.servers import PostgresServer, wait_until

#: short enough for tests, long enough for two busy cores
FAST: Mapping[str, Any] = {
    "lease_sec": 3.0, "heartbeat_sec": 0.5, "request_timeout_sec": 1.0, "soft_stop_sec": 5.0,
    "cooldown_delay_sec": 2.0, "backoff_base_sec": 0.2, "handover_timeout_sec": 3.0, "poll_sec": 0.1,
    "interval_growth_codes": "gd*",
}


@dataclass
class Store:
    """One test's database and broker."""

    folder: Path
    db: Database
    #: what workers are told; a test may put a proxy in between
    broker_url: str

    def __post_init__(self) -> None:
        self.valkey_url = self.broker_url

    @property
    def shares_home(self) -> bool:
        """Whether all workers must live in one home: a SQLite file belongs to one."""
        return self.db.dialect == "sqlite"

    def settings(self, home: str = "home", **other: Any) -> Settings:
        """Return the settings of a worker in the home called `home`; `other` are stronger than the fast ones."""
        folder = self.folder / ("home" if self.shares_home else home)
        return Settings(**{**FAST, "home": folder, "database_url": self.db.url, "broker_url": self.broker_url, **other})

    def environment(self, home: str = "home", **other: Any) -> dict[str, str]:
        """Return the same as variables for a process."""
        return environment(self.settings(home, **other))

    def load(self, text: str) -> None:
        """Load the text of a sites.yaml."""
        path = self.folder / "sites.yaml"
        path.write_text(text, encoding="utf-8")
        Catalogue(self.db).load(resolver.plan(read_sites_file(path)))

    def submit(self, target_code: str, **options: Any) -> str:
        """Submit a job and return its id."""
        return dispatch.submit(self.db, self.settings(), target_code, **options).job_id

    def claimed(self, job_id: str, number: int) -> datetime:
        """Return when attempt `number` of a job was claimed."""
        with self.db.read() as conn:
            return conn.execute(select(attempts.c.claimed_at).where(
                attempts.c.job_id == job_id, attempts.c.attempt == number)).scalar_one()

    def cancel(self, job_id: str) -> Answer:
        """Cancel a job."""
        return Ledger(self.db, self.settings()).cancel(job_id)

    def job(self, job_id: str) -> dict[str, Any]:
        """Return the document of a job, with its attempts."""
        with self.db.look() as conn:
            return queries.documents(conn, [job_id])[0]

    def row(self, job_id: str) -> Any:
        """Return the row of a job."""
        with self.db.read() as conn:
            return conn.execute(select(jobs).where(jobs.c.job_id == job_id)).one()

    def group(self, key: str) -> Any:
        """Return the row of a rate group."""
        with self.db.read() as conn:
            return conn.execute(select(rate_groups).where(rate_groups.c.key == key)).one()

    def wait_for(self, job_id: str, *status: str, timeout: float = 30.0) -> dict[str, Any]:
        """Return the document of a job once it is in one of these states."""
        try:
            wait_until(lambda: self.row(job_id).status in status, "it", timeout)
        except TimeoutError:
            raise TimeoutError(f"not {'/'.join(status)} within {timeout:g} s: {self.job(job_id)}") from None
        return self.job(job_id)

    def wait_attempt(self, job_id: str, number: int, timeout: float = 15.0) -> Any:
        """Return the row of a job once its attempt `number` has started."""
        wait_until(lambda: (row := self.row(job_id)).attempt >= number and row.started_at, f"attempt {number}", timeout)
        return self.row(job_id)

    def wait_claims(self, job_id: str, number: int, timeout: float = 15.0) -> None:
        """Return once a job has been claimed `number` times, started or not."""
        wait_until(lambda: self.row(job_id).attempt >= number, f"claim {number}", timeout)

    def stored(self, target_code: str) -> list[str]:
        """Return the URLs of the articles of a target that have a text, sorted."""
        with self.db.read() as conn:
            found = conn.execute(select(articles.c.url).where(articles.c.target_code == target_code, articles.c.text != ""))
            return sorted(row.url for row in found)

    def cooldowns(self, group: str) -> list[Any]:
        """Return the history of a group's cooldowns, oldest first."""
        with self.db.read() as conn:
            return list(conn.execute(select(cooldowns).where(cooldowns.c.group_key == group).order_by(cooldowns.c.id)))

    def intervals(self, target_code: str) -> list[tuple[float, float]]:
        """Return the steps of a target's interval, oldest first."""
        with self.db.read() as conn:
            found = conn.execute(select(interval_history).where(
                interval_history.c.target_code == target_code).order_by(interval_history.c.id))
            return [(row.old_interval_sec, row.new_interval_sec) for row in found]

    def counters(self) -> Counter[str]:
        """Return what the protocol has refused or repaired."""
        with self.db.read() as conn:
            return Counter({row.name: row.value for row in conn.execute(select(counters))})

    def marks(self) -> list[str]:
        """Return the names of the moments that workers share."""
        with self.db.read() as conn:
            return list(conn.execute(select(marks.c.name)).scalars())

    def is_free(self) -> bool:
        """Tell whether somebody could write: on SQLite a process may have been frozen in the middle of a write."""
        if not self.shares_home:
            return True
        line = sqlite3.connect(self.db.url.removeprefix("sqlite:///"), timeout=0.2, isolation_level=None)
        try:
            line.execute("BEGIN IMMEDIATE")
            line.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            line.close()
        return True


class Shelf:
    """Where fresh databases come from: migrated once a session, copied for each test."""

    def __init__(self, folder: Path) -> None:
        self._template = folder / "template.sqlite3"
        self._prepared: set[int] = set()

    def sqlite(self, folder: Path) -> Database:
        """Return a migrated SQLite database in `folder`."""
        if not self._template.exists():
            _migrate(f"sqlite:///{self._template}")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._template, folder / "ratelane.sqlite3")
        return Database(f"sqlite:///{folder}/ratelane.sqlite3")

    def postgresql(self, server: PostgresServer) -> Database:
        """Return a migrated database of `server`."""
        if id(server) not in self._prepared:
            server.set_template(_migrate)
            self._prepared.add(id(server))
        return Database(server.create_database())


def _migrate(url: str) -> None:
    db = Database(url)
    migrate(db)
    with db.read() as conn:
        if db.dialect == "sqlite":
            conn.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    db.dispose()
