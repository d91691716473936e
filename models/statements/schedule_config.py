"""How the documents of the section `schedule` are kept: whole, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert

from models.schedules import schedule_config


def keep(conn: Connection, documents: Mapping[str, Mapping[str, Any]], removed: Sequence[str], now: datetime) -> None:
    """Replace the documents of these names, and remove the others named."""
    names = sorted({*documents, *removed})
    if names:
        conn.execute(delete(schedule_config).where(schedule_config.c.name.in_(names)))
    if documents:
        conn.execute(insert(schedule_config), [
            {"name": name, "document": dict(documents[name]), "updated_at": now} for name in sorted(documents)])
