"""A worker's thread without bodies: it claims, starts and settles, and remembers how long each claim took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from config.settings import Settings
from models.attempt import limits_of
from models.claim import Claim, Taker
from models.db import Database
from models.ledger import Ledger, NewJob
from models.outcome import Ended, judge

#: how long to wait if no lane is ready
_IDLE_SEC = 0.05


@dataclass(frozen=True)
class Timed:
    """A claim: when it was asked for and when it was there, in seconds by one clock."""

    began: float
    ended: float


def run_at_once(
    ledger: Ledger, claim: Claim, taker: Taker | None, now: Callable[[], float] = time.time
) -> tuple[Claim | None, Timed]:
    """Start a claimed job and end it, as if its body had returned at once; without a taker nothing follows it.

    Returns the claim that follows, and when the end was asked for and answered, by `now`.
    """
    started = ledger.start(claim.job_id, claim.attempt)
    verdict = judge(Ended(result={"ok": True}), started.tally, limits_of(ledger.settings), backoff_sec=0.0)
    began = now()
    following = ledger.settle(claim, verdict, site_code=started.site_code, take=taker).following
    return following, Timed(began, now())


class Claimer:
    """Claims in the lanes that match `lanes` (None: in all) from `with` to its end; `times` are what it measured.

    One claim is made by a scout, which folds first; the next by the settle of that job, as most claims of a busy worker
    are. With `again` jobs that are done are submitted again, so that the lanes never run dry.
    """

    def __init__(self, settings: Settings, *, lanes: list[str] | None = None, again: bool = False) -> None:
        self.times: list[Timed] = []
        self._again = again
        self._db = Database(settings.database_url)
        self._ledger = Ledger(self._db, settings)
        self._taker = Taker("bench@here", "bench", settings.lease_sec, lanes)
        self._stop, self._pool = threading.Event(), ThreadPoolExecutor(1)

    def __enter__(self) -> Claimer:
        self._running = self._pool.submit(self._run)
        return self

    def __exit__(self, *_error: object) -> None:
        """Let the jobs in hand end; raises what the thread died of."""
        self._stop.set()
        self._pool.shutdown()
        self._db.dispose()
        self._running.result()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.time()
            self._ledger.fold()
            found = self._ledger.claim(1, self._taker.worker, self._taker.boot_id, self._taker.lanes).claims
            if not found:
                self._stop.wait(_IDLE_SEC)
                continue
            self.times.append(Timed(began, time.time()))
            following = self._settle(found[0], self._taker)
            if following is not None:
                self._settle(following, None)

    def _settle(self, claim: Claim, taker: Taker | None) -> Claim | None:
        following, timed = run_at_once(self._ledger, claim, taker)
        if following is not None:
            self.times.append(timed)
        if self._again:
            with self._db.write() as conn:
                self._ledger.submit(conn, NewJob(target_code=claim.target_code, dedupe_key=f"crawl:{claim.target_code}"))
        return following
