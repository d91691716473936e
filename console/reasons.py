"""One reason of `why`, and the words that all of them share. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any

from config.moments import is_endless, iso
from console.wording import span

#: the codes of a job that cannot be taken now; the others tell where it is
BLOCKING = frozenset({
    "not_due", "behind", "group_running", "cooldown", "paused", "interval", "quiet_window", "site_busy_elsewhere",
    "no_worker", "no_free_slot", "broker_down", "worker_lost", "parked", "handed_back",
})
CODES = BLOCKING | {"running", "finished", "starting"}
_SHORT = {
    "group_running": "lane busy", "interval": "interval", "no_worker": "no worker", "no_free_slot": "no free slot",
    "broker_down": "broker away", "worker_lost": "worker lost", "site_busy_elsewhere": "site busy elsewhere",
    "starting": "starting", "behind": "behind others", "running": "running", "finished": "over",
}
_SHORT_UNTIL = {
    "cooldown": "cools down", "paused": "paused", "quiet_window": "quiet window", "not_due": "not due", "parked": "parked",
    "handed_back": "given back",
}


@dataclass(frozen=True)
class Reason:
    """A reason that holds now: `until` when it ends if that is known, `by` whom or what it waits for."""

    code: str
    text: str
    until: datetime | None = None
    by: str | None = None

    def document(self, zone: tzinfo) -> dict[str, Any]:
        """Return the document of the command line contract."""
        return {"code": self.code, "text": self.text, "until": None if self.until is None else iso(self.until, zone),
                "by": self.by}

    def with_note(self, note: str) -> Reason:
        """Return the reason with a remark behind its text."""
        return replace(self, text=f"{self.text} ({note})") if note else self

    def short(self, now: datetime) -> str:
        """Return the reason in a few words, for a column of a table."""
        if self.code not in _SHORT_UNTIL:
            return _SHORT[self.code]
        left = f" {span((self.until - now).total_seconds())}" if self.until is not None else " until lifted"
        return _SHORT_UNTIL[self.code] + left


def at(moment: datetime, zone: tzinfo) -> str:
    """Return a moment in a sentence, to the second, with its offset."""
    return iso(moment, zone, timespec="seconds")


def until(moment: datetime, now: datetime, zone: tzinfo) -> str:
    """Return ``until … (3 min 20 s)``, or until somebody lifts it."""
    if is_endless(moment):
        return "until somebody resumes it"
    return f"until {at(moment, zone)} ({span((moment - now).total_seconds())})"


def who(job_id: str, target_code: str | None) -> str:
    """Return a job with its target."""
    return f"{job_id} ({target_code})" if target_code else job_id
