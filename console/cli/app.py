"""The command line as a whole: global options, all commands, and errors as one sentence with their exit code."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from console.cli import (
    celery_commands,
    check_commands,
    crawl_commands,
    explain_commands,
    export_commands,
    job_commands,
    lane_commands,
    operator_commands,
    schedule_commands,
    store_commands,
    upkeep_commands,
)
from console.cli.session import Session, command_session

#: the home, or something in it, belongs to somebody else, cannot be written, or is no folder
_NO_RIGHT = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR})

app = typer.Typer(
    name="ratelane",
    help="Fleets of polite crawls: one strict lane per rate group, durable jobs, honest answers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _global_options(
    ctx: typer.Context,
    home: Annotated[
        Path | None, typer.Option(help="Folder of data, logs and locks [default: ./.ratelane]", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log lines; tracebacks of errors")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave")] = False,
) -> None:
    if version:
        typer.echo(_version())
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(2)
    ctx.obj = Session(home=home, quiet=quiet, verbose=verbose)


for _module in (crawl_commands, store_commands, job_commands, explain_commands, lane_commands, operator_commands,
                schedule_commands, export_commands, check_commands, upkeep_commands, celery_commands):
    _module.register(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0, 1 refused or failed, 2 bad input, 3 a service is away."""
    try:
        app(list(arguments), prog_name="ratelane")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except KeyboardInterrupt:
        # outside of what counts interrupts: nothing is running that would have to be told
        return 130
    except Exception as error:
        return _explain(error)
    finally:
        session = command_session()
        if session is not None:
            session.close()
    return 0


def _explain(error: Exception) -> int:
    """Print `error` as one sentence on standard error, with -v its traceback before it; return the exit code."""
    session = command_session()
    if session is not None and session.verbose:
        import traceback

        traceback.print_exception(error)
    from config.errors import RatelaneError
    from config.settings import redact_url

    if isinstance(error, RatelaneError):
        print(f"ratelane: {redact_url(str(error))}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, OSError) and error.errno in _NO_RIGHT:
        from models.db import unusable

        print(f"ratelane: {unusable(error.filename or 'a file', error)}", file=sys.stderr)
        return 2
    away = _database_is_away(error)
    word = _away_in_words(error) if away else f"unexpected {type(error).__name__}"
    hint = "" if session is not None and session.verbose else " (ratelane -v … shows the traceback)"
    print(f"ratelane: {word}: {redact_url(str(error).splitlines()[0] if str(error) else '')}{hint}", file=sys.stderr)
    return 3 if away else 1


def _database_is_away(error: Exception) -> bool:
    if "sqlalchemy" not in sys.modules:
        return False
    from models.db import is_transient

    # SQLite calls a missing table by the same class as a missing file
    return is_transient(error) and "no such" not in str(error)


def _away_in_words(error: Exception) -> str:
    from models.db import storage_trouble

    reason = storage_trouble(error)
    return "the database does not answer" if reason is None else f"the database stores nothing ({reason})"


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("ratelane")
    except metadata.PackageNotFoundError:
        return "dev"
