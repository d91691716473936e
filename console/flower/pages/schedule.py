"""The schedule: entries, what comes in the next 48 hours, runs and how they ended."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from console.flower import reads
from console.flower.pages.live import LivePage
from console.flower.pages.timeline import timeline

ENTRIES, RUNS = 50, 50


class SchedulePage(LivePage):
    """The entries, with a drawing of their next two days; ``entry`` in the address shows the runs of one alone."""

    tab, title, eyebrow = "schedule", "Schedule", "What is done by itself"
    template, live_template = "schedule.html", "schedule_live.html"

    async def view(self, *names: str) -> dict[str, Any]:
        """Show entries and runs."""
        entry, cursor = self.get_query_argument("entry", "") or None, self.get_query_argument("cursor", "") or None
        search, behind = self.get_query_argument("search", "").strip(), self.get_query_argument("entries", "") or None
        found = await self.read(reads.schedule, search=search, limit=ENTRIES, cursor=behind)
        listed = await self.read(reads.runs, name=entry, limit=RUNS, cursor=cursor)
        return found | {
            "entries": found["rows"], "search": search, "more_entries": found["next"], "behind": behind,
            "runs": listed["rows"], "next": listed["next"], "cursor": cursor, "entry": entry,
            "drawn": timeline(found["from"], found["to"], found["rows"], ZoneInfo(found["zone"]))}
