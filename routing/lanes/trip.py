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

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_and_get(self, key: str, value: str) -> Any:
        """Append `value` to a list and return its oldest element (bytes); raises redis' ResponseError for a refusal."""
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
