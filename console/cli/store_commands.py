"""Commands about what is stored: the schema, the file of sites, targets, groups, intervals, articles."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from console.cli import options
from console.cli.session import session_of
from console.cli.show import cell, print_json, print_table


class Format(StrEnum):
    """How articles are written."""

    JSONL = "jsonl"
    CSV = "csv"


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("migrate")(migrate)
    app.command("load")(load)
    app.command("targets")(targets)
    app.command("interval")(interval)
    app.command("articles")(articles)
    app.command("groups")(groups)


def migrate(ctx: typer.Context, json: options.Json = False) -> None:
    """Create or upgrade the schema."""
    from models.migrate import migrate as bring_to_head

    before, after = bring_to_head(session_of(ctx).open_database())
    if json:
        print_json({"from": before, "to": after})
    else:
        print(f"already at {after}" if before == after else f"from {before or 'nothing'} to {after}")


def load(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="YAML file of sites, targets and group rules")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and show what would change; store nothing")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Disable the targets that the file does not name")] = False,
    json: options.Json = False,
) -> None:
    """Load sites, targets and group rules; all of the file or nothing of it."""
    from console.cli.crawling import contact_notes
    from console.cli.schedule_commands import warn_of_overloads
    from console.sites_file import read_sites_file
    from models.catalogue import Catalogue, preview
    from routing import resolver

    session = session_of(ctx)
    described = read_sites_file(file)
    plan = resolver.plan(described)
    if dry_run and session.stores_nothing_yet:
        found = preview(plan)
    else:
        found = Catalogue(session.database).load(plan, dry_run=dry_run, prune=prune, by=session.operator())
    for note in (*described.warnings, *contact_notes(session.settings, described), *found.notes):
        session.say(f"note: {note}")
    if not (dry_run and session.stores_nothing_yet):
        warn_of_overloads(session, described.schedule.documents())
    if json:
        print_json({"sites": found.sites, "targets": found.targets, "groups": found.groups,
                    "changed": list(found.changed)})
        return
    word = "would be loaded" if dry_run else "loaded"
    print(f"{found.sites} sites, {found.targets} targets, {found.groups} groups {word}; {len(found.changed)} changed")
    for one in found.changed:
        print(f"  {cell(one)}")


def targets(
    ctx: typer.Context,
    site: options.Site = None,
    enable: Annotated[str | None, typer.Option(metavar="CODE", help="Crawl this one again", show_default=False)] = None,
    disable: Annotated[
        str | None, typer.Option(metavar="CODE", help="Crawl this one no more by schedule", show_default=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """List targets with interval, last crawl and frontier; enable or disable one."""
    from console import actions
    from models import queries

    session = session_of(ctx)
    if site is not None:
        actions.require_site(session.database, site)
    if enable is not None:
        actions.enable_target(session.database, enable, session.operator())
    if disable is not None:
        actions.disable_target(session.database, disable, session.operator())
    with session.database.look() as conn:
        found = queries.targets(conn, site)
    if json:
        print_json(found)
        return
    print_table(
        ("target", "site", "group", "enabled", "interval", "baseline", "last crawl", "outcome", "frontier", "active job"),
        ([one[name] for name in ("target_code", "site_code", "group", "enabled", "interval_sec", "baseline_sec",
                                 "last_crawl_at", "last_outcome", "frontier_at", "active_job_id")] for one in found),
        empty="no targets; `ratelane load sites.yaml` brings some",
    )


def interval(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="Code of the target")],
    reset: Annotated[bool, typer.Option("--reset", help="Forget what objections made of it")] = False,
    reason: Annotated[str | None, typer.Option(help="Why it is reset; kept in its history", show_default=False)] = None,
    json: options.Json = False,
) -> None:
    """Show a target's interval in force, its baseline and what changed it; --reset goes back to the file's."""
    from console import actions

    session = session_of(ctx)
    if reset:
        found = actions.reset_interval(session.database, target, session.operator(reason))
    else:
        found = actions.interval(session.database, target)
    if json:
        print_json(found)
        return
    print(f"{target}: {cell(found['interval_sec'])} s in force, {cell(found['baseline_sec'])} s in the file")
    print_table(
        ("when", "from", "to", "cause", "job"),
        ([one[name] for name in ("at", "old_interval_sec", "new_interval_sec", "cause", "job_id")]
         for one in found["history"]),
        empty="never changed",
    )


def articles(
    ctx: typer.Context,
    target: options.Target = None,
    since: Annotated[str | None, typer.Option(help="Fetched at or after this time", show_default=False)] = None,
    format: Annotated[Format, typer.Option("--format", help="One JSON object a line, or CSV")] = Format.JSONL,
    out: Annotated[Path | None, typer.Option(help="Write to this file", show_default=False)] = None,
) -> None:
    """Print the stored articles, one a line."""
    from console import actions
    from console.cli.articles import write_articles
    from console.cli.parse import moment
    from models import queries

    session = session_of(ctx)
    start = moment(since) if since is not None else None
    if target is not None:
        actions.require_target(session.database, target)
    _ = session.database
    with session.open_database(reports=True).look() as conn:
        number = write_articles(queries.articles(conn, target, start), out, as_csv=format is Format.CSV)
    if out is not None:
        session.say(f"{number} articles written to {out}")


def groups(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SITE] | assign SITE GROUP", help="A site; or `assign`, a site and its group",
                       show_default=False),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show how sites map to rate groups and which rule decided; `groups assign SITE GROUP` decides by hand."""
    from config.errors import BadInput
    from console import actions

    session = session_of(ctx)
    words = words or []
    if words[:1] == ["assign"] and len(words) == 3:
        for note in actions.assign_group(session.database, words[1], words[2], session.operator()).notes:
            session.say(f"note: {note}")
        words = words[1:2]
    elif len(words) > 1:
        raise BadInput("write `ratelane groups [SITE]` or `ratelane groups assign SITE GROUP`")
    found = actions.groups(session.database, words[0] if words else None)
    if json:
        print_json(found)
    else:
        print_table(("site", "group", "rule"), ([one["site_code"], one["group"], one["rule"]] for one in found),
                    empty="no sites")
