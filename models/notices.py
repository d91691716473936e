"""The only writer of notices: what a person should hear of, told to the webhook once (rule J15).

What it owns: the rows of `notices`.

Invariants: a matter has one row, whose key names it; whatever path led there is covered, because the matters are looked
for in the tables themselves; a notice is claimed, with its next try put off, before it is sent.

When it dies in the middle: a notice that was sent but not noted is sent again (at least once; its key lets a receiver
tell). One that was claimed and not sent is due again after its pause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import select

from config.logs import get_logger, log_event
from config.settings import Settings, redact_url
from models.base import EPOCH, FAR, db_now
from models.db import Database
from models.ledger import no_clock
from models.queries.reading import iso
from models.statements import notices as statements
from models.statements import upkeep

log = get_logger("ratelane.notices")
#: what happened before is not told, and what could not be sent for so long is given up
OLDEST_SEC = 86_400.0
PAUSED_FOR_SEC = 3_600.0
LONGEST_PAUSE_SEC = 3_600.0
FOUND_AT_ONCE = 200


@dataclass(frozen=True)
class Notice:
    """One matter: `key` names it, `document` is what is sent; `tries` counts this one."""

    key: str
    tries: int
    document: dict[str, Any]


class Notices:
    """The notices of one database; `now` is for tests only."""

    def __init__(self, db: Database, settings: Settings, now: Callable[[], datetime | None] = no_clock) -> None:
        self.db, self.settings, self._now = db, settings, now

    def find(self) -> int:
        """Store what has happened since the webhook is set, at most a day ago, and has no row yet; returns how many."""
        since = self._since()
        stored = 0
        with self.db.write() as conn:
            for statement in (statements.dead_letters(conn, FOUND_AT_ONCE),
                              statements.stale_entries(conn, FOUND_AT_ONCE),
                              *statements.paused_groups(conn, PAUSED_FOR_SEC, FOUND_AT_ONCE)):
                stored += len(conn.execute(statement, {"b_since": since, **self._at()}).all())
        if stored:
            log_event(log, "notice.found", count=stored)
        return stored

    def take(self) -> Notice | None:
        """Claim the notice that is due first for one try; None if none is."""
        # longer than a try may take, so that no second one begins while it lasts
        pause = self.settings.webhook_timeout_sec + self.settings.webhook_retry_sec
        claim = statements.take(pause, max(pause, LONGEST_PAUSE_SEC), OLDEST_SEC)
        with self.db.write() as conn:
            row = conn.execute(claim, self._at()).first()
        return None if row is None else Notice(row.key, row.tries, told(row.kind, row.key, row.at, row.document))

    def sent(self, notice: Notice) -> None:
        """Note that a claimed notice has arrived."""
        with self.db.write() as conn:
            conn.execute(statements.sent(notice.key, notice.tries), self._at())

    def _since(self) -> datetime:
        """Return from when on matters are told: since this webhook was first seen, and no more than a day ago.

        Its address is kept as a digest: there may be a secret in it.
        """
        digest = sha256((self.settings.webhook_url or "").encode()).hexdigest()[:16]
        name = f"notices:{digest}"
        with self.db.read() as conn:
            kept = conn.execute(upkeep.moment_of(name)).scalar_one()
            now: datetime = conn.execute(select(db_now()), self._at()).scalar_one()
        if kept is None:
            with self.db.write() as conn:
                conn.execute(upkeep.keep_moment(conn, name), self._at())
            return now
        return max(EPOCH + timedelta(seconds=kept), now - timedelta(seconds=OLDEST_SEC))

    def _at(self) -> dict[str, Any]:
        now = self._now()
        return {} if now is None else {"p_now": now}


def told(kind: str, key: str, at: datetime, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the document that is sent: kind, key, time, a sentence for people, and the facts; no password in it."""
    facts = {name: redact_url(value) if isinstance(value, str) else value for name, value in facts.items()}
    for name in ("paused_at", "paused_until", "last_success_at", "due_at"):
        if f"{name}_sec" in facts:
            facts[name] = _moment(facts.pop(f"{name}_sec"))
    return {"kind": kind, "key": key, "at": iso(at), "text": _sentence(kind, facts), **facts}


def _moment(seconds: float | None) -> str | None:
    moment = FAR if seconds is None else EPOCH + timedelta(seconds=min(seconds, (FAR - EPOCH).total_seconds()))
    return None if moment >= FAR else iso(moment)


def _sentence(kind: str, facts: dict[str, Any]) -> str:
    if kind == "group_paused":
        whose = "all groups are" if facts["group"] == "*" else f"group {facts['group']} is"
        until = facts["paused_until"] or "somebody resumes"
        return f"{whose} paused since {facts['paused_at']} until {until} ({facts['pause_kind']}): {facts['reason']}"
    if kind == "entry_stale":
        since = f"since {facts['last_success_at']}" if facts["last_success_at"] else "yet"
        why = f" ({facts['reason']})" if facts["reason"] else ""
        due = facts["due_at"] or "never"
        return f"entry {facts['entry']} has had no success {since}: it is {facts['status']}{why}, due {due}"
    what = f"{facts['job_kind']} job {facts['job_id']} of {facts['target_code'] or facts['group']}"
    word = "needs an operator" if kind == "needs_operator" else "failed"
    return f"{what} {word}: {facts['error']}"
