"""Taking lost attempts from the dead, and repairing what should never need it (rule J8).

Only four may end a running attempt: the process of its body; this reaper after the lease; the parent of a pool child
whose exit is certain; the scout while it has not started. The reaper decides with the same pure functions as a body's
own end, and writes with the same settling statement, so that a late body and the reaper cannot both succeed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from config import clock
from config.errors import Evidence, HostCooldown, StaleClaim
from config.logs import get_logger, log_event
from config.probes import probe
from models.base import from_micros
from models.claim import Claim
from models.db import IDLE_IN_TRANSACTION_MS
from models.ledger import Ledger
from models.outcome import Ended, Limits, Verdict, judge, lost, tally_of
from models.pacing import Pacing
from models.statements import queueing

log = get_logger("ratelane.reaper")
AT_ONCE = 50
#: jobs that a move left behind are looked for among the sites that moved within this time
MOVED_LATELY_SEC, SITES_AT_ONCE = 3_600.0, 200
#: and among all of them so rarely: a million queued jobs take a second or two
EVERY_JOB_SEC = 600.0
#: whose turn that is
MISPLACED = "misplaced_jobs"
DECAY_EVERY_SEC = 3_600.0


@dataclass(frozen=True)
class Reaped:
    """What the reaper did to one attempt."""

    job_id: str
    attempt: int
    group: str
    verdict: str


class Reaper:
    """Finds lost attempts of one database and ends them."""

    def __init__(self, ledger: Ledger, limits: Limits) -> None:
        self.ledger, self.limits = ledger, limits
        self._decayed: clock.Stopwatch | None = None

    def reap(self) -> list[Reaped]:
        """End every attempt whose lease is over; its group waits until the lease's end plus the interval."""
        ledger = self.ledger
        with ledger.db.read() as conn:
            frozen = ledger.hot.end_frozen(conn, IDLE_IN_TRANSACTION_MS / 1000)
        if frozen:
            log_event(log, "database.frozen_session_ended", level=logging.WARNING, count=frozen)
        done: list[Reaped] = []
        behind = ""
        while True:
            with ledger.db.read() as conn:
                found = conn.execute(queueing.expired(AT_ONCE, behind), ledger.at()).all()
            for row in found:
                behind = row.job_id
                done += self._each(row.job_id, row.attempt, row.group_key, proved=False)
            if len(found) < AT_ONCE:
                return done

    def _each(self, job_id: str, attempt: int, group: str, *, proved: bool) -> list[Reaped]:
        """End one of several attempts; one that cannot be ended just now must not keep the others waiting."""
        try:
            ended = self._end(job_id, attempt, group, proved=proved)
        except SQLAlchemyError as error:
            log_event(log, "job.recovery_waits", level=logging.WARNING, job=job_id, attempt=attempt, error=repr(error))
            return []
        return [ended] if ended is not None else []

    def recover(self, job_id: str, attempt: int, group: str) -> Reaped | None:
        """End one attempt whose body is certainly over without a word; its group waits one interval from now."""
        return self._end(job_id, attempt, group, proved=True)

    def recover_dead(self, boot_ids: list[str]) -> list[Reaped]:
        """End every attempt of workers that are certainly dead, or give it back if it had not started."""
        if not boot_ids:
            return []
        with self.ledger.db.read() as conn:
            found = conn.execute(queueing.running_of(boot_ids), self.ledger.at()).all()
        done = []
        for row in found:
            if not row.started and self.ledger.hand_back(row.job_id, row.attempt, row.group_key, "worker_lost"):
                done.append(Reaped(row.job_id, row.attempt, row.group_key, "handed_back"))
            else:
                done += self._each(row.job_id, row.attempt, row.group_key, proved=True)
        return done

    def _end(self, job_id: str, attempt: int, group: str, *, proved: bool) -> Reaped | None:
        ledger = self.ledger
        with ledger.db.write() as conn:
            # looked at under a lock of its own first: a body that is writing just now is not lost
            row = conn.execute(queueing.lost(job_id, attempt, only_expired=not proved), ledger.at()).first()
        if row is None:
            return None
        if row.started_at is None:
            # a claim that never started: nothing is spent (rule J8)
            given_back = ledger.hand_back(job_id, attempt, group, "worker_lost")
            return Reaped(job_id, attempt, group, "handed_back") if given_back else None
        verdict = self._verdict(row)
        now, lease_until = _moment(row.now), _moment(row.lease_until)
        ended = now if proved else min(now, lease_until)
        wait = timedelta(seconds=max(row.interval_sec or 0.0, row.crawl_delay_sec or 0.0))
        claim = Claim(job_id, attempt, 0, group, "", row.target_code)
        try:
            ledger.settle(claim, verdict, site_code=row.site_code, ended_at=ended, not_before=ended + wait,
                          expired_before=None if proved else lease_until)
        except StaleClaim:
            return None
        ledger.count("leases_lost" if not proved else "workers_lost")
        probe("reaped", job_id, attempt)
        log_event(log, "job.recovered", job=job_id, attempt=attempt, group=group, verdict=verdict.why,
                  worker=row.boot_id, proved=proved)
        return Reaped(job_id, attempt, group, verdict.why)

    def _verdict(self, row: Any) -> Verdict:
        tally = tally_of(row)
        if row.cooldown_seen:
            # it had seen a block and could not settle: cooled down, not crashed (rule C2); a stop request wins over the
            # retry when it is settled, and the pause stands either way
            return judge(Ended(error=objection_from(row.cooldown_seen)), tally, self.limits)
        return lost(tally, self.limits, stop_requested=bool(row.stop_requested))

    def sweep(self) -> int:
        """Find groups that should be ready and are not, and repair them; returns how many (it should be none)."""
        ledger = self.ledger
        ledger.fold()
        with ledger.db.write() as conn:
            conn.execute(queueing.DROP_LOST_WAKES, ledger.at())
        self._rehome()
        self._decay()
        with ledger.db.read() as conn:
            keys = [row.key for row in conn.execute(queueing.asleep(AT_ONCE), {"b_slack": 1.5, **ledger.at()})]
        repaired = 0
        for key in keys:
            with ledger.db.write() as conn:
                repaired += self._repair(conn, key)
        if repaired:
            log_event(log, "lane.repaired", groups=",".join(keys), count=repaired)
        return repaired

    def _decay(self) -> None:
        """Once an hour, let intervals go a step back after clean days; of several workers one does it (rule C5)."""
        if self._decayed is not None and self._decayed.elapsed() < DECAY_EVERY_SEC:
            return
        self._decayed = clock.Stopwatch()
        ledger = self.ledger
        pacing = Pacing(ledger.settings)
        with ledger.db.read() as conn:
            found = pacing.clean(conn, **ledger.at())
        for target_code in found:
            with ledger.db.write() as conn:
                pacing.decay(conn, target_code, **ledger.at())

    def _rehome(self) -> None:
        """Move queued jobs whose site has moved while they were submitted or settled (rule R2)."""
        ledger = self.ledger
        with ledger.db.read() as conn:
            lately = conn.scalars(queueing.moved_lately(MOVED_LATELY_SEC, SITES_AT_ONCE + 1), ledger.at()).all()
        # a caller's own transaction may have been open for longer: now and then one worker reads every queued job
        every = len(lately) > SITES_AT_ONCE or ledger.take_turn(MISPLACED, EVERY_JOB_SEC) is not None
        if not every and not lately:
            return
        with ledger.db.read() as conn:
            found = conn.execute(queueing.misplaced(None if every else lately)).all()
        for job in found:
            with ledger.db.write() as conn:
                ledger.hot.lock_groups(conn, sorted({job.here, job.group_key}))
                conn.execute(queueing.REHOME, {"b_site": job.site_code, "b_group": job.group_key, **ledger.at()})
                ledger.hot.refresh(conn, [job.here, job.group_key], ledger.at().get("p_now"))
            log_event(log, "job.rehomed", site=job.site_code, group=job.group_key, left=job.here)

    def _repair(self, conn: Connection, key: str) -> int:
        ledger = self.ledger
        ledger.hot.lock_groups(conn, [key])
        # looked at again under the lock: somebody may have claimed or settled meanwhile
        again = conn.execute(queueing.asleep(AT_ONCE), {"b_slack": 1.5, **ledger.at()}).all()
        if not any(row.key == key for row in again):
            return 0
        changed: int = ledger.hot.refresh(conn, [key], ledger.at().get("p_now"))
        if changed:
            queueing.count(conn, "repairs", changed)
        return changed


def objection_from(seen: dict[str, Any]) -> HostCooldown:
    """Return the objection that a body noted before its retry (`Commit.cooldown_seen`)."""
    evidence = Evidence(
        kind=seen.get("kind", "rate"), status=seen.get("status"), url=seen.get("url", ""),
        signs=tuple(seen.get("signs", ())), headers=seen.get("headers", {}), body=seen.get("body", ""),
        hops=tuple(seen.get("hops", ())), retry_after_raw=seen.get("retry_after_raw"))
    return HostCooldown(evidence, seen.get("retry_after_sec"))


def _moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else from_micros(int(value))


__all__ = ["Reaped", "Reaper", "objection_from"]
