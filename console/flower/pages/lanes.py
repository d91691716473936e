"""All lanes, and one lane."""

from __future__ import annotations

from typing import Any

from console.flower import reads
from console.flower.pages.live import LivePage

ROWS = 100
#: what every request of a day is read for is read so seldom
POLITENESS_SEC = 30.0


class LanesPage(LivePage):
    """The lanes with work or a pause, the paused and the busiest first."""

    tab, title, eyebrow = "lanes", "Lanes", "Work by rate group"
    template, live_template = "lanes.html", "lanes_live.html"

    async def view(self, *names: str) -> dict[str, Any]:
        """Show the lanes whose group begins with ``search``, a page of them."""
        search, cursor = self.get_query_argument("search", "").strip(), self.get_query_argument("cursor", "") or None
        found = await self.read(reads.lanes, search=search, limit=ROWS, cursor=cursor)
        return found | {"lanes": found["rows"], "search": search, "cursor": cursor}


class LanePage(LivePage):
    """One lane: its sites, what runs and waits, what was, how polite it is, what operators did."""

    tab = "lanes"
    template, live_template = "ratelane.html", "lane_live.html"

    async def view(self, *names: str) -> dict[str, Any]:
        """Show the lane of a group."""
        (group,) = names
        found = await self.shared(reads.lane, group)
        if found is None:
            raise self.not_found(f"No rate group is called {group}. The Lanes page lists those with work or a pause.")
        polite = await self.shared(reads.politeness, group, within=POLITENESS_SEC)
        return {"lane": found, "polite": polite, "operations": found["operations"], "at": found["at"],
                "age_sec": found["age_sec"], "title": group, "heading": group, "eyebrow": "Lane", "job_page": False}
