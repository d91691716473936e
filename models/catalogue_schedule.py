"""Pure: what a file says about the schedule, compared with what is stored of it. `models.catalogue` carries it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Documents = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ScheduleDifference:
    """The documents to write and the names to remove, and what that means in words."""

    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def compare_schedule(stored: Documents, wanted: Documents | None) -> ScheduleDifference:
    """Return what makes the stored documents the wanted ones; None wants nothing.

    The file is the truth: what it does not say any more is removed, so that a built-in entry is what it comes as.
    """
    found = ScheduleDifference()
    if wanted is None:
        return found
    for name in sorted(stored.keys() | wanted.keys()):
        before, after = stored.get(name), wanted.get(name)
        if before == after:
            continue
        if after is None:
            found.removed.append(name)
        else:
            found.kept[name] = dict(after)
        found.changed.extend(f"{f'entry {name}' if name else 'schedule'}: {word}" for word in _words(before, after))
    return found


def _words(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[str]:
    own = "task" in (before or after or {})
    if own and (before is None or after is None):
        yield "added" if before is None else "removed"
        return
    old, new = before or {}, after or {}
    for key in sorted(old.keys() | new.keys()):
        if key not in new:
            yield f"{key} no longer {_shown(old[key])}"
        elif key not in old:
            yield f"{key} {_shown(new[key])}"
        elif old[key] != new[key]:
            yield f"{key} {_shown(old[key])} → {_shown(new[key])}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(_shown(each) for each in value) or "nothing"
    return f"{value:g}" if isinstance(value, float) else str(value)
