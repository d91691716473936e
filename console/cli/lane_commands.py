"""Commands about lanes, workers, health and the proof of politeness."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from console.cli import options
from console.cli.politeness import print_politeness
from console.cli.session import Session, session_of
from console.cli.show import brief, print_fields, print_json, print_table, span


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("lanes")(lanes)
    app.command("workers")(workers)
    app.command("health")(health)
    app.command("audit")(audit)


def lanes(ctx: typer.Context, json: options.Json = False) -> None:
    """Show a row for each group that has work or a pause."""
    from console import answers
    from models import queries

    session = session_of(ctx)
    with session.database.look() as conn:
        found = queries.lanes(conn)
        waits = {} if json else answers.lane_notes(
            conn, [one["group"] for one in found if one["queued_count"] and one["running_job_id"] is None])
    if json:
        print_json(found)
        return
    all_paused = fleet_sentence(session)
    if all_paused:
        print(all_paused)
    print_table(
        ("group", "running", "for", "queued", "next", "waits", "paused until", "why", "interval", "worker"),
        ([one["group"], one["running_target"] or one["running_job_id"], span(one["running_for_sec"]),
          one["queued_count"], one["next_queued_target"], waits.get(one["group"], ""), _paused(one), one["pause_reason"],
          one["interval_sec"], one["worker"]] for one in found),
        empty="no lane has work or a pause",
    )


def fleet_sentence(session: Session) -> str:
    """Return the sentence about the pause of all lanes, "" if there is none."""
    from models import queries

    with session.database.look() as conn:
        pause = queries.fleet_pause(conn)
    if pause is None:
        return ""
    until = f"until {pause['until']}" if pause["until"] else "until somebody resumes them"
    return f"all lanes are paused {until} by {pause['by']} because: {brief(pause['reason'])}"


def _paused(one: dict[str, Any]) -> str:
    return one["paused_until"] or ("until resumed" if one["pause_kind"] else "")


def workers(ctx: typer.Context, json: options.Json = False) -> None:
    """Show the workers that live and what they serve."""
    from models import queries

    with session_of(ctx).database.look() as conn:
        found = queries.workers(conn)
    if json:
        print_json(found)
        return
    print_table(
        ("worker", "pid", "pool", "slots", "lanes", "up for", "alive", "consuming", "trouble"),
        ([one["name"], one["pid"], one["pool"], one["concurrency"], one["lanes"] or "all", span(one["up_for_sec"]),
          one["alive"], one["consuming"], one["trouble"]] for one in found),
        empty="no workers",
    )


def health(
    ctx: typer.Context,
    worker: Annotated[str | None, typer.Option(help="Only whether this worker consumes", show_default=False)] = None,
    json: options.Json = False,
) -> None:
    """Say whether work is being consumed: exit 0 if so, 1 if a lane with due work has no worker, 3 if a service is away."""
    from console.cli.services import health_of

    session = session_of(ctx)
    found = health_of(session.settings, session.open_database, worker)
    if json:
        print_json(found)
    else:
        print_fields({
            "database": _word(found["database_ok"], found["database_error"]),
            "broker": _word(found["broker_ok"], found["broker_error"]),
            **({"warning": found["broker_warning"]} if found["broker_warning"] else {}),
            "workers": f"{found['workers_consuming']} consuming of {found['workers']} alive",
            **({"lanes without a worker": ", ".join(found["lanes_unserved"])} if found["lanes_unserved"] else {}),
            **{one["worker"]: f"does not consume: {one['text']}{_code(one['trouble'])}" for one in found["not_consuming"]},
        })
    if not (found["database_ok"] and found["broker_ok"]):
        raise typer.Exit(3)
    if not found["ok"]:
        raise typer.Exit(1)


def _code(trouble: str) -> str:
    return f" ({trouble})" if trouble else ""


def _word(ok: bool, error: str | None) -> str:
    return "answers" if ok else f"not usable: {error}"


def audit(
    ctx: typer.Context,
    group: options.Group = None,
    host: Annotated[str | None, typer.Option(help="Only this host", show_default=False)] = None,
    since: Annotated[str | None, typer.Option(help="Only requests from this time on", show_default=False)] = None,
    report: Annotated[bool, typer.Option("--report", help="Also what each group was asked, for its site's owner")] = False,
    json: options.Json = False,
) -> None:
    """Prove politeness and exclusion from the request log and the attempts; exit 1 on any violation."""
    from console import actions
    from console.cli.parse import moment
    from models.audit import is_clean, read_audit
    from models.politeness import read_politeness

    session = session_of(ctx)
    start = moment(since) if since is not None else None
    if group is not None:
        actions.require_group(session.database, group)
    _ = session.database
    with session.open_database(reports=True).look() as conn:
        found = read_audit(conn, group=group, host=host, since=start)
        for key, one in found["groups"].items() if report else ():
            one["report"] = read_politeness(conn, key, since=start)
    if json:
        print_json(found)
    else:
        _print_audit(found)
    if not is_clean(found):
        raise typer.Exit(1)


def _print_audit(found: dict[str, Any]) -> None:
    names = ("requests", "overlaps", "gaps_too_short", "during_pause", "within_clock_error")
    print_table(
        ("group", *(name.replace("_", " ") for name in names)),
        [[key, *(one[name] for name in names)] for key, one in found["groups"].items()]
        + [["all", *(found[name] for name in names)]],
        empty="",
    )
    for key, one in found["groups"].items():
        for what in one["violations"]:
            by = "" if what["seconds"] is None else f" by {what['seconds']} s"
            print(f"{key}: {what['what']}{by} at {what['at']}: attempt {what['attempt']} of {what['job_id']} "
                  f"against {what['against']}")
    for key, one in found["groups"].items():
        if "report" in one:
            print_politeness(key, one["report"])
