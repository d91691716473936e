"""Asking the broker whether it answers, on a connection of one's own that is gone afterwards."""

from __future__ import annotations

from typing import Any

from config.broker import broker_line, is_redis, may_forget
from config.settings import Settings, redact_url

_ANSWER_WITHIN_SEC = 3.0


def broker_problem(settings: Settings) -> str | None:
    """Return why the broker does not answer, or None if it does."""
    return look_at_broker(settings)[0]


def look_at_broker(settings: Settings) -> tuple[str | None, str | None]:
    """Return why the broker does not answer (None if it does), and a warning if it may lose messages."""
    from kombu.connection import Connection

    connect: Any = Connection
    known = broker_line(settings.broker_url)
    redis = is_redis(settings.broker_url)
    options = known.options | (
        {"socket_connect_timeout": _ANSWER_WITHIN_SEC, "socket_timeout": _ANSWER_WITHIN_SEC} if redis else {})
    line = connect(known.url, ssl=known.tls, connect_timeout=_ANSWER_WITHIN_SEC, transport_options=options)
    try:
        # a channel, because the connection of some transports answers before the server does
        line.ensure_connection(max_retries=1, interval_start=0, timeout=_ANSWER_WITHIN_SEC)
        with line.channel() as channel:
            if redis:
                channel.client.ping()
            return None, may_forget(settings.broker_url, channel)
    except Exception as error:
        return redact_url(f"{type(error).__name__}: {error}".splitlines()[0]), None
    finally:
        line.release()
