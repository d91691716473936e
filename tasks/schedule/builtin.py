"""The six entries that come with Ratelane (rule S7)."""

from __future__ import annotations

from datetime import time, timedelta
from zoneinfo import ZoneInfo

from tasks.schedule.calendar import Every, Times, Window
from tasks.schedule.terms import Entry, Overlap

#: hours in which the sites are left to the evening's snapshot (rule S6)
QUIET = Window(time(23), time(1))
#: how often a run that fans out is tried (rule S8)
TRIES = 3


def entries(zone: ZoneInfo, *, retry: timedelta = timedelta(minutes=5),
            seed_retry: timedelta = timedelta(minutes=10)) -> dict[str, Entry]:
    """Return the built-in entries by name, in `zone`, with the settings' waits after a failure or skip.

    The seed's own waits (deferred 10 min, no source) come from its task as `Outcome.again_in`.
    """
    found = (
        # never skipped or deferred because something else runs: no quiet window, and it takes over from an older run
        Entry("snapshot", "crawl", Times((time(23, 15),)), zone, overlap=Overlap.NEXT, catch_up=timedelta(hours=2),
              retry_after=retry, max_tries=TRIES),
        Entry("snapshot_recent", "crawl", Every(timedelta(hours=1)), zone, QUIET, retry_after=retry, max_tries=TRIES),
        # each day needs its own, so that one day's run does not make up the next day's
        Entry("snapshot_seed", "snapshot_seed", Times((time(0, 5),)), zone, overlap=Overlap.NEXT, catch_up=time(12),
              retry_after=seed_retry),
        Entry("discovery", "discovery", Every(timedelta(hours=6)), zone, QUIET, retry_after=retry, max_tries=TRIES),
        Entry("candidate_cleanup", "candidate_cleanup", Times((time(3, 30),)), zone, QUIET, retry_after=retry),
        Entry("vitals", "vitals", Every(timedelta(minutes=30)), zone, retry_after=retry, max_tries=TRIES, priority=10),
    )
    return {entry.name: entry for entry in found}
