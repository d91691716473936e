"""The main job: everything in one command, on one's own sites or on the bundled demo site."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated

import typer

from console.cli import options
from console.cli.session import session_of


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("crawl")(crawl)
    app.command("demo")(demo)


def crawl(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="sites.yaml", help="YAML file of sites, targets and group rules")],
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET]…", help="Only these targets", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Walk every page")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes")] = 1,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Slots of a worker [default: one per group, shared by the workers]",
                                 show_default=False)
    ] = None,
    for_sec: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0, help="Park after this time", show_default=False)
    ] = None,
    no_workers: Annotated[bool, typer.Option("--no-workers", help="Leave the work to workers that run already")] = False,
    json: options.Json = False,
) -> None:
    """Crawl the sites of a file: check, load, start what is needed, crawl, show, wait, sum up, stop."""
    from console.cli.children import standing_by

    session, number = session_of(ctx), 0 if no_workers else workers
    # a worker's imports take as long as the command's own, and there is more than one core
    with standing_by(session.settings, number) as waiting:
        gc.disable()  # what is imported stays: looking through it again and again only takes time
        from console.cli.crawling import Order, crawl_sites
        from console.cli.summary import print_summary

        gc.freeze()
        gc.enable()
        order = Order(file=file, targets=tuple(targets or ()), force=force, workers=number, concurrency=concurrency,
                      for_sec=for_sec)
        found = crawl_sites(session, order, waiting)
    print_summary(found, as_json=json)
    raise typer.Exit(0 if found.whole else 1)


def demo(ctx: typer.Context, json: options.Json = False) -> None:
    """Show lanes, a cooldown, going on from a checkpoint and a growing interval on a demo site of this machine."""
    from console.cli.demonstration import demonstrate

    raise typer.Exit(0 if demonstrate(session_of(ctx), as_json=json) else 1)
