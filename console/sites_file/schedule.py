"""The section `schedule`: what is different about the entries that come with Ratelane, and entries of one's own.

What is accepted here the schedule takes as it is: there is no second judgement when it is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import time
from fnmatch import fnmatchcase
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from console.durations import seconds_of
from console.sites_file.document import Problems, kind_of, pairs, plain
from console.sites_file.entry import Entry, is_text, nearest
from console.sites_file.shape import ScheduleOverrides
from tasks.schedule import builtin
from tasks.schedule.terms import Overlap

_SECTION = ("timezone", "entries")
_POLICY = ("at", "every", "quiet", "overlap", "catch_up", "retry_after", "enabled", "priority")
_WORK = ("crawl", "task", "args")
_CRAWL = ("targets", "sites")
#: the works of entries of one's own, by the names that the schedule has for them
CRAWL, CALL = "crawl", "call"
BUILT_IN = tuple(builtin.entries(ZoneInfo("UTC")))
#: what the columns and the calendar hold
_LONGEST_NAME = 100
_DAY_SEC = 86_400
_LONGEST_SEC = 366 * _DAY_SEC

Document = dict[str, Any]
#: remembers something that is no problem, at the line of a key
Warn = Callable[[Entry, str, str], None]


@dataclass(frozen=True)
class Codes:
    """The codes of targets and sites that the file itself describes."""

    targets: frozenset[str]
    sites: frozenset[str]


def read_schedule(root: Entry, problems: Problems, codes: Codes, warn: Warn) -> ScheduleOverrides:
    """Return what the section says; nothing if it is missing. What is wrong with it becomes a problem of the file."""
    node = root.child("schedule")
    if node is None:
        return ScheduleOverrides()
    section = Entry(node, "schedule", _SECTION, problems)
    timezone = section.text("timezone", "") or None
    if timezone is not None and not _is_zone(timezone):
        section.problem("timezone", f"must be the name of a time zone, such as Asia/Shanghai (is {timezone!r})")
    return ScheduleOverrides(timezone, dict(_entries(section, codes, warn)))


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _entries(section: Entry, codes: Codes, warn: Warn) -> Iterator[tuple[str, Document]]:
    node = section.child("entries")
    if node is None:
        return
    where = section.key("entries")
    if not isinstance(node, yaml.MappingNode):
        section.problem("entries", f"must be a mapping (is {kind_of(node)})")
        return
    for name, (line, value) in pairs(node, where, section.problems).items():
        key = f"{where}.{name}"
        if not isinstance(value, yaml.MappingNode):
            section.problems.add(line, key, f'must be a mapping, such as {{at: "23:15"}} (is {kind_of(value)})')
            continue
        plain(value, key, section.problems)  # what is no data at all is told once, here
        own = name not in BUILT_IN
        entry = Entry(value, key, _POLICY + _WORK if own else _POLICY, section.problems)
        if own and not _is_named(entry, name, line):
            continue
        document = (_work(entry, codes, warn) if own else {}) | _policy(entry, warn)
        if own and not (entry.has("at") or entry.has("every")):
            section.problems.add(line, key, "needs `at` or `every`")
        yield name, document


def _is_named(entry: Entry, name: str, line: int) -> bool:
    """Say whether an entry that is not built in is meant to be one of one's own, and can be called so."""
    if not any(entry.has(key) for key in ("crawl", "task")):
        entry.problems.add(line, entry.where, f"is no built-in entry; {nearest(name, BUILT_IN)} "
                                              "(an entry of your own names `crawl` or `task`)")
        return False
    if not (1 <= len(name) <= _LONGEST_NAME and all(each.isascii() and (each.isalnum() or each in "._-") for each in name)):
        entry.problems.add(line, entry.where, f"must be 1 to {_LONGEST_NAME} of A-Z a-z 0-9 . _ -")
        return False
    return True


def _work(entry: Entry, codes: Codes, warn: Warn) -> Document:
    if entry.has("crawl") and entry.has("task"):
        entry.problem("task", "stands beside `crawl`; an entry does one of them")
        return {}
    if entry.has("task"):
        return _task(entry)
    if entry.has("args"):
        entry.problem("args", "belongs to a `task`")
    return {"task": CRAWL} | _crawl(entry, codes, warn)


def _crawl(entry: Entry, codes: Codes, warn: Warn) -> Document:
    """Read a list of globs of targets, or a mapping with globs of targets, of sites or of both."""
    node = entry.child("crawl")
    if isinstance(node, yaml.MappingNode):
        inner = Entry(node, entry.key("crawl"), _CRAWL, entry.problems)
        found = {name: _globs(inner, name) for name in _CRAWL if inner.has(name)}
    else:
        inner, found = entry, {"targets": _globs(entry, "crawl")}
    if not any(found.values()):
        entry.problem("crawl", "names no targets and no sites, such as [\"news_*\"] or {sites: [\"gd_*\"]}")
    for name, globs in found.items():
        for glob in globs:
            if not any(fnmatchcase(code, glob) for code in getattr(codes, name)):
                warn(inner, name if inner is not entry else "crawl", f"{glob!r} matches none of the {name} of this file")
    return found


def _globs(entry: Entry, name: str) -> list[str]:
    node = entry.child(name)
    if node is not None and is_text(node):
        return [str(node.value)]
    return [text for text, _line in entry.texts(name)]


def _task(entry: Entry) -> Document:
    name, args = entry.text("task"), []
    if entry.has("args"):
        node = entry.child("args")
        if isinstance(node, yaml.SequenceNode):
            args = plain(node, entry.key("args"), entry.problems)
        else:
            entry.problem("args", f"must be a list (is {kind_of(node) if node is not None else 'empty'})")
    if name:
        # Celery and all tasks are imported for this alone: a file without such entries is read without them
        from tasks.named import find_task

        try:
            find_task(name)
        except LookupError as error:
            entry.problem("task", str(error))
    return {"task": CALL, "call": name, "args": args}


def _policy(entry: Entry, warn: Warn) -> Document:
    if entry.has("at") and entry.has("every"):
        entry.problem("every", "stands beside `at`; an entry has times or an interval")
    found: Document = {}
    for name, read in (("at", _at), ("every", _every), ("quiet", _quiet), ("overlap", _overlap),
                       ("catch_up", _catch_up), ("retry_after", _retry_after)):
        if entry.has(name):
            found[name] = read(entry, name)
    if entry.has("enabled"):
        found["enabled"] = entry.flag("enabled", True)
    if entry.has("priority"):
        found["priority"] = entry.whole("priority", -1_000_000, 1_000_000)
    step = found.get("every")
    if step and _DAY_SEC % step:
        warn(entry, "every", "does not divide the day: it starts anew at 00:00")
    return found


def _at(entry: Entry, name: str) -> list[str]:
    node = entry.child(name)
    nodes = list(node.value) if isinstance(node, yaml.SequenceNode) else [node] if node is not None else []
    if not nodes:
        entry.problem(name, "must be a time of the day, such as \"23:15\", or a list of them")
    found: list[str] = []
    for each in nodes:
        shown = _time(each)
        if shown is None:
            entry.problems.add(each, entry.key(name), f"must be a time of the day, such as \"23:15\" (is {kind_of(each)})")
        elif shown in found:
            entry.problems.add(each, entry.key(name), f"names {shown} twice")
        else:
            found.append(shown)
    return sorted(found)


def _time(node: yaml.Node) -> str | None:
    """Return a time of the day as ``HH:MM``, with seconds if it has some; None if the node is none."""
    parts = str(node.value).strip().split(":") if is_text(node) else []
    if len(parts) not in (2, 3) or not all(part.isascii() and part.isdigit() and len(part) <= 2 for part in parts):
        return None
    hour, minute, second = (int(part) for part in (*parts, "0")[:3])
    try:
        return time(hour, minute, second).isoformat("auto" if second else "minutes")
    except ValueError:
        return None


def _every(entry: Entry, name: str) -> int | None:
    seconds = _duration(entry, name, "30m, 6h or 90s")
    if seconds is None:
        return None
    if not 1 <= seconds <= _DAY_SEC or seconds != int(seconds):
        entry.problem(name, f"must be whole seconds, from 1 s to a day (is {entry.text(name)})")
        return None
    return int(seconds)


def _quiet(entry: Entry, name: str) -> list[str] | None:
    node = entry.child(name)
    if node is not None and is_text(node) and str(node.value) == "none":
        return None
    times = [_time(each) for each in node.value] if isinstance(node, yaml.SequenceNode) else []
    found = [each for each in times if each is not None]
    if len(times) != 2 or len(found) != 2:
        entry.problem(name, 'must be two times of the day, such as ["23:00", "01:00"], or none')
    elif found[0] == found[1]:
        entry.problem(name, f"ends where it starts, at {found[0]}; write none, or two times")
    return found


def _overlap(entry: Entry, name: str) -> str:
    word = entry.text(name)
    known = [each.value for each in Overlap]
    if word and word not in known:
        entry.problem(name, f"is no way to meet a run that is under way; {nearest(word, known)}")
    return word


def _catch_up(entry: Entry, name: str) -> float | str | None:
    node = entry.child(name)
    shown = _time(node) if node is not None else None
    return shown if shown is not None else _duration(entry, name, "2h, or a time of the day such as \"12:00\"")


def _retry_after(entry: Entry, name: str) -> float | None:
    return _duration(entry, name, "5m or 30s")


def _duration(entry: Entry, name: str, such_as: str) -> float | None:
    node = entry.child(name)
    seconds = seconds_of(str(node.value)) if node is not None and is_text(node) else None
    if seconds is None:
        entry.problem(name, f"must be a duration, such as {such_as} (is {kind_of(node) if node is not None else 'empty'})")
    elif not 0 <= seconds <= _LONGEST_SEC:
        entry.problem(name, f"must be between 0 and 366 days (is {entry.text(name)})")
        return None
    return seconds
