"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output")]
Site = Annotated[str | None, typer.Option("--site", help="Only this site", show_default=False)]
Target = Annotated[str | None, typer.Option("--target", help="Only this target", show_default=False)]
Status = Annotated[
    str | None, typer.Option("--status", help="queued, running, done, failed or cancelled", show_default=False)
]
Group = Annotated[str | None, typer.Option("--group", help="Only this rate group", show_default=False)]
Kind = Annotated[str | None, typer.Option("--kind", help="crawl, discovery, vitals, export …", show_default=False)]
Source = Annotated[str | None, typer.Option("--source", help="manual, schedule or retry", show_default=False)]
Run = Annotated[int | None, typer.Option("--run", help="Only jobs of this run", show_default=False)]
DedupeKey = Annotated[str | None, typer.Option("--dedupe-key", help="Only jobs with this key", show_default=False)]
Search = Annotated[
    str | None, typer.Option("--search", help="Text in ids and codes, or the start of the error", show_default=False)
]
