"""Submitting, claiming and handing back: what happens to jobs that no body works on."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from config.errors import BadInput
from config.logs import log_event
from config.probes import probe
from models.claim import Claim, Round
from models.ledger.books import Books, log
from models.operations import Operator
from models.statements import queueing, upkeep
from models.statements.operations import log_operation

FOLD_AT_ONCE = 1_000


@dataclass(frozen=True)
class NewJob:
    """What is submitted. `run_after` is a moment, `delay_sec` the same as a wait from now; neither means now.

    `expires_at` and `expires_sec` likewise; a moment that is over already means that it never runs (rule J1).
    """

    kind: str = "crawl"
    target_code: str | None = None
    site_code: str | None = None
    group: str | None = None
    source: str = "manual"
    force: bool = False
    resume_from_page: int = 0
    priority: int = 100
    dedupe_key: str | None = None
    run_after: datetime | None = None
    delay_sec: float | None = None
    expires_at: datetime | None = None
    expires_sec: float | None = None
    max_attempts: int | None = None
    deadline_sec: float | None = None
    options: dict[str, Any] | None = None
    job_id: str | None = None
    #: Celery signatures to send once the job is final: ``{"link": […], "link_error": […]}``
    callbacks: dict[str, Any] | None = None


@dataclass(frozen=True)
class Submitted:
    """The answer to a submit; `created` is false if an active or equally named job answers instead."""

    job_id: str
    created: bool
    group: str
    warnings: tuple[str, ...] = ()


class Queueing(Books):
    """The verbs of jobs that wait."""

    def submit(self, conn: Connection | None, job: NewJob, by: Operator | None = None) -> Submitted:
        """Store a job and wake its lane, in the caller's transaction if `conn` is one; locks nothing (rules J1, J3).

        What is stored for an operator `by` is logged as an operation. Raises BadInput for an unknown target.
        """
        if conn is not None:
            return self._submit(conn, job, by)
        with self.db.write() as own:
            return self._submit(own, job, by)

    def _submit(self, conn: Connection, job: NewJob, by: Operator | None) -> Submitted:
        site, group = job.site_code, job.group
        warnings: tuple[str, ...] = ()
        if job.target_code is not None:
            facts = conn.execute(queueing.facts_of_target(job.target_code)).first()
            if facts is None:
                raise BadInput(f"unknown target {job.target_code!r}")
            # a job in an internal lane sends nothing to the site: it must not wait for the site's own jobs (rule R3)
            site, group = (None, group) if group is not None else (facts.site_code, facts.group_key)
            if not facts.enabled:
                warnings = (f"target {job.target_code} is disabled",)
        if group is None:
            raise BadInput("a job needs a target or a group")
        row: dict[str, Any] = {
            "job_id": job.job_id or secrets.token_hex(6), "kind": job.kind, "site_code": site,
            "target_code": job.target_code, "group_key": group, "source": job.source, "priority": job.priority,
            "dedupe_key": job.dedupe_key, "force": job.force, "options": job.options, "callbacks": job.callbacks,
            "max_attempts": job.max_attempts or self.settings.max_attempts, "deadline_sec": job.deadline_sec,
            "resume_from_page": max(0, job.resume_from_page), "last_completed_page": max(0, job.resume_from_page),
            "row_page": max(0, job.resume_from_page),
        }
        row |= {name: moment for name, moment in (("run_after", job.run_after), ("expires_at", job.expires_at)) if moment}
        delay = max(0.0, job.delay_sec) if job.delay_sec else None
        while True:
            made = queueing.insert_job(conn, row, delay, job.expires_sec, **self.at())
            if made is not None:
                conn.execute(queueing.wake(group, job.run_after, delay), self.at())
                self.notify(conn)
                if by is not None:
                    log_operation(conn, by, "submit", at=self.at(), job_id=made, group_key=group, target_code=job.target_code)
                log_event(log, "job.submit", job=made, group=group, target=job.target_code, kind=job.kind)
                return Submitted(made, True, group, warnings)
            found = queueing.active(conn, row["job_id"] if job.job_id else None, job.dedupe_key)
            if found is not None and not (found.job_id != job.job_id and self._expired(conn, found)):
                return Submitted(found.job_id, False, found.group_key, warnings)
            if job.job_id is None:
                row["job_id"] = secrets.token_hex(6)

    def _expired(self, conn: Connection, found: Any) -> bool:
        """Cancel the job whose dedupe key stands in the way if it is past its `expires_at`; tells whether it was.

        Nobody may claim such a job, so this needs no lock of its group (rules J1, J3).
        """
        ended = conn.execute(upkeep.expire([found.job_id]), self.at()).first() is not None
        if ended:
            log_event(log, "job.expire", job=found.job_id, group=found.group_key)
        return ended

    def fold(self) -> int:
        """Fold what submits left behind into the groups; returns how many groups changed. A transaction of its own."""
        if self.db.dialect == "sqlite" and not self._anything("lane_wake"):
            return 0
        with self.db.once() as conn:
            return int(self.hot.fold(conn, FOLD_AT_ONCE, self._now()))

    def claim(self, slots: int, worker: str, boot_id: str, lanes: Sequence[str] | None = None) -> Round:
        """Take the heads of up to `slots` ready groups (rule J4); `lanes` are patterns of group keys, None for all."""
        if self.db.dialect == "sqlite" and not self._anything("ready"):
            return Round(0, [], self.next_ready(lanes))
        try:
            found = self._claim(slots, worker, boot_id, lanes)
        except IntegrityError:
            log_event(log, "claim.refused_by_index", worker=worker)
            found = self._claim_apart(slots, worker, boot_id, lanes)
        for claim in found.claims:
            probe("claimed", claim.job_id, claim.attempt)
        return found

    def _claim(self, slots: int, worker: str, boot_id: str, lanes: Sequence[str] | None) -> Round:
        with self.db.once() as conn:
            found: Round = self.hot.claim(
                conn, slots=slots, worker=worker, boot_id=boot_id, lease_sec=self.settings.lease_sec, lanes=lanes,
                now=self._now())
            return found

    def _claim_apart(self, slots: int, worker: str, boot_id: str, lanes: Sequence[str] | None) -> Round:
        """A unique index refused a round: go group by group, and push the refused ones a second away."""
        taken: list[Claim] = []
        locked = 0
        for _ in range(slots):
            try:
                one = self._claim(1, worker, boot_id, lanes)
            except IntegrityError:
                with self.db.write() as conn:
                    conn.execute(queueing.push_first_ready(lanes, self.db.dialect), self.at())
                continue
            locked += one.locked
            taken += one.claims
            if not one.locked:
                break
        return Round(locked, taken, self.next_ready(lanes))

    def _anything(self, what: str) -> bool:
        """Look without a lock whether a claim or a fold could find anything (SQLite: an idle look must not lock)."""
        with self.db.read() as conn:
            return conn.execute(queueing.LOOKS[what], self.at() if what == "ready" else {}).first() is not None

    def hand_back(
        self, job_id: str, attempt: int, group: str, why: str = "handed_back", *, wait_sec: float = 0.0,
        begun: bool = False,
    ) -> bool:
        """Give a claim back that never started; nothing is spent. Returns whether it was given back.

        With `begun` also one that began with its claim: its own process knows that the body has not run, and will not.
        `wait_sec` keeps it from being claimed again at once. A job that was asked to stop meanwhile becomes cancelled
        instead (rule J10).
        """
        with self.db.write() as conn:
            self.hot.lock_groups(conn, [group])
            what = {"b_job": job_id, "b_attempt": attempt, **self.at()}
            status = conn.execute(queueing.HAND_BACK, {**what, "b_begun": begun}).scalar()
            if status is None:
                return False
            conn.execute(queueing.CLOSE_ATTEMPT, {**what, "b_outcome": why if status == "queued" else status})
            if wait_sec:
                conn.execute(queueing.put_off(job_id, wait_sec), self.at())
            queueing.count(conn, "handed_back")
            self.hot.refresh(conn, [group], self._now())
            self.notify(conn)
        log_event(log, "claim.handed_back", job=job_id, attempt=attempt, group=group, why=why)
        return True

    def next_ready(self, lanes: Sequence[str] | None) -> float | None:
        """Return in how many seconds the next lane becomes ready (0 or less: it is), None if none is known."""
        with self.db.read() as conn:
            row = conn.execute(queueing.next_ready(lanes, self.db.dialect), self.at()).first()
        return None if row is None or row.due_sec is None else float(row.due_sec)

    def running_of(self, boot_id: str) -> Sequence[Any]:
        """Return what a worker boot runs: job, attempt, group, seconds since its claim, whether it started.

        `followed` is true for a job that began together with its claim.
        """
        with self.db.read() as conn:
            return conn.execute(queueing.running_of([boot_id]), self.at()).all()
