"""Commands about jobs: submit, list, look, watch, count."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from console.cli import options
from console.cli.evidence import evidence_lines
from console.cli.session import Session, session_of
from console.cli.show import brief, cell, print_fields, print_json, print_table, span

_WATCH_EVERY_SEC = 0.5


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("submit")(submit)
    app.command("jobs")(jobs)
    app.command("job")(job)
    app.command("counts")(counts)


def submit(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="Code of the target to crawl")],
    again: Annotated[bool, typer.Option(help="Also if such a job is queued or running", show_default=False)] = False,
    force: Annotated[bool, typer.Option(help="Walk every page", show_default=False)] = False,
    resume_from_page: Annotated[int, typer.Option(help="Start behind this page")] = 0,
    priority: Annotated[int, typer.Option(help="Smaller goes first in its lane")] = 100,
    dedupe_key: Annotated[
        str | None, typer.Option(help="One active job per key [default: crawl:TARGET]", show_default=False)
    ] = None,
    run_after: Annotated[str | None, typer.Option(help="Not before: 30s, 10m or a time", show_default=False)] = None,
    max_attempts: Annotated[int | None, typer.Option(min=1, help="Failures until it is failed", show_default=False)] = None,
    deadline: Annotated[float | None, typer.Option(min=0, help="Seconds an attempt may run", show_default=False)] = None,
    json: options.Json = False,
) -> None:
    """Queue a crawl of a target; without --again an active job of the same key answers instead."""
    from console import actions
    from console.cli.parse import duration_or_moment

    session = session_of(ctx)
    document = actions.submit(
        session.database, session.settings, target, by=session.operator(), again=again, force=force,
        resume_from_page=resume_from_page, priority=priority, dedupe_key=dedupe_key, max_attempts=max_attempts,
        deadline_sec=deadline, run_after=duration_or_moment(run_after) if run_after is not None else None,
    )
    for warning in document.pop("warnings"):
        session.say(f"warning: {warning}")
    if json:
        print_json(document)
    else:
        word = "queued" if document["created"] else "already active, nothing stored:"
        print(f"{word} job {document['job_id']} in lane {document['group']}")


def jobs(
    ctx: typer.Context,
    site: options.Site = None,
    target: options.Target = None,
    status: options.Status = None,
    group: options.Group = None,
    kind: options.Kind = None,
    source: options.Source = None,
    run: options.Run = None,
    dedupe_key: options.DedupeKey = None,
    search: options.Search = None,
    history: Annotated[bool, typer.Option("--history/--no-history", help="Finished ones too")] = True,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows at most [default: 200]", show_default=False)] = None,
    json: options.Json = False,
) -> None:
    """List jobs: running, queued, failed and cancelled, done."""
    from console import answers
    from models import queries

    session = session_of(ctx)
    wanted = options.job_filter(
        site=site, target=target, status=status, group=group, kind=kind, source=source, run=run, dedupe_key=dedupe_key,
        search=search, include_history=history, limit=limit or session.settings.list_limit)
    with session.database.look() as conn:
        found = queries.jobs(conn, wanted)
        waits = {} if json else answers.notes(conn, [one["job_id"] for one in found if one["status"] == "queued"])
    if json:
        print_json(found)
        return
    print_table(
        ("job", "status", "target", "group", "page", "new", "known", "failed", "queued", "ran", "waits", "note"),
        ([one["job_id"], one["status"], one["target_code"] or one["kind"], one["group"], _page(one),
          *(one["progress"][name] for name in ("items_new", "items_known", "items_failed")),
          span(one["queued_for_sec"]) if one["status"] == "queued" else "", span(one["running_for_sec"]),
          waits.get(one["job_id"], ""), brief(_note(one))]
         for one in found),
        empty="no jobs",
    )


def job(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the job")],
    watch: Annotated[bool, typer.Option(help="Go on until it is final", show_default=False)] = False,
    json: options.Json = False,
) -> None:
    """Show one job with its attempts, progress and result; --watch --json prints one document a line."""
    session = session_of(ctx)
    document = _job(session, job_id)
    if watch:
        _watch(session, document, json)
    elif json:
        print_json(document)
    else:
        _print_job(session, document)
        if document["status"] == "queued":
            _print_why(session, job_id)


def counts(ctx: typer.Context, json: options.Json = False) -> None:
    """Count jobs by status."""
    from models import queries

    with session_of(ctx).database.look() as conn:
        found = queries.counts(conn)
    print_json(found) if json else print_fields({name: str(number) for name, number in found.items()})


def _job(session: Session, job_id: str) -> dict[str, Any]:
    from config.errors import BadInput
    from models import queries

    with session.database.look() as conn:
        found = queries.job(conn, job_id)
    if found is None:
        raise BadInput(f"no job has the id {job_id!r}; `ratelane jobs` lists them")
    return found


def _watch(session: Session, document: dict[str, Any], json: bool) -> None:
    """Print the job at each change until it is final."""
    from config import clock
    from models.queries import FINAL

    shown = None
    while True:
        line = _line(document)
        if line != shown:
            print_json(document) if json else print(line, flush=True)
            shown = line
        if document["status"] in FINAL:
            break
        clock.pause(_WATCH_EVERY_SEC)
        document = _job(session, document["job_id"])
    if not json:
        _print_job(session, document)


def _line(one: dict[str, Any]) -> str:
    done = one["progress"]
    return " ".join(
        part for part in (
            one["status"], f"attempt {one['attempt']}", f"page {_page(one)}" if _page(one) else "",
            f"{done['items_new']} new, {done['items_known']} known, {done['items_failed']} failed", _note(one),
        ) if part
    )


def _print_job(session: Session, one: dict[str, Any]) -> None:
    from models import queries

    with session.database.look() as conn:
        operations = queries.operations_of_job(conn, one["job_id"])
    apart = ("progress", "attempts_log", "result")
    print_fields({name: value for name, value in one.items() if name not in apart})
    print_fields({"progress": _line(one), "steps": steps_of(one), "result": one["result"]})
    print_table(
        ("attempt", "worker", "source", "started", "finished", "outcome", "from page", "to page", "error"),
        ([tried[name] for name in ("attempt", "worker", "source", "started_at", "finished_at", "outcome", "from_page",
                                   "last_completed_page", "error")] for tried in one["attempts_log"]),
        empty="no attempts yet",
    )
    for tried in one["attempts_log"]:
        if tried["evidence"]:
            print("\n".join(evidence_lines(tried["attempt"], tried["evidence"])))
    if operations:
        print_table(
            ("when", "who", "through", "did", "why"),
            ([done["at"], done["who"], done["surface"], done["action"], done["reason"]] for done in operations),
            empty="",
        )


def _print_why(session: Session, job_id: str) -> None:
    from console import answers
    from console.cli.explain_commands import place_of, print_reasons

    with session.database.look() as conn:
        document = answers.why(conn, job_id)
    print(f"waits{place_of(document)}:" if document["status"] == "queued" else f"is {document['status']} now")
    print_reasons(document)


def steps_of(one: dict[str, Any]) -> str:
    """Return the steps of a job in one line, each with its reason if it has one; nothing before the first attempt."""
    return ", ".join(
        f"{step['name']} {step['status']}" + (f" ({step['reason']})" if step.get("reason") else "")
        for step in one["progress"]["steps"])


def _page(one: dict[str, Any]) -> str:
    page, total = one["progress"]["page"] or one["current_page"], one["progress"]["pages_total"]
    return f"{page}/{total}" if total else cell(page or "")


def _note(one: dict[str, Any]) -> str:
    return one["error_msg"] or (one["outcome"] or "")
