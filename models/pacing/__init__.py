"""The only writer of a group's pauses and of a target's grown interval (rules C3, C5 and R9).

What it owns: the columns of pauses in `rate_groups`, the row of `fleet`, the history in `cooldowns`, and
`targets.grown_interval_sec` with its history.

Invariants: a pause stands before the lane is free again; the group's row is locked before its pause changes, and
`ready_at` is recomputed in a later statement of the same transaction. Cooldown, an operator's pause of a group and the
pause of all are three fields: none of them shortens another.

When it dies in the middle: nothing of the verb happened.
"""

from models.pacing.cooling import Pacing
from models.pacing.operating import OperatorPacing, Resumed

__all__ = ["OperatorPacing", "Pacing", "Resumed"]
