"""Asking the broker whether it answers, on a connection of one's own that is gone afterwards."""

from __future__ import annotations

from typing import Any

from config.settings import Settings, redact_url

_ANSWER_WITHIN_SEC = 3.0


def broker_problem(settings: Settings) -> str | None:
    """Return why the broker does not answer, or None if it does."""
    from kombu.connection import Connection

    connect: Any = Connection
    options = {"socket_connect_timeout": _ANSWER_WITHIN_SEC, "socket_timeout": _ANSWER_WITHIN_SEC}
    redis = settings.broker_url.startswith(("redis", "rediss", "sentinel"))
    line = connect(settings.broker_url, connect_timeout=_ANSWER_WITHIN_SEC, transport_options=options if redis else {})
    try:
        # a channel, because the connection of some transports answers before the server does
        line.ensure_connection(max_retries=1, interval_start=0, timeout=_ANSWER_WITHIN_SEC)
        with line.channel() as channel:
            if redis:
                channel.client.ping()
    except Exception as error:
        return redact_url(f"{type(error).__name__}: {error}".splitlines()[0])
    finally:
        line.release()
    return None
