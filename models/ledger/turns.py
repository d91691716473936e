"""Turns: what one process is enough for is done by the one that has the turn.

Whoever dies with it keeps the others waiting until its end, no longer: what is done in turns finds afresh what there is
to do.
"""

from __future__ import annotations

from models.base import to_micros
from models.ledger.books import Books
from models.statements import turns


class Turns(Books):
    """Taking a turn, and giving it back."""

    def take_turn(self, name: str, seconds: float) -> int | None:
        """Take the turn called `name` unless somebody has it; nobody else gets it for `seconds`, or until it is given back.

        Returns the moment of its end, None if it is another's.
        """
        name = f"turn:{name}"
        # who has to wait takes no lock on SQLite
        with self.db.read() as conn:
            found = conn.execute(turns.look(name), self.at()).one()
            if found.until is not None and found.until > to_micros(found.now):
                return None
        with self.db.write() as conn:
            now = to_micros(conn.execute(turns.look(name), self.at()).one().now)
            until = now + int(seconds * 1_000_000)
            return until if turns.take(conn, name, now, until) else None

    def give_back(self, name: str, mine: int) -> None:
        """Let the next one have the turn called `name`, if it is still the one that ends at `mine`."""
        with self.db.read() as conn:
            conn.execute(turns.GIVE_BACK, {"b_name": f"turn:{name}", "b_mine": mine})
