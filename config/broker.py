"""How the broker's URL becomes a connection: time limits, publisher confirms and TLS (rule D2)."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from config.errors import BadInput
from config.settings import redact_url

#: Redis gives an ordinary task to another worker if the first one has not ended it by then. Lane jobs do not depend on
#: it: leases, not brokers, decide that a worker was lost. It is longer than any ordinary task should take.
REDELIVER_AFTER_SEC = 12 * 3_600
#: a broker that says nothing for so long while it is asked something counts as lost
ANSWERS_WITHIN_SEC = 10.0
CONNECTS_WITHIN_SEC = 5.0
#: how often RabbitMQ and we tell each other that we live, in seconds
HEARTBEAT_SEC = 30

_TLS = "ssl_"
_TRUST = {
    "required": ssl.CERT_REQUIRED, "CERT_REQUIRED": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL,
    "CERT_OPTIONAL": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE, "CERT_NONE": ssl.CERT_NONE,
}


@dataclass(frozen=True)
class BrokerLine:
    """What kombu and Celery are told: `url`, `tls` (the value of ``broker_use_ssl``), and transport options."""

    url: str
    tls: dict[str, Any] | bool = False
    options: dict[str, Any] = field(default_factory=dict)


def is_redis(url: str) -> bool:
    """Tell whether `url` names a Redis or Valkey server."""
    return url.startswith(("redis:", "rediss:", "redis+socket:", "sentinel:"))


def broker_line(url: str) -> BrokerLine:
    """Return how to connect to `url`; raises BadInput for TLS parameters that cannot be.

    TLS is chosen by the scheme (``rediss``, ``amqps``), its files by the URL's own query: ``ssl_ca_certs``,
    ``ssl_certfile``, ``ssl_keyfile``, ``ssl_cert_reqs`` (``required`` unless ``none`` is asked for).
    """
    scheme, _, _, query, _ = parts = urlsplit(url)
    asked = dict(parse_qsl(query))
    trust = asked.get("ssl_cert_reqs", "required")
    if trust not in _TRUST:
        raise BadInput(f"RATELANE_BROKER_URL: ssl_cert_reqs={trust} is neither required, optional nor none")
    if is_redis(url):
        # kombu reads the query by itself, but trusts everybody if it says nothing at all
        return BrokerLine(url, {"ssl_cert_reqs": ssl.CERT_REQUIRED} if scheme == "rediss" else False, _redis(scheme))
    if not scheme.endswith("s") or not scheme.startswith(("amqp", "pyamqp")):
        return BrokerLine(url, False, _amqp())
    tls: dict[str, Any] = {name.removeprefix(_TLS): value for name, value in asked.items() if name.startswith(_TLS)}
    # a host name of None is replaced by that of the URL, and only then it is compared with the certificate's
    tls |= {"cert_reqs": _TRUST[trust]} | ({"server_hostname": None} if trust != "none" else {})
    rest = urlencode({name: value for name, value in asked.items() if not name.startswith(_TLS)})
    return BrokerLine(urlunsplit(parts._replace(query=rest)), tls, _amqp())


def _redis(scheme: str) -> dict[str, Any]:
    """Short time-outs, no repeated pops, one priority."""
    options: dict[str, Any] = {
        "visibility_timeout": REDELIVER_AFTER_SEC, "priority_steps": [0], "health_check_interval": 25,
        "socket_timeout": ANSWERS_WITHIN_SEC, "socket_connect_timeout": CONNECTS_WITHIN_SEC}
    if scheme != "redis+socket":
        options["socket_keepalive"] = True
    return options


def _amqp() -> dict[str, Any]:
    return {"confirm_publish": True, "on_open": _limit_waits}


def _limit_waits(connection: Any) -> None:
    """Limit each wait for RabbitMQ that names no limit of its own; without it a silent server blocks the hub for ever.

    py-amqp's own `read_timeout` does not: where it reads the middle of an answer it tries again without end.
    """
    connection.sock.settimeout(ANSWERS_WITHIN_SEC)


def may_forget(url: str, channel: Any) -> str | None:
    """Return a sentence if the broker behind a kombu `channel` throws messages away when its memory is full.

    None if it does not, if it cannot say, or if it is RabbitMQ, which makes producers wait instead.
    """
    if not is_redis(url):
        return None
    try:
        # never `channel.client`: it may be waiting for the answer to a blocking pop
        with channel.conn_or_acquire() as client:
            found = client.info("memory")
    except Exception:  # a managed server may refuse the question; nothing depends on the answer
        return None
    policy = str(found.get("maxmemory_policy", ""))
    if not int(found.get("maxmemory", 0)) or not policy.startswith("allkeys"):
        return None
    return (f"the broker {redact_url(url)} evicts keys when its memory is full (maxmemory-policy {policy}): messages that "
            "other producers sent can vanish without a trace; set its maxmemory-policy to noeviction")
