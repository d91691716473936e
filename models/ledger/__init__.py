"""The only writer of jobs and attempts.

What it owns: the rows of `jobs`, `attempts`, `lane_wake`, `workers`, `counters` and `marks`, and what a body commits
(articles, failed items, the items of a stat date, candidates, vitals, the request log). It deletes what is older than it
is kept, of these and of every other table.

Invariants: every verb is one transaction with one guarded statement for the state change; a running row is changed only
by its attempt (fence: job, attempt, running); the group's row is locked before any of its jobs; whoever changes which
jobs of a group are due recomputes the group's `ready_at` in a later statement.

When it dies in the middle: nothing of the verb happened. A repeated verb is harmless: it changes nothing that is no
longer as the guard says.
"""

from models.ledger.books import no_clock
from models.ledger.exporting import Exporting
from models.ledger.operating import Answer, Changed, Operating
from models.ledger.queueing import NewJob, Queueing, Submitted
from models.ledger.running import Running
from models.ledger.settling import Settled, Settling, writes_of
from models.ledger.telling import Telling
from models.ledger.upkeep import Pruned, Upkeep

__all__ = ["Answer", "Changed", "Ledger", "NewJob", "Pruned", "Settled", "Submitted", "no_clock", "writes_of"]


class Ledger(Queueing, Running, Settling, Operating, Telling, Upkeep, Exporting):
    """Every verb of a job's life on one database."""
