"""The dead letters, grouped by what went wrong."""

from __future__ import annotations

import json
from typing import Any

from console.flower import reads
from console.flower.pages.live import LivePage


class FailedPage(LivePage):
    """One row an error: how often, since when, an example, and a way to requeue all of them."""

    tab, title, eyebrow = "failed", "Failed", "Dead letters by error"
    template, live_template = "ratelane.html", "failed_live.html"

    async def view(self, *names: str) -> dict[str, Any]:
        """Show the errors, those with the most dead letters first."""
        found = await self.read(reads.failed)
        return found | {"errors": found["rows"], "dumps": json.dumps}
