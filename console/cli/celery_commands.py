"""Celery's own programs with this home's settings, and the whole stack in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from console.cli.session import session_of

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("up")(up)
    for command in (worker, beat, flower):
        app.command(command.__name__, context_settings=_PASSED_ON, add_help_option=False)(command)


def up(
    ctx: typer.Context,
    workers: Annotated[int, typer.Option(min=0, help="Worker processes")] = 1,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Slots of each", show_default=False)] = None,
    beat: Annotated[bool, typer.Option("--beat/--no-beat", help="Run the schedule")] = True,
    flower: Annotated[bool, typer.Option("--flower/--no-flower", help="Serve the dashboard")] = True,
    port: Annotated[int, typer.Option(help="Port of the dashboard")] = 5555,
) -> None:
    """Run the whole stack in the foreground: broker, workers, beat and the dashboard."""
    from console.cli.children import Crew
    from console.cli.interrupts import Interrupts
    from console.cli.stack import run_until_interrupted
    from models.migrate import migrate

    session = session_of(ctx)
    settings = session.settings
    if flower:
        _require_free(port)
    with Interrupts() as interrupts, Crew(settings, session.say) as crew:
        crew.start_broker_if_ours()
        migrate(session.open_database())
        crew.start_workers(workers, concurrency or settings.concurrency)
        if beat:
            crew.start("beat", "beat", "--loglevel", "INFO")
        if flower:
            crew.start("flower", "flower", "--address=127.0.0.1", f"--port={port}")
            session.say(f"dashboard: http://127.0.0.1:{port}/")
        session.say(f"running in {settings.home}, logs in {settings.home / 'logs'}; Ctrl-C stops")
        run_until_interrupted(crew, interrupts, session.say)


def _require_free(port: int) -> None:
    """Raise BadInput if somebody listens on the dashboard's port already."""
    import socket

    from config.errors import BadInput

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise BadInput(f"port {port} is taken ({error.strerror}): does `ratelane up` run already? "
                           f"Name another one with --port, or leave the dashboard out with --no-flower") from error


def worker(ctx: typer.Context) -> None:
    """The same as `celery -A config worker …` with this home's settings."""
    _become(ctx, "worker")


def beat(ctx: typer.Context) -> None:
    """The same as `celery -A config beat …` with this home's settings."""
    _become(ctx, "beat")


def flower(ctx: typer.Context) -> None:
    """The same as `celery -A config flower …` with this home's settings."""
    _become(ctx, "flower")


def _become(ctx: typer.Context, program: str) -> None:
    import os

    from config.errors import BadInput
    from console.cli.children import celery_arguments, child_environment
    from console.cli.services import require_broker

    settings = session_of(ctx).settings
    ours, here = Path(__file__).resolve().parents[2], Path.cwd()
    if here != ours and ((here / "config").is_dir() or (here / "config.py").exists()):
        # Celery imports from the current folder before anything else
        raise BadInput(f"the package 'config' in {here} hides Ratelane's; start in another folder")
    if program == "worker" and settings.embedded_broker and "--help" not in ctx.args:
        require_broker(settings)  # Celery would try to connect for ever, without saying who should start it
    argv = celery_arguments(program, *ctx.args)
    os.execvpe(argv[0], argv, child_environment(settings))
