"""When an entry has gone without a success for too long. Pure (rule J15)."""

from __future__ import annotations

from datetime import datetime, timedelta

from tasks.schedule.terms import Entry


def stale_at(entry: Entry, since: datetime) -> datetime | None:
    """Return when `entry` is stale if nothing succeeds after `since`: twice its period later; None of a disabled one.

    The period is what lies between two of its own moments, hours of a quiet window included: moments inside a window
    count as one, at its end. So an hourly entry that rests from 23:00 to 01:00 is not stale at midnight.
    """
    if not entry.enabled:
        return None
    last = _last_chance(entry, since)
    second = _after(entry, _after(entry, last))
    return since + (second - last)


def _last_chance(entry: Entry, since: datetime) -> datetime:
    moment = entry.when.latest(since, entry.zone)
    found = _chance(entry, moment)
    if found > since and entry.quiet is not None:
        # its window still lasts: what came before it counts
        begins = entry.quiet.start_after(moment - timedelta(days=1), entry.zone)
        found = _chance(entry, entry.when.latest(begins - timedelta(microseconds=1), entry.zone))
    return found


def _after(entry: Entry, chance: datetime) -> datetime:
    """Return the next moment at which the entry may really run."""
    return _chance(entry, entry.when.next_after(chance, entry.zone))


def _chance(entry: Entry, moment: datetime) -> datetime:
    quiet, zone = entry.quiet, entry.zone
    return quiet.end_after(moment, zone) if quiet is not None and quiet.contains(moment, zone) else moment
