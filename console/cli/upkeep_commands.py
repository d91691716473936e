"""Commands that keep the store in order: how everything stands, retention, a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from console.cli import options
from console.cli.session import session_of
from console.cli.show import print_fields, print_json


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("ops")(ops)
    app.command("prune")(prune)
    app.command("backup")(backup)


def ops(ctx: typer.Context, json: options.Json = False) -> None:
    """Show how everything stands, in numbers; exit 3 only if the database is away."""
    from console.cli.services import ops_of

    session = session_of(ctx)
    found, away = ops_of(session.settings, lambda: session.database)
    if json:
        print_json(found)
    else:
        print_fields({name: value if isinstance(value, bool | None) else str(value) for name, value in found.items()})
    if away is not None:
        raise away


def prune(ctx: typer.Context, json: options.Json = False) -> None:
    """Delete now what is older than it is kept; queued and running jobs and articles never."""
    from models.ledger import Ledger

    session = session_of(ctx)
    _ = session.database
    found = Ledger(session.open_database(reports=True), session.settings).prune().rows
    if json:
        print_json(found)
    else:
        print_fields({name: str(number) for name, number in found.items()})


def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to write the copy")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists")] = False,
    json: options.Json = False,
) -> None:
    """Copy the store into one file; workers may go on meanwhile."""
    from models.backup import backup as write

    session = session_of(ctx)
    _ = session.open_database()
    found = write(session.settings.database_url, file, force=force)
    if json:
        print_json(found)
    else:
        print(f"{found['bytes']} bytes written to {found['file']}")
