"""What operators do to jobs: cancel and requeue, by id or by a filter (rules J10 and J14)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import IntegrityError

from config import clock
from config.logs import log_event
from models.db import patiently
from models.ledger.books import Books, log
from models.operations import Operator
from models.queries.jobs import JobFilter, conditions
from models.statements import operating, queueing
from models.statements.operations import log_operation

#: jobs that are changed in one transaction
JOBS_AT_ONCE = 500
#: for so long a portion is tried again while somebody holds its groups, or submits under the same key
_PATIENCE_SEC = 30.0
_RACES = 3


@dataclass(frozen=True)
class Answer:
    """The answer to a cancel or requeue: `verdict` is ``cancelled``, ``flagged``, ``requeued`` or ``refused``."""

    verdict: str
    reason: str = ""


@dataclass
class Changed:
    """What an action on many jobs did: how many, and which were refused for which reason."""

    cancelled: int = 0
    flagged: int = 0
    requeued: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)


class Operating(Books):
    """The verbs of operators. Without `by` it is a program that acts, and nothing is logged as an operation."""

    def cancel(self, job_id: str, by: Operator | None = None) -> Answer:
        """Cancel a queued job at once, or ask a running one to stop; asking it twice answers the same (rule J10).

        Only what changed something is logged as an operation.
        """
        with self.db.write() as conn:
            found = conn.execute(queueing.GROUP_OF, {"b_job": job_id}).first()
            if found is None:
                return Answer("refused", "not_found")
            self.hot.lock_groups(conn, [found.group_key])
            seqs = [found.seq]
            before = conn.execute(operating.stopping(seqs)).first()
            if conn.execute(operating.cancel_queued(seqs), self.at()).first() is not None:
                self.hot.refresh(conn, [found.group_key], self._now())
                event, answer = "job.cancel", Answer("cancelled")
            elif conn.execute(operating.flag_running(seqs), self.at()).first() is not None:
                event, answer = "job.stop_requested", Answer("flagged")
            else:
                status = conn.execute(queueing.GROUP_OF, {"b_job": job_id}).one().status
                return Answer("refused", f"cannot cancel status={status}")
            if by is not None and before is None:
                log_operation(conn, by, "cancel", jobs_seq=seqs, at=self.at())
        log_event(log, event, job=job_id, group=found.group_key)
        return answer

    def cancel_matching(self, wanted: JobFilter, by: Operator | None = None) -> Changed:
        """Cancel every active job that `wanted` lets through (rule J14), in portions, their groups locked in key order.

        A job that starts meanwhile is asked to stop, unless the filter names the state that it was in.
        """
        done = Changed()
        rows = self._wanted(wanted, operating.ACTIVE)
        for some in _portions(rows):
            cancelled, flagged = self._patiently(lambda some=some: self._cancel_portion(some, wanted, by))
            done.cancelled += cancelled
            done.flagged += flagged
        log_event(log, "job.cancel_matching", cancelled=done.cancelled, flagged=done.flagged)
        return done

    def _cancel_portion(self, some: Sequence[Any], wanted: JobFilter, by: Operator | None) -> tuple[int, int]:
        seqs, groups = [row.seq for row in some], sorted({row.group_key for row in some})
        cancelled: list[int] = []
        flagged: list[int] = []
        with self.db.write() as conn:
            self.hot.lock_groups(conn, groups)
            before = set(conn.execute(operating.stopping(seqs)).scalars())
            if wanted.status in (None, "queued"):
                cancelled = list(conn.execute(operating.cancel_queued(seqs), self.at()).scalars())
            if wanted.status in (None, "running"):
                flagged = list(conn.execute(operating.flag_running(seqs), self.at()).scalars())
            if cancelled:
                self.hot.refresh(conn, groups, self._now())
            changed = cancelled + [seq for seq in flagged if seq not in before]
            if by is not None and changed:
                log_operation(conn, by, "cancel", jobs_seq=changed, details=_named(wanted), at=self.at())
        return len(cancelled), len(flagged)

    def requeue(self, job_id: str, by: Operator, *, restart: bool = False) -> Answer:
        """Bring a failed or cancelled job back as if nothing had been spent (rule J14), from its checkpoint or anew.

        Refused, with nothing changed, if its dedupe key is active meanwhile; the reason names that job.
        """
        with self.db.read() as conn:
            found = conn.execute(queueing.GROUP_OF, {"b_job": job_id}).first()
            rows = [] if found is None else conn.execute(operating.wanted([queueing.IS_JOB], operating.DEAD),
                                                         {"b_job": job_id}).all()
        if found is None:
            return Answer("refused", "not_found")
        if not rows:
            return Answer("refused", f"cannot requeue status={found.status}")
        number, refused = self._patiently(lambda: self._requeue_portion(rows, by, restart, None))
        if number:
            return Answer("requeued")
        # neither brought back nor refused: it was deleted meanwhile
        return Answer("refused", refused[0][1] if refused else "not_found")

    def requeue_matching(self, wanted: JobFilter, by: Operator, *, restart: bool = False) -> Changed:
        """Bring back every failed or cancelled job that `wanted` lets through (rule J14), in portions.

        Of several with one dedupe key the newest goes on; the others are refused.
        """
        done = Changed()
        rows = self._wanted(wanted, operating.DEAD)
        newest = {row.dedupe_key: row.seq for row in sorted(rows, key=lambda row: row.seq) if row.dedupe_key is not None}
        first = [row for row in rows if row.dedupe_key is None or newest[row.dedupe_key] == row.seq]
        others = [row.seq for row in rows if row.dedupe_key is not None and newest[row.dedupe_key] != row.seq]
        for some in _portions(first):
            number, refused = self._patiently(lambda some=some: self._requeue_portion(some, by, restart, wanted))
            done.requeued += number
            done.refused += refused
        with self.db.read() as conn:
            for start in range(0, len(others), JOBS_AT_ONCE):
                done.refused += operating.left_out(conn, others[start : start + JOBS_AT_ONCE])
        log_event(log, "job.requeue_matching", requeued=done.requeued, refused=len(done.refused))
        return done

    def _requeue_portion(
        self, some: Sequence[Any], by: Operator, restart: bool, wanted: JobFilter | None
    ) -> tuple[int, list[tuple[str, str]]]:
        for race in range(_RACES):
            try:
                return self._requeue_once(some, by, restart, wanted)
            except IntegrityError:
                # a submit under one of the keys came between: the next look sees it
                if race == _RACES - 1:
                    raise
        raise AssertionError("not reached")

    def _requeue_once(
        self, some: Sequence[Any], by: Operator, restart: bool, wanted: JobFilter | None
    ) -> tuple[int, list[tuple[str, str]]]:
        seqs = [row.seq for row in some]
        with self.db.write() as conn:
            self.hot.lock_groups(conn, sorted({row.group_key for row in some} | {row.home for row in some}))
            made = conn.execute(operating.requeue(seqs, restart=restart), self.at()).all()
            operating.wake(conn, [row.group_key for row in made], **self.at())
            if made:
                self.notify(conn)
            back = {row.seq for row in made}
            if back:
                details = ({"restart": True} if restart else {}) | _named(wanted)
                log_operation(conn, by, "requeue", jobs_seq=sorted(back), details=details or None, at=self.at())
            refused = operating.left_out(conn, [seq for seq in seqs if seq not in back]) if len(back) < len(seqs) else []
        return len(back), refused

    def _wanted(self, wanted: JobFilter, states: Sequence[str]) -> Sequence[Any]:
        with self.db.read() as conn:
            return conn.execute(operating.wanted(conditions(wanted), states)).all()

    def _patiently(self, portion: Any) -> Any:
        """Try a portion again while somebody holds its groups: nothing of it has happened then."""
        waited = clock.Stopwatch()
        return patiently(portion, give_up=lambda: waited.elapsed() > _PATIENCE_SEC)


def _portions(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), JOBS_AT_ONCE):
        yield rows[start : start + JOBS_AT_ONCE]


def _named(wanted: JobFilter | None) -> dict[str, Any]:
    return {} if wanted is None else {"filter": wanted.named}
