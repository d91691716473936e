"""The desk of Flower's process: database, settings and a few threads, so that no read stops the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from config.clock import Stopwatch
from config.settings import Settings, get_settings
from models.db import Database

T = TypeVar("T")
#: reads at a time: a dashboard must not take what workers need
THREADS = 4
#: for so long an answer is everybody's who asks the same
SHARED_SEC = 1.5
#: so many answers are kept: a page with other filters is another one
_KEPT = 200


class Desk:
    """What one process asks with; made at the first request, after whatever forks are to come."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.db = Database(settings.database_url, connections=THREADS + 2, plan_each=True)
        self._answers: dict[Any, _Shared] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="ratelane-desk")

    async def ask(self, read: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Return what ``read(db, settings, *arguments, **options)`` returns, done on one of the desk's threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, lambda: read(self.db, self.settings, *arguments, **options))

    async def shared(self, read: Callable[..., dict[str, Any]], *arguments: Any, within: float = SHARED_SEC,
                     **options: Any) -> dict[str, Any]:
        """Return what `ask` would, at most `within` seconds old, with its age in seconds as ``age_sec``.

        Whoever asks the same meanwhile, or while the answer is on its way, gets the same one: what somebody looks at
        costs the database the same however many look, and nothing while nobody does. Arguments must be hashable.
        """
        key = (read, arguments, tuple(sorted(options.items())))
        kept = self._answers.get(key)
        if kept is None or kept.is_over(within):
            kept = _Shared(asyncio.ensure_future(self.ask(read, *arguments, **options)))
            self._answers[key] = kept
            while len(self._answers) > _KEPT:
                self._answers.pop(next(iter(self._answers)))
        # one who goes away must not take the answer from the others
        found = await asyncio.shield(kept.answer)
        return {**found, "age_sec": round(kept.age.elapsed(), 1)}


class _Shared:
    """An answer on its way or there, and how old the snapshot can be at most: counted from before it was asked for."""

    def __init__(self, answer: asyncio.Future[dict[str, Any]]) -> None:
        self.answer, self.age = answer, Stopwatch()

    def is_over(self, within: float) -> bool:
        """Whether it must be asked for anew: too old, or it was an error."""
        if not self.answer.done():
            return False
        return self.age.elapsed() > within or self.answer.cancelled() or self.answer.exception() is not None


_desk: Desk | None = None
_making = threading.Lock()


def desk() -> Desk:
    """Return the desk of this process."""
    global _desk
    with _making:
        if _desk is None:
            _desk = Desk(get_settings())
        return _desk
