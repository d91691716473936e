"""The schedule as documents of the command line contract: entries and previews (rule S9).

Runs are read with `models.queries.schedule.run` and `runs`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from config.settings import Settings
from models.db import Database


def entries(db: Database, settings: Settings, name: str | None = None) -> list[dict[str, Any]]:
    """Return the `entry` documents, by name; of one entry or of all. Raises BadInput for a name that no entry has."""
    raise NotImplementedError


def preview(db: Database, settings: Settings, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """Return the `occurrence` documents of what would fire in `[start, end]`, by time and name.

    Runs are taken to last as long as the last successful one of their entry did.
    """
    raise NotImplementedError
