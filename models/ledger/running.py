"""What a running attempt reads and writes, and the leases that allow it to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from config import clock
from config.errors import StaleClaim
from config.probes import probe
from models.claim import Claim, Commit, Pulse, Started, started_of
from models.direct import Direct
from models.ledger.books import Books
from models.outcome import storable
from models.statements import article_commits, pauses, queueing, running, snapshots, stored


class Running(Books):
    """The verbs of attempts that run, and of the workers that run them."""

    def start(self, job_id: str, attempt: int) -> Started:
        """Write that the body of this attempt begins; raises StaleClaim if it may not (somebody did, or it is over)."""
        limit = self.settings.park_after_sec + self.settings.request_timeout_sec
        with self.db.once() as conn:
            row = conn.execute(
                running.START, {"b_job": job_id, "b_attempt": attempt, "b_busy": limit, **self.at()}).first()
        if row is None:
            raise StaleClaim(job_id, attempt, "it was started, handed back or settled before")
        claim = Claim(row.job_id, row.attempt, row.claim_no, row.group_key, row.kind, row.target_code)
        return started_of(claim, row)

    def pulse(self, job_id: str, attempt: int) -> Pulse:
        """Read what a running body has to know of its row; raises StaleClaim if the attempt is no longer current."""
        with self.db.read() as conn:
            row = conn.execute(running.PULSE, {"b_job": job_id, "b_attempt": attempt, **self.at()}).first()
        if row is None:
            raise StaleClaim(job_id, attempt)
        # the one that holds longest is the one to name (rule R9)
        held, reason = max(
            (row.held_sec or 0.0, row.operator_pause_reason), (row.fleet_sec or 0.0, row.fleet_reason),
            (row.cooling_sec or 0.0, row.pause_reason), key=lambda one: one[0])
        return Pulse(row.remaining_sec, bool(row.stop_requested), bool(row.park_requested), max(0.0, held), reason or "",
                     row.quiet_sec)

    def busy(self, job_id: str, attempt: int, seconds: float) -> None:
        """Write that the body may be silent for `seconds` from now on (rule J6); raises StaleClaim."""
        with self.db.write() as conn:
            found = conn.execute(
                running.BUSY, {"b_job": job_id, "b_attempt": attempt, "b_busy": seconds, **self.at()})
            if not found.rowcount:
                raise StaleClaim(job_id, attempt)

    def commit(self, job_id: str, attempt: int, group: str, what: Commit) -> None:
        """Store what a body has done since its last commit, in one fenced transaction; raises StaleClaim."""
        probe("committing", job_id, attempt)
        if not (what.is_one_article and self._store_new(job_id, attempt, group, what)):
            self._store_all(job_id, attempt, group, what)
        if what.crawl_delay_sec is not None or what.usual_latency_sec is not None:
            # the group's row after the job's transaction: the order of locks is group first
            with self.db.write() as conn:
                conn.execute(pauses.set_pace(group, job_id, attempt, crawl_delay_sec=what.crawl_delay_sec,
                                             usual_latency_sec=what.usual_latency_sec))
        probe("committed", job_id, attempt)

    def _store_all(self, job_id: str, attempt: int, group: str, what: Commit) -> None:
        fence = {"b_job": job_id, "b_attempt": attempt}
        # before a connection is taken: the server's clock may have to be asked on another one
        late, moment = _late(what), self.moment()
        with self.db.write() as conn:
            found = conn.execute(running.COMMIT, {
                **fence, "b_progress": storable(what.progress), "b_page": what.current_page,
                "b_done_page": what.last_completed_page, "b_checkpoint": storable(what.checkpoint),
                "b_seen": storable(what.cooldown_seen),
                "b_age": None if what.response_age_sec is None else what.response_age_sec + late,
                "b_gap": what.response_interval_sec,
                "b_busy": self.settings.park_after_sec + self.settings.request_timeout_sec, **moment})
            if not found.rowcount:
                raise StaleClaim(job_id, attempt)
            self._store(conn, what)
            if what.requests:
                rows = [{**clean(row), "b_started": row["b_started"] + late, "b_ended": row["b_ended"] + late, **fence,
                         "b_group": group, **moment} for row in what.requests]
                conn.execute(running.LOG_REQUESTS[self.db.dialect], rows)
            for copy in what.robots:
                running.keep_robots(conn, clean(copy))
            self._note_target(conn, job_id, what)
            probe("in_transaction", job_id, attempt)

    def _store_new(self, job_id: str, attempt: int, group: str, what: Commit) -> bool:
        """Store a new article the short way; False, with nothing written, if that is not what there is to do."""
        article, progress = clean(what.articles[0]), storable(what.progress)
        if not article.keys() >= article_commits.COLUMNS:
            return False

        # before a connection is taken: the server's clock may have to be asked on another one
        late, moment = _late(what), self.moment()

        def work(conn: Direct) -> bool:
            job = {"job": job_id, "attempt": attempt, "group": group, "progress": progress, "page": what.current_page,
                   "age": None if what.response_age_sec is None else what.response_age_sec + late,
                   "gap": what.response_interval_sec, "answered": list(what.answered_lists),
                   "busy": self.settings.park_after_sec + self.settings.request_timeout_sec}
            rows = [{**clean(row), "b_started": row["b_started"] + late, "b_ended": row["b_ended"] + late}
                    for row in what.requests]
            stored = article_commits.store(conn, job, article, rows, moment.get("p_now"))
            if self.db.dialect == "sqlite":  # on PostgreSQL the one statement was the whole transaction
                probe("in_transaction", job_id, attempt)
            return stored

        return self.db.together(work)

    def _store(self, conn: Connection, what: Commit) -> None:
        for article in what.articles:
            stored.upsert_article(conn, clean(article))
        for alias in what.aliases:
            stored.upsert_alias(conn, clean(alias))
        for item in what.failed_items:
            stored.upsert_failed_item(conn, clean(item))
        for url in what.unchanged:
            conn.execute(stored.UNCHANGED, {"b_target": what.target_code, "b_url": url})
        if what.stat_date is not None and what.target_code is not None and what.listed:
            snapshots.listed(conn, what.stat_date, what.target_code, what.listed, **self.at())
        if what.site_code is not None and what.candidates:
            snapshots.seen_candidates(conn, what.site_code, [clean(row) for row in what.candidates], **self.at())
        if what.vitals:
            snapshots.keep_vitals(conn, [clean(row) for row in what.vitals], **self.at())

    def _note_target(self, conn: Connection, job_id: str, what: Commit) -> None:
        if what.target_code is None:
            return
        target = {"b_target": what.target_code}
        if what.read_after_all:
            conn.execute(stored.forget_failed_items(what.target_code, what.read_after_all))
        if what.answered_lists:
            conn.execute(stored.forget_validators(what.target_code, what.answered_lists))
        if what.validators is not None:
            stored.keep_validators(conn, clean({"target_code": what.target_code, **what.validators}))
        if what.frontier is not None:
            conn.execute(running.MOVE_FRONTIER, {**target, "b_generation": what.frontier, **self.at()})
        if what.outcome is not None:
            conn.execute(running.NOTE_CRAWL, {**target, "b_outcome": what.outcome, "b_job": job_id, **self.at()})
        if what.weak_403:
            conn.execute(running.WEAK_403, target)

    def park(self, job_ids: Sequence[str], boot_id: str) -> None:
        """Ask this worker's running jobs to go to their next stop point: the worker is stopping (rule D5)."""
        if job_ids:
            with self.db.write() as conn:
                conn.execute(running.park_running(list(job_ids), boot_id))

    def renew(self, pairs: Sequence[tuple[str, int]]) -> list[tuple[str, int, str, float, bool]]:
        """Renew the leases of exactly these (job, attempt) pairs; see `statements.postgres.renew` (rule J6)."""
        if not pairs:
            return []
        with self.db.once() as conn:
            answers: list[tuple[str, int, str, float, bool]] = self.hot.renew(
                conn, list(pairs), lease_sec=self.settings.lease_sec, stall_sec=self.settings.stall_after_sec,
                now=self._now())
            return answers

    def greet(self, row: dict[str, Any]) -> None:
        """Write the row of a worker that has started."""
        with self.db.write() as conn:
            queueing.greet(conn, row)

    def seen(self, boot_id: str, *, trouble: str = "", stopped: bool = False) -> None:
        """Renew a worker's row: it is alive, and consumes unless `trouble` names why not, or it has stopped."""
        with self.db.write() as conn:
            conn.execute(queueing.worker_seen(boot_id, trouble=trouble, stopped=stopped), self.at())


def _late(what: Commit) -> float:
    """Return for how long a commit has waited for its turn: so much older is what it tells of (rule P5)."""
    return 0.0 if what.aged_at is None else max(0.0, clock.monotonic() - what.aged_at)


def clean(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose texts every database keeps: a page can hold a NUL or half a character."""
    return {name: storable(value) if isinstance(value, str | dict) else value for name, value in row.items()}
