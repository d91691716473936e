"""What operators do: pause and resume lanes, cancel jobs and bring dead ones back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from console.cli import options
from console.cli.lane_commands import fleet_sentence
from console.cli.session import Session, session_of
from console.cli.show import brief, print_json

if TYPE_CHECKING:
    from datetime import datetime

Lane = Annotated[str | None, typer.Argument(metavar="GROUP", help="Key of a rate group", show_default=False)]
JobIds = Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Ids of jobs", show_default=False)]
#: lanes that a sentence each is printed for
_MOST_LINES = 20
Why = Annotated[str | None, typer.Option("--reason", help="Why; kept with the action", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("pause")(pause)
    app.command("resume")(resume)
    app.command("cancel")(cancel)
    app.command("requeue")(requeue)


def pause(
    ctx: typer.Context,
    reason: Annotated[str, typer.Option(help="Why; everybody sees it", show_default=False)],
    group: Lane = None,
    all: Annotated[bool, typer.Option("--all", help="Every lane, later ones too")] = False,
    for_: Annotated[str | None, typer.Option("--for", help="For 10m, 2h, 1d", show_default=False)] = None,
    until: Annotated[str | None, typer.Option(help="Until this time", show_default=False)] = None,
    json: options.Json = False,
) -> None:
    """Pause a lane, or all: its running job stops at its next stop point and keeps its checkpoint."""
    from console import actions

    _require_one(group, all)
    session = session_of(ctx)
    end: dict[str, Any] = {"for_sec": _seconds(for_), "until": _moment(until)}
    by = session.operator(reason)
    if group is not None:
        found = actions.pause(session.database, group, by, **end)
        print_json(found) if json else print(_sentence(found))
        return
    lanes = actions.pause_all(session.database, by, **end)
    print_json(lanes) if json else print(fleet_sentence(session))


def resume(
    ctx: typer.Context,
    group: Lane = None,
    all: Annotated[bool, typer.Option("--all", help="Lift the pause of all lanes; single ones stay")] = False,
    cooldown: Annotated[bool, typer.Option("--cooldown", help="End the cooldown too", show_default=False)] = False,
    reason: Why = None,
    json: options.Json = False,
) -> None:
    """Lift an operator's pause of a lane, or the one of all; with --cooldown end cooldowns too."""
    from console import actions

    _require_one(group, all)
    session = session_of(ctx)
    by = session.operator(reason)
    if group is not None:
        found = actions.resume(session.database, group, by, cooldown=cooldown)
        print_json(found) if json else print(_sentence(found, "stays paused", _note(session, found)))
        return
    lanes = actions.resume_all(session.database, by, cooldown=cooldown)
    if json:
        print_json(lanes)
        return
    print("all lanes go on, except those that have a pause of their own")
    _print_still_paused(lanes)


def cancel(
    ctx: typer.Context,
    job_ids: JobIds = None,
    site: options.Site = None,
    target: options.Target = None,
    status: options.Status = None,
    group: options.Group = None,
    kind: options.Kind = None,
    source: options.Source = None,
    run: options.Run = None,
    dedupe_key: options.DedupeKey = None,
    search: options.Search = None,
    reason: Why = None,
    json: options.Json = False,
) -> None:
    """Cancel jobs by id, or every active one that filters let through; exit 1 if one was refused."""
    from console import actions

    session = session_of(ctx)
    wanted = options.job_filter(site=site, target=target, status=status, group=group, kind=kind, source=source, run=run,
                                dedupe_key=dedupe_key, search=search)
    by = session.operator(reason)
    options.require_ids_or_filters(job_ids, wanted, "cancel")
    if job_ids:
        document = actions.cancel(session.database, session.settings, job_ids, by)
    else:
        document = actions.cancel_matching(session.database, session.settings, wanted, by)
    _answer(document, f"{document['cancelled']} cancelled, {document['flagged']} running and asked to stop", json)


def requeue(
    ctx: typer.Context,
    job_ids: JobIds = None,
    restart: Annotated[bool, typer.Option("--restart", help="From the beginning, not from the checkpoint")] = False,
    site: options.Site = None,
    target: options.Target = None,
    status: options.Status = None,
    group: options.Group = None,
    kind: options.Kind = None,
    source: options.Source = None,
    run: options.Run = None,
    dedupe_key: options.DedupeKey = None,
    search: options.Search = None,
    reason: Why = None,
    json: options.Json = False,
) -> None:
    """Bring failed and cancelled jobs back, by id or by filters, with nothing spent; exit 1 if one was refused."""
    from console import actions

    session = session_of(ctx)
    wanted = options.job_filter(site=site, target=target, status=status, group=group, kind=kind, source=source, run=run,
                                dedupe_key=dedupe_key, search=search)
    by = session.operator(reason)
    options.require_ids_or_filters(job_ids, wanted, "requeue")
    if job_ids:
        document = actions.requeue(session.database, session.settings, job_ids, by, restart=restart)
    else:
        document = actions.requeue_matching(session.database, session.settings, wanted, by, restart=restart)
    _answer(document, f"{document['requeued']} requeued", json)


def _answer(document: dict[str, Any], sentence: str, json: bool) -> None:
    if json:
        print_json(document)
    else:
        print(sentence)
        for one in document["refused"]:
            print(f"{one['job_id']}: {one['reason']}")
    if document["refused"]:
        raise typer.Exit(1)


def _require_one(group: str | None, all: bool) -> None:
    from config.errors import BadInput

    if (group is None) is not all:
        raise BadInput("name one rate group, or --all" if group is None else "name a rate group or --all, not both")


def _seconds(text: str | None) -> float | None:
    from config.errors import BadInput
    from console.cli.parse import duration_or_moment

    if text is None:
        return None
    found = duration_or_moment(text)
    if not isinstance(found, float):
        raise BadInput(f"--for takes a time such as 10m or 2h, not {text!r}; a moment is named with --until")
    return found


def _moment(text: str | None) -> datetime | None:
    from console.cli.parse import moment

    return None if text is None else moment(text)


def _sentence(lane: dict[str, Any], word: str = "is paused", note: str = "") -> str:
    if lane["pause_kind"] is None:
        return f"lane {lane['group']} goes on, one request at a time"
    until = f"until {lane['paused_until']}" if lane["paused_until"] else "until somebody resumes it"
    return f"lane {lane['group']} {word} {until}: {brief(lane['pause_reason'] or lane['pause_kind'])}{note}"


def _note(session: Session, lane: dict[str, Any]) -> str:
    """What else would have to be done for a resumed lane to go on."""
    notes = ["all lanes are paused: `ratelane resume --all`"] if fleet_sentence(session) else []
    if lane["pause_kind"] == "cooldown":
        notes.append(f"`ratelane resume {lane['group']} --cooldown` ends its cooldown")
    return f" ({'; '.join(notes)})" if notes else ""


def _print_still_paused(lanes: list[dict[str, Any]]) -> None:
    held = [lane for lane in lanes if lane["pause_kind"]]
    for lane in held[:_MOST_LINES]:
        print(f"  {_sentence(lane)}")
    if len(held) > _MOST_LINES:
        print(f"  and {len(held) - _MOST_LINES} more: `ratelane lanes` shows all")
