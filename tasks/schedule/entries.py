"""Which entries there are, by name: the built-in ones, what the loaded file changes of them, and its own (rule S7).

The file's section is stored with the sites, so that beats and commands on any machine see the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from config.settings import Settings
from models.queries.schedule import Mark, config_documents, mark_of
from tasks.periodic.base import WORKS, NamedTask, Scope
from tasks.schedule import builtin
from tasks.schedule.calendar import Every, Times, Window
from tasks.schedule.rows import Row, rules_of
from tasks.schedule.terms import Entry, Overlap

#: the keys of an entry's document: a name that stands nowhere here is a mistake
KEYS = frozenset({"at", "every", "quiet", "overlap", "catch_up", "enabled", "kind", "task", "targets", "sites", "priority",
                  "max_tries", "retry_after", "call", "args"})
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|d|)\s*")
_WORK_OF = {"snapshot_recent": "crawl"}


class BadEntry(ValueError):
    """A document of an entry that cannot be; says the key and what it should be."""


@dataclass(frozen=True)
class Configured:
    """An entry and what it does. With `error` its document cannot be read: its runs fail with that reason."""

    entry: Entry
    scope: Scope
    error: str = ""

    @property
    def rules(self) -> Row:
        """The document that its row keeps."""
        return rules_of(self.entry, self.scope)


class Outdated(Exception):
    """The file says something else by now: read it again, and decide again."""


class Known(dict[str, Configured]):
    """All entries by name, as they were configured at `mark`."""

    def __init__(self, mark: Mark, found: Mapping[str, Configured]) -> None:
        super().__init__(found)
        self.mark = mark

    def require_present(self, conn: Connection) -> None:
        """Raise Outdated if the file says something else by now.

        Ask it with the rows of entries locked, before they are written: what another beat has written under newer rules is
        then neither overwritten nor run by older ones.
        """
        if mark_of(conn) != self.mark:
            raise Outdated


def configured(conn: Connection, settings: Settings) -> Known:
    """Return all entries by name, as the settings and the loaded file have them."""
    # the mark first: a load between the two statements makes what was read outdated, and never what is outdated present
    return Known(mark_of(conn), configured_by(config_documents(conn), settings))


def configured_by(documents: Mapping[str, Mapping[str, Any]], settings: Settings) -> dict[str, Configured]:
    """Return all entries by name, as the settings and these documents of a file have them."""
    documents = dict(documents)
    zone = ZoneInfo((documents.pop("", None) or {}).get("timezone") or settings.timezone)
    found = {name: Configured(entry, _scope_of(entry)) for name, entry in builtin.entries(
        zone, retry=timedelta(seconds=settings.schedule_retry_sec),
        seed_retry=timedelta(seconds=settings.seed_retry_sec)).items()}
    for name, document in documents.items():
        base = found.get(name)
        try:
            found[name] = described(name, document, zone, settings, base)
        except (BadEntry, ValueError, TypeError, KeyError, AttributeError) as error:
            stand_in = base or Configured(_plain(name, Every(timedelta(hours=1)), zone, settings), Scope("crawl"))
            found[name] = replace(stand_in, error=f"the entry cannot be read: {error}")
    return found


def described(name: str, document: Mapping[str, Any], zone: ZoneInfo, settings: Settings,
              base: Configured | None = None) -> Configured:
    """Return the entry that `document` describes: a change of `base`, or an own one.

    Keys: ``at`` (times of the day) or ``every`` (a duration), ``quiet`` (two times, or false), ``overlap``, ``catch_up``
    (a duration or a time of the day), ``enabled``, ``task`` (or ``kind``), ``targets`` and ``sites`` (globs),
    ``priority``, ``max_tries``, ``retry_after``; with the task ``call`` also ``call`` (the name of a Celery
    task) and ``args``. Raises BadEntry for what cannot be.
    """
    unknown = sorted(set(document) - KEYS)
    if unknown:
        raise BadEntry(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(KEYS))}")
    if base is None:
        if "at" not in document and "every" not in document:
            raise BadEntry("an entry of its own needs `at` or `every`")
        base = Configured(_plain(name, Every(timedelta(hours=1)), zone, settings), Scope("crawl"))
    scope = _scoped(document, base.scope)
    changes = _timed(document) | {key: read(key, document[key]) for key, read in _READ.items() if key in document}
    if scope.task != base.scope.task:
        changes["kind"] = scope.task
    return Configured(replace(base.entry, **changes), scope)


def _plain(name: str, when: Every, zone: ZoneInfo, settings: Settings) -> Entry:
    return Entry(name, "crawl", when, zone, retry_after=timedelta(seconds=settings.schedule_retry_sec),
                 max_tries=builtin.TRIES)


def _scope_of(entry: Entry) -> Scope:
    return Scope(_WORK_OF.get(entry.name, entry.name))


def _scoped(document: Mapping[str, Any], base: Scope) -> Scope:
    task = document.get("task", document.get("kind", base.task))
    task = _WORK_OF.get(task, task)
    if task not in WORKS:
        raise BadEntry(f"task must be one of {', '.join(sorted(WORKS))}, not {task!r}")
    targets = _globs("targets", document["targets"]) if "targets" in document else base.targets
    sites = _globs("sites", document["sites"]) if "sites" in document else base.sites
    call = None
    if task == "call":
        if not isinstance(document.get("call"), str) or not isinstance(document.get("args", []), list):
            raise BadEntry("a call needs the name of a Celery task as `call`, and a list as `args`")
        call = NamedTask(document["call"], tuple(document.get("args", [])))
    return Scope(task, targets, sites, call)


def _globs(key: str, value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, Sequence) or not all(isinstance(each, str) and each for each in values):
        raise BadEntry(f"{key} must be codes or globs of codes")
    return tuple(values)


def _timed(document: Mapping[str, Any]) -> dict[str, Any]:
    if "at" in document and "every" in document:
        raise BadEntry("`at` or `every`, not both")
    if "at" in document:
        texts = document["at"] if isinstance(document["at"], list) else [document["at"]]
        return {"when": Times(tuple(sorted({_time("at", each) for each in texts})))}
    return {"when": Every(_duration("every", document["every"]))} if "every" in document else {}


def _window(_key: str, value: Any) -> Window | None:
    if value in (None, False):
        return None
    ends = value.split("-") if isinstance(value, str) else value
    if not isinstance(ends, list) or len(ends) != 2:
        raise BadEntry("quiet must be two times of the day, such as [\"23:00\", \"01:00\"], or false")
    return Window(_time("quiet", ends[0]), _time("quiet", ends[1]))


def _overlap(_key: str, value: Any) -> Overlap:
    if value not in list(Overlap):
        raise BadEntry(f"overlap must be one of {', '.join(Overlap)}, not {value!r}")
    return Overlap(value)


def _catch_up(_key: str, value: Any) -> timedelta | time:
    return _time("catch_up", value) if isinstance(value, str) and ":" in value else _duration("catch_up", value)


def _time(key: str, value: Any) -> time:
    try:
        found = time.fromisoformat(str(value).strip())
    except ValueError:
        raise BadEntry(f"{key} must be a time of the day such as \"23:15\", not {value!r}") from None
    if found.tzinfo is not None or found.microsecond:
        raise BadEntry(f"{key} must be a time of the day such as \"23:15\", not {value!r}")
    return found


def _duration(key: str, value: Any) -> timedelta:
    found = _DURATION.fullmatch(str(value)) if not isinstance(value, bool) else None
    if found is None:
        raise BadEntry(f"{key} must be a duration such as \"1h\" or \"30m\", not {value!r}")
    return timedelta(seconds=float(found[1]) * _UNITS[found[2]])


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadEntry(f"{key} must be true or false, not {value!r}")
    return value


def _number(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadEntry(f"{key} must be a whole number, not {value!r}")
    return value


_READ: dict[str, Callable[[str, Any], Any]] = {
    "quiet": _window, "overlap": _overlap, "catch_up": _catch_up, "retry_after": _duration, "enabled": _flag,
    "priority": _number, "max_tries": _number,
}
