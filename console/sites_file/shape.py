"""What a file of sites says, once it is known to be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.catalogue import SitePlan, TargetPlan
from routing.rules import Rule


@dataclass(frozen=True)
class ScheduleOverrides:
    """What the section `schedule` says: the zone, and by entry name what is different from, or beside, the built-in ones.

    A document holds the keys that the file has, as JSON: `at` a list of ``HH:MM[:SS]``, `every` and `retry_after` seconds,
    `quiet` two times or null for none, `overlap` a word, `catch_up` seconds or ``HH:MM``, `enabled`, `priority`; and of
    entries of one's own `task`: ``crawl`` with `targets` and `sites` (globs), or ``call`` with `call` (the name of a
    Celery task) and `args`.
    """

    timezone: str | None = None
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def documents(self) -> dict[str, dict[str, Any]]:
        """Return what is stored, by name; what is said of all entries has the name ""."""
        common = {"": {"timezone": self.timezone}} if self.timezone else {}
        return common | {name: dict(document) for name, document in self.entries.items()}


@dataclass(frozen=True)
class SitesFile:
    """One accepted file: what `routing.resolver.plan` and the schedule need, and what its author should know."""

    path: Path
    sites: tuple[SitePlan, ...]
    targets: tuple[TargetPlan, ...]
    rules: tuple[Rule, ...] = ()
    schedule: ScheduleOverrides = ScheduleOverrides()
    warnings: tuple[str, ...] = ()
