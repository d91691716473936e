"""A lane's Celery queue: it holds at most the one message of the job that a worker has just claimed."""

from __future__ import annotations

from kombu import Exchange, Queue

from routing.keys import lane_name

_DEFAULT = Exchange("")


def lane_queue(group: str, *, declare: bool) -> Queue:
    """Return the queue `rg.<group>`.

    On Redis it is not declared (`declare` false): a declared name would leave two keys behind for ever. On AMQP it is
    durable and declared.
    """
    name = lane_name(group)
    return Queue(name, _DEFAULT, name, no_declare=not declare, durable=True)
