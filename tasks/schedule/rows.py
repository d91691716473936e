"""The rows of entries and runs, and the values that the planner speaks in. Pure, both ways.

The columns of an entry that people look at stand by themselves; what else changes in one piece with `due_at` is the
document `plan`, and the rules that it was planned under are the document `rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tasks.periodic.base import NamedTask, Scope
from tasks.schedule.calendar import Every, Times, Window
from tasks.schedule.stale import stale_at
from tasks.schedule.terms import DueFor, Entry, Kind, Outcome, Overlap, Recorded, RunInfo, Standing, Status

Row = dict[str, Any]
_CLOCK = "%H:%M:%S"


def rules_of(entry: Entry, scope: Scope) -> Row:
    """Return the rules of an entry as a document; equal documents are equal rules. The pause is no rule."""
    when = entry.when
    timed = ({"at": [each.strftime(_CLOCK) for each in when.at]} if isinstance(when, Times)
             else {"every": when.step.total_seconds()})
    call = {} if scope.call is None else {"call": scope.call.task, "args": list(scope.call.args)}
    return {
        **timed, **call, "kind": entry.kind, "zone": entry.zone.key,
        "quiet": entry.quiet and [entry.quiet.start.strftime(_CLOCK), entry.quiet.end.strftime(_CLOCK)],
        "overlap": entry.overlap.value,
        "catch_up": (entry.catch_up.strftime(_CLOCK) if isinstance(entry.catch_up, time)
                     else entry.catch_up.total_seconds()),
        "retry_after": entry.retry_after.total_seconds(), "max_tries": entry.max_tries, "priority": entry.priority,
        "enabled": entry.enabled, "task": scope.task, "targets": list(scope.targets), "sites": list(scope.sites),
    }


def entry_of(name: str, rules: Mapping[str, Any], *, paused: bool = False) -> tuple[Entry, Scope]:
    """Return the entry and its scope from the document `rules`; raises what a broken document raises."""
    times = tuple(_clock(each) for each in rules.get("at") or ())
    when = Times(times) if times else Every(timedelta(seconds=rules["every"]))
    quiet, catch_up = rules["quiet"], rules["catch_up"]
    entry = Entry(
        name=name, kind=rules["kind"], when=when, zone=ZoneInfo(rules["zone"]),
        quiet=Window(_clock(quiet[0]), _clock(quiet[1])) if quiet else None, overlap=Overlap(rules["overlap"]),
        catch_up=_clock(catch_up) if isinstance(catch_up, str) else timedelta(seconds=catch_up),
        retry_after=timedelta(seconds=rules["retry_after"]), max_tries=rules["max_tries"], priority=rules["priority"],
        enabled=rules["enabled"], paused=paused)
    call = NamedTask(rules["call"], tuple(rules["args"])) if "call" in rules else None
    return entry, Scope(rules["task"], tuple(rules["targets"]), tuple(rules["sites"]), call)


def _clock(text: str) -> time:
    return time.fromisoformat(text)


def row_of(entry: Entry, rules: Mapping[str, Any], standing: Standing, now: datetime) -> Row:
    """Return the row of an entry that stands so at `now`."""
    running = standing.running
    plan = {
        "due_for": standing.due_for.value, "occurrence": _text(standing.occurrence), "try_no": standing.try_no,
        "failures": standing.failures, "due_date": _text(standing.due_date), "source": standing.source,
        "force": standing.force, "after": _text(standing.after), "skips_row": standing.skips_row,
        "running": None if running is None else _run_document(running), "since": _text(standing.since),
    }
    watched = [each for each in (standing.since, standing.last_success_at) if each is not None]
    return {
        "name": entry.name, "rules": dict(rules), "enabled": entry.enabled, "paused": entry.paused,
        "status": standing.status.value, "due_at": standing.due_at, "plan": plan,
        "run_id": None if running is None else running.run_id, "stat_date": standing.stat_date,
        "progress": None if standing.progress is None else dict(standing.progress),
        "last_run_at": standing.last_run_at, "last_success_at": standing.last_success_at,
        "last_outcome": None if standing.last_outcome is None else outcome_document(standing.last_outcome),
        "stale_at": stale_at(entry, max(watched)) if watched else None, "updated_at": now,
    }


def standing_of(row: Mapping[str, Any]) -> Standing:
    """Return how the entry of a row stands; raises one of `models.queries.entries.UNREADABLE` if nobody can say."""
    if "unreadable" in row:
        raise ValueError(row["unreadable"])
    plan, running = row["plan"], row["plan"].get("running")
    return Standing(
        due_at=row["due_at"], status=Status(row["status"]), due_for=DueFor(plan["due_for"]),
        occurrence=moment_of(plan["occurrence"]), try_no=_number(plan["try_no"]), failures=_number(plan["failures"]),
        due_date=date_of(plan["due_date"]), source=plan["source"], force=plan["force"], after=moment_of(plan["after"]),
        running=None if running is None else running_of(running), stat_date=row["stat_date"], progress=_mapping(row["progress"]),
        last_run_at=row["last_run_at"],
        last_outcome=None if row["last_outcome"] is None else outcome_of(row["last_outcome"]),
        last_success_at=row["last_success_at"], skips_row=_number(plan["skips_row"]), since=moment_of(plan.get("since")))


def outcome_document(outcome: Outcome) -> Row:
    """Return an outcome as the document that an entry keeps of its last one."""
    return {"outcome": outcome.kind.value, "ok": outcome.ok, "skipped": outcome.skipped, "reason": outcome.reason,
            "until": _text(outcome.until), "by": outcome.by}


def outcome_of(document: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a document."""
    return Outcome(Kind(document["outcome"]), document["reason"], moment_of(document["until"]), by=document["by"])


def run_row(entry: str, run: RunInfo, now: datetime) -> Row:
    """Return the row of a run that begins."""
    return {"entry": entry, "occurrence": run.occurrence, "try_no": run.try_no, "stat_date": run.stat_date,
            "source": run.source, "force": run.force, "failures": run.failures, "started_at": run.started_at,
            "recorded_at": now}


def run_of(row: Mapping[str, Any]) -> RunInfo:
    """Return the run of a row that has begun."""
    return RunInfo(row["occurrence"], row["try_no"], row["stat_date"], row["started_at"], row["source"],
                   bool(row["force"]), row["failures"], row["run_id"])


def recorded_row(entry: str, each: Recorded, now: datetime, run_id: int | None) -> Row:
    """Return the row of an occurrence that has its end without a run; `run_id` is that of the turn's own run."""
    outcome = each.outcome
    by = outcome.by if outcome.by is not None or outcome.kind != Kind.MADE_UP else run_id
    return {"entry": entry, "occurrence": each.occurrence, "try_no": each.try_no, "stat_date": each.stat_date,
            "source": each.source, "outcome": outcome.kind.value, "reason": outcome.reason, "until": outcome.until,
            "by_run": by, "ended_at": now, "recorded_at": now}


def _run_document(run: RunInfo) -> Row:
    return {"occurrence": _text(run.occurrence), "try_no": run.try_no, "stat_date": _text(run.stat_date),
            "started_at": _text(run.started_at), "source": run.source, "force": run.force, "failures": run.failures,
            "run_id": run.run_id, "absorbs": run.absorbs}


def running_of(document: Mapping[str, Any]) -> RunInfo:
    """Return the run under way that a plan names."""
    return RunInfo(datetime.fromisoformat(document["occurrence"]), document["try_no"],
                   date.fromisoformat(document["stat_date"]), datetime.fromisoformat(document["started_at"]),
                   document["source"], document["force"], document["failures"], document["run_id"],
                   bool(document.get("absorbs")))


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    return value


def _mapping(value: Any) -> Mapping[str, Any] | None:
    if value is None or isinstance(value, Mapping):
        return value
    raise TypeError(f"{value!r} is no document")


def _text(value: date | datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def moment_of(text: str | None) -> datetime | None:
    """Return the moment of a document."""
    return None if text is None else datetime.fromisoformat(text)


def date_of(text: str | None) -> date | None:
    """Return the date of a document."""
    return None if text is None else date.fromisoformat(text)
