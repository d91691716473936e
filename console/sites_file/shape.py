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
    """The overrides of built-in schedule entries, by entry name, as they stand in the file."""

    timezone: str | None = None
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class SitesFile:
    """One accepted file: what `routing.resolver.plan` and the schedule need, and what its author should know."""

    path: Path
    sites: tuple[SitePlan, ...]
    targets: tuple[TargetPlan, ...]
    rules: tuple[Rule, ...] = ()
    schedule: ScheduleOverrides = ScheduleOverrides()
    warnings: tuple[str, ...] = ()
