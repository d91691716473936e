"""Commands about the schedule: what is due, what ran, what is to come; run, pause, resume (rule S9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from console.cli import options
from console.cli.session import Session, session_of
from console.cli.show import brief, print_json, print_table, span

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime, tzinfo

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of an entry")]
Why = Annotated[str | None, typer.Option("--reason", help="Why; kept with the action", show_default=False)]
Date = Annotated[
    str | None, typer.Option("--date", help="Stat date to work for, such as 2026-11-30; today's without", show_default=False)]
#: of the moments to come, a table shows the first of each entry
_SHOWN = 2

schedule = typer.Typer(invoke_without_command=True, help="Entries of the schedule: what is due, what ran, what is to come.")


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.add_typer(schedule, name="schedule")
    app.command("snapshot-seed")(snapshot_seed)


@schedule.callback()
def show(ctx: typer.Context, json: options.Json = False) -> None:
    """Show every entry: status, when it is due, how it ended last, its last success."""
    if ctx.invoked_subcommand is None:
        list_entries(ctx, json)


@schedule.command("list")
def list_entries(ctx: typer.Context, json: options.Json = False) -> None:
    """The same as `ratelane schedule`."""
    from console.actions import schedule as actions

    session = session_of(ctx)
    found = actions.entries(session.database, session.settings)
    if json:
        print_json(found)
        return
    print_table(
        ("entry", "status", "due", "then", "progress", "last run", "outcome", "why", "last success"),
        ([one["name"], _status(one), _when(one["due_at"]), "\n".join(map(_when, one["next_runs"][1:_SHOWN])),
          _progress(one["progress"]), _when(one["last_run_at"]), (one["last_outcome"] or {}).get("outcome"),
          brief((one["last_outcome"] or {}).get("reason") or ""), _when(one["last_success_at"])]
         for one in found),
        empty="no entries",
    )


@schedule.command("run")
def run(
    ctx: typer.Context,
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="Also inside its quiet window, and everything anew")] = False,
    date: Date = None,
    reason: Why = None,
    json: options.Json = False,
) -> None:
    """Run an entry now; its next regular moment stays. Exit 1 inside its quiet window, or while it runs already."""
    from console.actions import schedule as actions

    session = session_of(ctx)
    found = actions.run_entry(session.database, session.settings, name, session.operator(reason), force=force,
                              stat_date=_date(date))
    print_json(found) if json else print(_run_sentence(found))


@schedule.command("pause")
def pause(ctx: typer.Context, name: Name, reason: Why = None, json: options.Json = False) -> None:
    """Pause an entry: what comes due is skipped, a run under way goes on."""
    from console.actions import schedule as actions

    session = session_of(ctx)
    found = actions.pause_entry(session.database, session.settings, name, session.operator(reason))
    print_json(found) if json else print(f"{name} is paused until somebody resumes it")


@schedule.command("resume")
def resume(ctx: typer.Context, name: Name, reason: Why = None, json: options.Json = False) -> None:
    """Lift the pause of an entry; nothing that it missed is made up."""
    from console.actions import schedule as actions

    session = session_of(ctx)
    found = actions.resume_entry(session.database, session.settings, name, session.operator(reason))
    print_json(found) if json else print(f"{name} goes on, next at {_when(found['due_at']) or 'no time: it is disabled'}")


@schedule.command("preview")
def preview(
    ctx: typer.Context,
    from_: Annotated[str, typer.Option("--from", help="Start: a time, or 30m, 2h from now")],
    to: Annotated[str, typer.Option("--to", help="End: a time, or 30m, 2h, 1d from now")],
    json: options.Json = False,
) -> None:
    """Show what would fire, be deferred or be skipped between two moments: decided by what decides in earnest."""
    from console.actions import schedule as actions

    session = session_of(ctx)
    zone = actions.zone(session.database)
    found = actions.preview(session.database, session.settings, _moment(from_, zone), _moment(to, zone))
    warn_of_overloads(session)
    if json:
        print_json(found)
        return
    print_table(
        ("due", "entry", "action", "until", "why", "stat date"),
        ([_when(one["due_at"]), one["name"], one["action"].replace("_", " "), _when(one["until"]), one["reason"],
          one["stat_date"]]
         for one in found),
        empty="nothing is due then",
    )


@schedule.command("runs")
def runs(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only of this entry", show_default=False)] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many", show_default=False)] = None,
    json: options.Json = False,
) -> None:
    """Show what became of each occurrence, newest first."""
    from console.actions import schedule as actions

    session = session_of(ctx)
    found = actions.runs(session.database, session.settings, name, limit)
    if json:
        print_json(found)
        return
    print_table(
        ("run", "entry", "due", "try", "stat date", "source", "outcome", "why", "progress", "took"),
        ([str(one["run_id"]), one["entry"], _when(one["occurrence"]), one["try_no"], one["stat_date"], one["source"],
          (one["outcome"] or "running").replace("_", " "), brief(_because(one)), _progress(one["progress"]),
          span(one["elapsed_sec"])]
         for one in found),
        empty="nothing has been due yet",
    )


def snapshot_seed(
    ctx: typer.Context, date: Date = None, reason: Why = None, json: options.Json = False,
) -> None:
    """Clone the last completed snapshot into a stat date, offline, now; exit 1 if it was skipped or failed."""
    from console.actions import schedule as actions

    session = session_of(ctx)
    found = actions.seed(session.database, session.settings, session.operator(reason), stat_date=_date(date))
    print_json(found) if json else print(_run_sentence(found))
    if not found["ok"]:
        raise typer.Exit(1)


def warn_of_overloads(session: Session, documents: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Say which groups need more than their day (rule S9), on standard error like every note.

    `documents` are those of a file that is not stored.
    """
    from console.actions.capacity import overload_notes

    for sentence in overload_notes(session.database, session.settings, documents):
        session.say(f"warning: {sentence}")


def _when(moment: str | None) -> str:
    """Return a time as tables show it: without the fraction of a second, with its offset (rule U6)."""
    if moment is None:
        return ""
    return f"{moment[:19]}{moment[19:].lstrip('.0123456789')}"


def _status(one: dict[str, Any]) -> str:
    return f"{one['status']}, paused" if one["paused"] else str(one["status"])


def _progress(one: dict[str, Any] | None) -> str:
    if not one or not one.get("total"):
        return ""
    failed = f", {one['failed']} failed" if one.get("failed") else ""
    return f"{one.get('done', 0)} of {one['total']}{failed}"


def _because(one: dict[str, Any]) -> str:
    parts = [one["reason"] or "", f"until {_when(one['until'])}" if one["until"] else "",
             f"by run {one['by_run']}" if one["by_run"] else ""]
    return ", ".join(filter(None, parts))


def _run_sentence(one: dict[str, Any]) -> str:
    about = f"run {one['run_id']} of {one['entry']} for {one['stat_date']}"
    if one["outcome"] is None:
        return f"{about} has started; `ratelane schedule runs {one['entry']}` shows how far it is"
    because = _because(one)
    return f"{about}: {one['outcome'].replace('_', ' ')}" + (f" ({because})" if because else "")


def _date(text: str | None) -> date | None:
    from datetime import date

    from config.errors import BadInput

    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadInput(f"{text!r} is no date; write 2026-11-30") from None


def _moment(text: str, zone: tzinfo) -> datetime:
    from datetime import timedelta

    from config import clock
    from console.cli.parse import duration_or_moment

    found = duration_or_moment(text, zone)
    return clock.now() + timedelta(seconds=found) if isinstance(found, float) else found
