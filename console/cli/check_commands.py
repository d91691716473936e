"""The command that looks at a target once (rule P7)."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from console.cli import options
from console.cli.session import session_of
from console.cli.show import brief, cell, print_json, print_table, span

_ROWS = 5


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("check")(check)


def check(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="Code of the target to look at")],
    json: options.Json = False,
) -> None:
    """Fetch one list page and one article politely, store nothing of them, and show what was found.

    Exit 1 if nothing was found, the site objected, or the lane is not free; 3 if nobody answers at the site.
    """
    from console import actions

    session = session_of(ctx)
    found = actions.check(session.database, session.settings, target)
    print_json(found) if json else _print(found)
    if found["unreachable"]:
        raise typer.Exit(3)
    if found["blocked"] or not found["items"] or not found["article"]:
        raise typer.Exit(1)


def _print(found: dict[str, Any]) -> None:
    print(f"{found['target_code']}: lane {found['group']} (by {found['rule']})")
    for host, decision in found["robots"].items():
        print(f"robots.txt of {host}: {decision}")
    if found["list"]:
        one = found["list"]
        total = f", {one['total']} in all" if one["total"] is not None else ""
        print(f"{one['url']}: {one['rows']} rows{total}, charset {found['charset']}")
    print_table(("selector", "found", "first"),
                [[name, one["found"], brief(one["text"])] for name, one in found["selectors"].items()], empty="")
    print_table(("date", "title", "address"),
                [[cell(one["published_at"]), brief(one["title"]), one["url"]] for one in found["items"][:_ROWS]],
                empty="no rows")
    article = found["article"]
    if article:
        print(f"{article['url']}: {article['title']!r}, {cell(article['published_at'])}, {article['chars']} characters, "
              f"charset {article['charset'] or '-'}")
        print(f"  {brief(article['text'])}")
    if found["trouble"]:
        print(f"trouble: {found['trouble']}" + (f" ({found['blocked']})" if found["blocked"] else ""))
    _print_estimate(found["estimate"])


def _print_estimate(one: dict[str, Any]) -> None:
    if one["seconds"] is not None:
        print(f"a first full crawl: {one['pages']} pages, {one['items']} items, {one['requests']} requests, "
              f"about {span(one['seconds'])} with {one['gap_sec']:g} s between them")
    else:
        print(f"a first full crawl: about {span(one['per_page_sec'])} a page with {one['gap_sec']:g} s between requests; "
              "the list does not tell how many there are")
