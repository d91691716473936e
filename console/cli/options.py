"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from models.queries import JobFilter

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


def job_filter(**fields: Any) -> JobFilter:
    """Return the filter that a command's options make; raises BadInput for an unknown status: no empty list."""
    from config.errors import BadInput
    from models.queries import STATUSES, JobFilter

    status = fields.get("status")
    if status is not None and status not in STATUSES:
        raise BadInput(f"no status is called {status!r}; there are {', '.join(STATUSES)}")
    return JobFilter(**fields)


def require_ids_or_filters(job_ids: Sequence[str] | None, wanted: JobFilter, verb: str) -> None:
    """Raise BadInput unless jobs are named in one way: by their ids, or by filters."""
    from config.errors import BadInput

    if bool(job_ids) == wanted.narrows:
        raise BadInput(f"name the jobs to {verb} either by id or by filters (--status, --site, …)")
