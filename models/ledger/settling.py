"""Ending an attempt: one transaction that frees the lane and says what the job and its group do next."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.exc import IntegrityError

from config.errors import StaleClaim
from config.logs import log_event
from config.probes import probe
from models.claim import Claim, Started, Taker
from models.ledger.books import Books, log
from models.outcome import Verdict, storable
from models.pacing import Pacing
from models.statements import running


@dataclass(frozen=True)
class Settled:
    """What a settle wrote: the state, and the documents of the cooldown if there was one."""

    status: str
    #: the lane's next job, claimed in the same transaction
    following: Claim | None = None
    #: what its body starts with, if it has begun there as well
    begun: Started | None = None
    notes: dict[str, Any] = field(default_factory=dict)


class Settling(Books):
    """The verbs that end an attempt."""

    def settle(
        self, claim: Claim, verdict: Verdict, *, site_code: str | None = None, response_age_sec: float | None = None,
        response_interval_sec: float | None = None, ended_at: datetime | None = None,
        not_before: datetime | None = None, expired_before: datetime | None = None,
        take: Taker | None = None,
    ) -> Settled:
        """End a running attempt; a cooldown's pause and growth happen in the transaction that frees the lane (C2).

        `ended_at` is the recorded end of a lost attempt, `not_before` the earliest next request of its group, and
        `expired_before` the lease as the reaper saw it: one that was renewed since is not taken away. `take` names who
        goes on with the oldest ready lane, and whether its body begins there. Raises StaleClaim if the attempt is no
        longer current: then nothing was written, except that evidence of a block may still lengthen the group's pause (rule J7).
        """
        probe("settling", claim.job_id, claim.attempt)
        writes = writes_of(verdict)
        if response_age_sec is not None:
            writes |= {"response_age": response_age_sec, "response_interval": response_interval_sec}
        if ended_at is not None:
            writes["ended_at"] = ended_at.isoformat()
        if not_before is not None:
            writes["not_before"] = not_before.isoformat()
        if expired_before is not None:
            writes["lease_was"] = expired_before.isoformat()
        if verdict.cooldown is None:
            settled = self._settle_alone(claim, writes, take)
        else:
            settled = self._settle_cooled(claim, verdict, writes, site_code)
        if settled is None:
            self.count("fenced_writes")
            log_event(log, "claim.stale", job=claim.job_id, attempt=claim.attempt, group=claim.group, write="settle")
            raise StaleClaim(claim.job_id, claim.attempt)
        probe("settled", claim.job_id, claim.attempt)
        if settled.status == "failed":
            log_event(log, "job.failure", level=logging.WARNING, job=claim.job_id, attempt=claim.attempt, group=claim.group,
                      target=claim.target_code, error=verdict.error.partition("\n")[0])
        return settled

    def _settle_alone(self, claim: Claim, writes: dict[str, Any], take: Taker | None) -> Settled | None:
        try:
            with self.db.once() as conn:
                status, following, begun = self.hot.settle(
                    conn, claim.job_id, claim.attempt, claim.group, writes, refresh=True, take=take, now=self._now())
        except IntegrityError:
            if take is None:
                raise
            # the site of the next job runs elsewhere since just now; this job's end must not wait for that
            return self._settle_alone(claim, writes, None)
        return None if status is None else Settled(status, following, begun)

    def _settle_cooled(
        self, claim: Claim, verdict: Verdict, writes: dict[str, Any], site_code: str | None
    ) -> Settled | None:
        assert verdict.cooldown is not None
        pacing = Pacing(self.settings)
        with self.db.write() as conn:
            levels = pacing.levels(conn, claim, site_code, **self.at())
            status, *_ = self.hot.settle(
                conn, claim.job_id, claim.attempt, claim.group, writes, refresh=False, take=None, now=self._now())
            if status is None:
                self.hot.lock_groups(conn, [claim.group])
            notes = pacing.cool(conn, claim, verdict.cooldown, site_code, levels=levels, stale=status is None,
                                **self.at())
            if status is not None:
                notes = pacing.describe(conn, claim, verdict, status, notes)
                conn.execute(running.NOTE_RESULT, {"b_job": claim.job_id, "b_attempt": claim.attempt, "b_notes": storable(notes)})
            self.hot.refresh(conn, [claim.group], self._now())
        return None if status is None else Settled(status, notes=notes)


def writes_of(verdict: Verdict) -> dict[str, Any]:
    """Return the values that the settling statement writes, as one JSON-able document."""
    tally = verdict.tally
    writes: dict[str, Any] = {
        "status": str(verdict.state), "why": verdict.why, "delay": verdict.delay_sec, "to_back": verdict.to_back,
        "failures": tally.failures, "recoveries": tally.recoveries, "recoveries_row": tally.recoveries_row,
        "cooldown_retries": tally.cooldown_retries, "cooldown_row": tally.cooldown_row, "deadlines": tally.deadlines,
        "deadlines_row": tally.deadlines_row, "js_challenges": tally.js_challenges, "row_page": tally.row_page,
        "error": verdict.error, "traceback": verdict.traceback, "outcome": verdict.outcome,
        "wait_reason": verdict.wait_reason, "restart": verdict.restart,
    }
    if verdict.result is not None:
        writes["result"] = verdict.result
    if verdict.cooldown is not None:
        evidence = verdict.cooldown.evidence
        writes["evidence"] = {
            "line": evidence.line(), "kind": evidence.kind, "status": evidence.status, "url": evidence.url,
            "signs": list(evidence.signs), "headers": evidence.headers, "body": evidence.body,
            "hops": list(evidence.hops), "retry_after_raw": evidence.retry_after_raw}
    kept: dict[str, Any] = storable(writes)
    return kept
