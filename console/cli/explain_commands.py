"""The command that says why a job is not running (rule J16)."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from console.cli import options
from console.cli.session import session_of
from console.cli.show import print_json, print_table


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("why")(why)


def why(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the job")],
    json: options.Json = False,
) -> None:
    """Say why a job is not running: every reason, its place in line, and when it will probably start."""
    from console import answers

    with session_of(ctx).database.look() as conn:
        document = answers.why(conn, job_id)
    if json:
        print_json(document)
        return
    print(f"job {job_id} is {document['status']}{place_of(document)}")
    print_reasons(document)


def print_reasons(document: dict[str, Any]) -> None:
    """Print the reasons of a `why` document, one a row."""
    print_table(("reason", "what"), ([one["code"], one["text"]] for one in document["reasons"]), empty="")


def place_of(document: dict[str, Any]) -> str:
    """Return place in line and expected start in words; nothing for a job that does not wait."""
    if document["position"] is None:
        return ""
    start = document["expected_start"]
    return f", number {document['position']} in its lane, " + (
        f"expected to start at {start}" if start else "and nothing measured tells when it starts")
