"""The only writer of jobs and attempts.

What it owns: the rows of `jobs`, `attempts`, `lane_wake`, `workers` and `counters`, and what a body commits (articles,
failed items, the request log).

Invariants: every verb is one transaction with one guarded statement for the state change; a running row is changed only
by its attempt (fence: job, attempt, running); the group's row is locked before any of its jobs; whoever changes which
jobs of a group are due recomputes the group's `ready_at` in a later statement.

When it dies in the middle: nothing of the verb happened. A repeated verb is harmless: it changes nothing that is no
longer as the guard says.
"""

from models.ledger.books import no_clock
from models.ledger.exporting import Exporting
from models.ledger.queueing import Answer, NewJob, Queueing, Submitted
from models.ledger.running import Running
from models.ledger.settling import Settled, Settling, writes_of

__all__ = ["Answer", "Ledger", "NewJob", "Settled", "Submitted", "no_clock", "writes_of"]


class Ledger(Queueing, Running, Settling, Exporting):
    """Every verb of a job's life on one database."""
