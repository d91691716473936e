"""Who calls lane tasks: this process under a store's settings, and a producer that knows nothing of Ratelane."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery

from config.settings import clear_settings, use_settings
from models import db
from tests.support.plain_tasks import NOTED
from tests.support.servers import ValkeyServer, wait_until
from tests.support.store import Store


@contextmanager
def in_process(store: Store) -> Iterator[Any]:
    """Make this process one of the store's, and give the crawl task."""
    use_settings(store.settings())
    db.after_fork()
    from tasks.crawl import crawl_target

    try:
        yield crawl_target
    finally:
        db.get_database().dispose()
        db.after_fork()
        clear_settings()


def stranger(store: Store, **settings: Any) -> Celery:
    """Return an application of somebody else: the same broker, its own settings, none of our tasks."""
    app = Celery("stranger", broker=store.broker_url, set_as_current=False)
    app.conf.update(task_default_queue="inbox", broker_transport_options={"socket_timeout": 5}, **settings)
    return app


class Noted:
    """What the ordinary tasks of `plain_tasks` have written down."""

    def __init__(self, valkey: ValkeyServer) -> None:
        self._valkey = valkey

    @property
    def calls(self) -> list[list[Any]]:
        """Return task id, parent's id and arguments of each call, in order."""
        with self._valkey.client() as line:
            return [json.loads(one) for one in line.lrange(NOTED, 0, -1)]

    def wait_for(self, *args: Any, times: int = 1, timeout: float = 15.0) -> list[list[Any]]:
        """Return the calls that had these last arguments, once there are `times` of them."""
        def found() -> list[list[Any]]:
            return [one for one in self.calls if one[2][-len(args):] == list(args)]

        wait_until(lambda: len(found()) >= times, f"{times} calls with {args}, not {self.calls}", timeout)
        return found()
