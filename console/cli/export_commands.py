"""The command that exports a target's articles (rule P6)."""

from __future__ import annotations

from typing import Annotated

import typer

from console.cli import options
from console.cli.session import session_of
from console.cli.show import print_json

FIELDS = ("status", "total", "exported", "failed")


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("export")(export)


def export(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="Code of the target to export")],
    json: options.Json = False,
) -> None:
    """Export what a target has stored since its last export; exit 1 if a document could not be exported."""
    from config.errors import PermanentJobError, ServiceAway
    from config.settings import redact_url
    from console import actions
    from tasks.export.run import export_target

    session = session_of(ctx)
    actions.require_target(session.database, target)
    try:
        report = export_target(session.database, session.settings, target)
    except PermanentJobError as error:
        raise ServiceAway(str(error)) from error
    if json:
        print_json({name: report[name] for name in FIELDS})
    else:
        print(f"{report['exported']} of {report['total']} pending articles exported to "
              f"{redact_url(session.settings.rag_sink)}")
        for one in report["errors"]:
            print(f"  {one['id']} {one['url']}: {one['error']}")
    if report["status"] != "completed":
        raise typer.Exit(1)
