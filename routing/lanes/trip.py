"""One trip to Redis for the two commands of a hand-over: what is published goes out together with the get behind it.

Each trip is a wait in which the hub's thread gives the interpreter to bodies that want it, and gets it back late. Both
commands are one transaction of the server: a refused publish (its memory is full) takes nothing out of the queue, and
a worker that dies leaves no copy behind.
"""

from __future__ import annotations

from typing import Any

from redis.exceptions import ResponseError


class OneTrip:
    """A Redis client as kombu's channel uses one, on a connection of its own."""

    def __init__(self, client: Any) -> None:
        # a pool would look after the connection before and behind each command; its health is checked when it was idle
        self._client = client.client()
        self._holding = False
        self._held: tuple[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def hold(self, holding: bool) -> None:
        """Say whether the next message that is published waits for the get behind it."""
        self._holding = holding

    def lpush(self, key: Any, value: Any) -> Any:
        """Publish `value`, now or with the next get."""
        if not self._holding:
            return self._client.lpush(key, value)
        self._holding = False
        self._held = (key, value)
        return None

    def rpop(self, key: Any) -> Any:
        """Return the oldest message of a queue, None without one; what was held is published before."""
        held, self._held = self._held, None
        if held is None:
            return self._client.rpop(key)
        if held[0] != key:
            self._client.lpush(*held)
            return self._client.rpop(key)
        return self._both(*held)

    def _both(self, key: Any, value: Any) -> Any:
        line = self._client.connection
        line.send_packed_command(line.pack_commands([("MULTI",), ("LPUSH", key, value), ("RPOP", key), ("EXEC",)]))
        # all four are read even if one is a refusal: an answer that is left would be taken for the next command's
        answers = [_answer(line) for _ in range(4)]
        done = answers[-1] if isinstance(answers[-1], list) else []
        for answer in (*answers, *done):
            if isinstance(answer, ResponseError):
                raise answer
        return done[-1]


def _answer(line: Any) -> Any:
    try:
        return line.read_response()
    except ResponseError as refusal:
        return refusal
