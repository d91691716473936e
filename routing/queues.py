"""A lane's Celery queue: it holds at most the one message of the job that a worker has just claimed."""

from __future__ import annotations

from kombu import Exchange, Queue

_DEFAULT = Exchange("")
#: longer than a day, so that a daily crawl finds its queue; nobody else deletes one, so no publish meets a deletion
EXPIRES_SEC = 2 * 86_400


def lane_queue(name: str, *, declare: bool) -> Queue:
    """Return the queue `name` (`routing.keys.lane_name` of a group).

    On Redis it is not declared (`declare` false): a declared name would leave two keys behind for ever. On RabbitMQ it
    is durable and declared, and the server deletes it when nobody has used it for two days.
    """
    if not declare:
        return Queue(name, _DEFAULT, name, no_declare=True)
    return Queue(name, _DEFAULT, name, durable=True, expires=EXPIRES_SEC)
