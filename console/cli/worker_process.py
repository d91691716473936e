"""A worker of a command's own: what ``celery -A config worker`` starts, without the time that Celery's command line
takes to import every plugin that is installed."""

from __future__ import annotations

import sys
from typing import Any


def arguments(name: str, concurrency: int) -> list[str]:
    """Return the command line of a worker called `name` (``%h``: the host) with `concurrency` slots."""
    return [sys.executable, "-m", __name__, name, str(concurrency)]


def main() -> None:
    """Be a worker until told to stop."""
    from celery.utils.nodenames import host_format

    from config.celery import app

    name, concurrency = sys.argv[1:]
    make: Any = app.Worker
    # mingle and gossip ask the other workers for things that we do not use, and mingle waits a second for the answers
    worker = make(hostname=host_format(name), pool_cls="threads", concurrency=int(concurrency), loglevel="INFO",
                  without_mingle=True, without_gossip=True)
    worker.start()
    sys.exit(worker.exitcode)


if __name__ == "__main__":
    main()
