"""A worker of a command's own: what ``celery -A config worker`` starts, without the time that Celery's command line
takes to import every plugin that is installed.

It can be started before anybody knows what it is to do: most of a start is imports, and those need no orders.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

STANDING_BY = "--stand-by"


def arguments(name: str, concurrency: int) -> list[str]:
    """Return the command line of a worker called `name` (``%h``: the host) with `concurrency` slots."""
    return [sys.executable, "-m", __name__, name, str(concurrency)]


def standing_by() -> list[str]:
    """Return the command line of a process that imports what a worker needs and waits for `order` on its input."""
    return [sys.executable, "-m", __name__, STANDING_BY]


def order(name: str, concurrency: int, log_path: Path, folder: Path) -> bytes:
    """Return the line that makes a worker of a process that stands by, its output appended to `log_path`."""
    words = {"name": name, "concurrency": concurrency, "log": str(log_path), "folder": str(folder)}
    return json.dumps(words).encode() + b"\n"


def main() -> None:
    """Be a worker until told to stop; one that stands by and gets no order ends without a word."""
    gc.disable()  # what is imported stays: looking through it again and again only takes time
    if sys.argv[1:] == [STANDING_BY]:
        _import_worker()
        line = sys.stdin.buffer.readline()
        if not line.endswith(b"\n"):
            return
        words = json.loads(line)
        _write_into(Path(words["log"]))
        os.chdir(words["folder"])
        name, concurrency = words["name"], words["concurrency"]
        sys.argv[1:] = [name, str(concurrency)]
    else:
        name, concurrency = sys.argv[1], int(sys.argv[2])
    _run(name, concurrency)


def _import_worker() -> None:
    """Import what a worker needs; what fails here fails again, aloud, once there is a log to say it in."""
    import importlib
    from contextlib import suppress

    with suppress(Exception, SystemExit):
        from config.celery import TASK_MODULES

        for name in (*TASK_MODULES, "models.result_backend", "routing.lanes.step", "routing.control",
                     "celery.worker.worker", "celery.concurrency.thread", "kombu.transport.redis",
                     # asked for by the first page of most crawls, of all lanes at once
                     "tasks.pipeline.adapters.list", "encodings.idna"):
            importlib.import_module(name)


def _write_into(log_path: Path) -> None:
    """Append both outputs to a log."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with open(log_path, "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)


def _run(name: str, concurrency: int) -> None:
    from celery.utils.nodenames import host_format

    from config.celery import app

    make: Any = app.Worker
    # mingle and gossip ask the other workers for things that we do not use, and mingle waits a second for the answers
    worker = make(hostname=host_format(name), pool_cls="threads", concurrency=concurrency, loglevel="INFO",
                  without_mingle=True, without_gossip=True)
    gc.freeze()
    gc.enable()
    worker.start()
    sys.exit(worker.exitcode)


if __name__ == "__main__":
    main()
