"""The Celery application. It names what belongs to upper rooms by string and imports none of it.

``celery -A config worker|beat|flower`` and every command share it; the settings decide about broker and database.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from celery import Celery
from celery.signals import setup_logging
from celery.utils.imports import symbol_by_name
from celery.worker.control import inspect_command

from config.broker import HEARTBEAT_SEC, broker_line
from config.errors import RatelaneError
from config.logs import configure
from config.settings import get_settings

#: ordinary messages: foreign producers' crawl messages and maintenance; the only queue that a broker holds messages in
INBOX = "inbox"

TASK_MODULES = (
    "tasks.crawl", "tasks.export.task", "tasks.checking", "tasks.jobs.seed", "tasks.jobs.cleanup", "tasks.jobs.discovery",
    "tasks.jobs.vitals", "tasks.jobs.call", "tasks.signals")


def asked_pool(argv: Sequence[str]) -> str | None:
    """Return the pool that a command line asks for by its default's name.

    Celery takes ``--pool prefork`` for "nothing was said" and replaces it by the setting, so the setting has to know.
    """
    for number, word in enumerate(argv):
        name = word.removeprefix("--pool=").removeprefix("-P").removeprefix("=")
        if name == "prefork" and name != word:
            return name
        if word in ("-P", "--pool") and argv[number + 1 : number + 2] == ["prefork"]:
            return "prefork"
    return None


def make_app() -> Celery:
    """Return the application under the settings of this process; raises BadInput for settings that cannot be."""
    settings = get_settings()
    line = broker_line(settings.broker_url)
    app = Celery("ratelane", strict_typing=True, control="routing.control:JobControl")
    app.conf.update(
        accept_content=["json"],
        beat_max_loop_interval=5,
        # the schedule is rows: beat keeps nothing, and any number of them may run
        beat_scheduler="tasks.schedule.scheduler:RowScheduler",
        # a channel that RabbitMQ closes (a message unacknowledged for 30 minutes) costs a reconnect, not the worker
        broker_channel_error_retry=True,
        broker_connection_max_retries=None,
        broker_connection_retry_on_startup=True,
        broker_heartbeat=HEARTBEAT_SEC,
        broker_transport_options=line.options,
        broker_url=line.url,
        broker_use_ssl=line.tls,
        enable_utc=True,
        imports=TASK_MODULES,
        result_backend="models.result_backend:RatelaneBackend",
        result_expires=None,
        result_serializer="json",
        task_acks_late=True,
        task_default_queue=INBOX,
        task_ignore_result=False,
        task_reject_on_worker_lost=True,
        task_routes=("routing.router:route",),
        task_serializer="json",
        task_send_sent_event=False,
        task_track_started=False,
        timezone="UTC",
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_concurrency=settings.concurrency,
        worker_disable_rate_limits=True,
        worker_hijack_root_logger=False,
        worker_pool=asked_pool(sys.argv) or "threads",
        worker_prefetch_multiplier=1,
        worker_proc_alive_timeout=30,
        # Flower and `celery events` switch them on while they watch; nobody else pays for them
        worker_send_task_events=False,
    )
    app.steps["consumer"].add("routing.lanes.step:LaneConsumer")
    return app


@inspect_command()
def lanes(state: Any) -> dict[str, Any]:
    """Return what a worker holds: `celery -A config inspect lanes` (rule U2).

    Registered here, because Celery's own command knows only what the application's module registers; answered by an
    upper room.
    """
    answer: dict[str, Any] = symbol_by_name("routing.lanes.control:lanes")(state)
    return answer


@setup_logging.connect(weak=False)
def _log_lines(loglevel: int = 20, **_: Any) -> None:
    configure(get_settings(), level=loglevel)


try:
    app = make_app()
except RatelaneError as error:
    # Celery would print a traceback of its own search for the application; a setting is a person's mistake
    print(f"ratelane: {error}", file=sys.stderr)
    raise SystemExit(error.exit_code) from error

if "flower" in sys.argv[1:]:
    # Flower asks its application nothing before it has made its list of handlers: ours have to be in it by then
    symbol_by_name("console.flower.setup:install")()
